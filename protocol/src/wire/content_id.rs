//! Content addresses.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// BLAKE3 hash of some bytes: their name everywhere in Echo.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Bytes32", into = "Bytes32")]
pub struct ContentId([u8; 32]);

impl ContentId {
    /// The address of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// An address from its 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the address.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// Whether `bytes` are what this address names.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        blake3::hash(bytes) == self.0
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentId({})", &hex::encode(self.0)[..12])
    }
}

/// Position of a chunk in its snapshot, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChunkIndex(pub u32);

/// 32 bytes that travel as one CBOR byte string of 34 bytes instead of an array of numbers, and are
/// written as 64 hexadecimal digits in forms that people read.
pub(crate) struct Bytes32([u8; 32]);

impl Serialize for Bytes32 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.serialize_str(&hex::encode(self.0)),
            false => serde_bytes::ByteArray::new(self.0).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes32 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return Ok(Self(serde_bytes::ByteArray::deserialize(deserializer)?.into_array()));
        }
        let id = ContentId::from_hex(&String::deserialize(deserializer)?);
        id.map(|id| Self(id.0)).ok_or_else(|| de::Error::custom("not 64 hexadecimal digits"))
    }
}

impl From<[u8; 32]> for Bytes32 {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl From<Bytes32> for [u8; 32] {
    fn from(bytes: Bytes32) -> Self {
        bytes.0
    }
}

impl From<ContentId> for Bytes32 {
    fn from(id: ContentId) -> Self {
        id.0.into()
    }
}

impl From<Bytes32> for ContentId {
    fn from(bytes: Bytes32) -> Self {
        Self(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::codec;

    #[test]
    fn names_bytes_and_travels_as_a_byte_string() {
        let id = ContentId::of(b"echo");
        assert!(id.matches(b"echo") && !id.matches(b"Echo"));
        let bytes = codec::encode(&id, 64).unwrap();
        assert_eq!(bytes.len(), 34);
        assert_eq!(codec::decode::<ContentId>(&bytes, 64).unwrap(), id);
        assert_eq!(ContentId::from_hex(&id.to_string()), Some(id));
        assert_eq!(ContentId::from_hex("12"), None);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<ContentId>(&json).unwrap(), id);
        assert!(serde_json::from_str::<ContentId>("\"12\"").is_err());
    }
}
