//! Content addresses.

use serde::{Deserialize, Serialize};
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

/// 32 bytes that travel as one CBOR byte string of 34 bytes instead of an array of numbers.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Bytes32(serde_bytes::ByteArray<32>);

impl From<[u8; 32]> for Bytes32 {
    fn from(bytes: [u8; 32]) -> Self {
        Self(serde_bytes::ByteArray::new(bytes))
    }
}

impl From<Bytes32> for [u8; 32] {
    fn from(bytes: Bytes32) -> Self {
        bytes.0.into_array()
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
    use crate::codec;

    #[test]
    fn names_bytes_and_travels_as_a_byte_string() {
        let id = ContentId::of(b"echo");
        assert!(id.matches(b"echo") && !id.matches(b"Echo"));
        let bytes = codec::encode(&id, 64).unwrap();
        assert_eq!(bytes.len(), 34);
        assert_eq!(codec::decode::<ContentId>(&bytes, 64).unwrap(), id);
        assert_eq!(ContentId::from_hex(&id.to_string()), Some(id));
        assert_eq!(ContentId::from_hex("12"), None);
    }
}
