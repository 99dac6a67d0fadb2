//! Ed25519 identities: the same key signs messages and is the peer's name on the network.

use crate::wire::content_id::Bytes32;
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A peer's public key; its owner's name everywhere in Echo.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Bytes32", into = "Bytes32")]
pub struct PublicKey([u8; 32]);

/// An ed25519 signature, 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Signature(serde_bytes::ByteArray<64>);

/// A secret signing key. Its bytes never appear in `Debug` output.
pub struct NodeKey(SigningKey);

/// A key that could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The operating system gave no randomness.
    #[error("the operating system gave no randomness for a new identity: {0}")]
    Randomness(String),
}

impl NodeKey {
    /// A new key from the operating system's randomness.
    pub fn generate() -> Result<Self, IdentityError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|e| IdentityError::Randomness(e.to_string()))?;
        Ok(Self::from_secret(secret))
    }

    /// The key of a 32-byte secret.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&secret))
    }

    /// The 32-byte ed25519 secret, for key files and the host.
    pub fn secret(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The public half, which names this peer everywhere.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// Signs `message` with ed25519; the same bytes give the same signature.
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(serde_bytes::ByteArray::new(self.0.sign(message).to_bytes()))
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey(public {})", self.public())
    }
}

impl PublicKey {
    /// A key from its 32 bytes, unchecked: bytes that are no point on the curve verify nothing.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// Whether this key made `signature` over `message` (strict: no small-order
    /// keys, no malleable signatures).
    pub fn verifies(&self, message: &[u8], signature: &Signature) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.to_bytes());
        VerifyingKey::from_bytes(&self.0).is_ok_and(|key| key.verify_strict(message, &signature).is_ok())
    }

    /// The first eight hexadecimal digits, for status lines.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..4])
    }
}

impl Signature {
    /// A signature from its 64 bytes.
    pub fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(serde_bytes::ByteArray::new(bytes))
    }

    /// The 64 bytes of the signature.
    pub fn to_bytes(&self) -> [u8; 64] {
        self.0.into_array()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.short())
    }
}

impl From<PublicKey> for Bytes32 {
    fn from(key: PublicKey) -> Self {
        key.0.into()
    }
}

impl From<Bytes32> for PublicKey {
    fn from(bytes: Bytes32) -> Self {
        Self(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_and_verifies() {
        let key = NodeKey::from_secret([5; 32]);
        let signature = key.sign(b"hello");
        assert!(key.public().verifies(b"hello", &signature));
        assert!(!key.public().verifies(b"hellO", &signature));
        assert!(!NodeKey::from_secret([6; 32]).public().verifies(b"hello", &signature));
        // All-zero bytes are a small-order point: strict verification accepts nothing from it.
        assert!(!PublicKey::from_bytes([0; 32]).verifies(b"hello", &Signature::from_bytes([0; 64])));
    }

    #[test]
    fn debug_output_keeps_the_secret() {
        let key = NodeKey::from_secret([0xab; 32]);
        assert!(!format!("{key:?}").contains("abababab"));
        assert_ne!(NodeKey::generate().unwrap().secret(), NodeKey::generate().unwrap().secret());
    }
}
