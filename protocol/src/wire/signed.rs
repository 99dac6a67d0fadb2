//! Signatures over bytes as received.
//!
//! A [`Signed`] value carries the encoded body, never the decoded one: what was signed is what is
//! verified, and what is forwarded is what was received. The signature covers
//! `CONTEXT ‖ 0x00 ‖ BLAKE3(body)`; the context keeps a signature made for one kind of message from
//! being presented as another kind.

use crate::wire::codec;
use crate::wire::codec::CodecError;
use crate::wire::content_id::ContentId;
use crate::wire::identity::{NodeKey, PublicKey, Signature};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::marker::PhantomData;

/// A kind of message that is signed.
pub trait Signable: Serialize + DeserializeOwned {
    /// Names this kind of message and its version in every signature.
    const CONTEXT: &'static str;
    /// The names of earlier versions, whose bodies have another form. They are refused by name.
    const BEFORE: &'static [&'static str] = &[];
    /// Longest encoding of the body, in bytes.
    const MAX_BYTES: usize;
}

/// An encoded `T` with its signer's key and signature. Nothing about it is trusted before [`Signed::open`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Signed<T> {
    #[serde(with = "serde_bytes")]
    body: Vec<u8>,
    key: PublicKey,
    signature: Signature,
    #[serde(skip)]
    kind: PhantomData<fn() -> T>,
}

/// Why a signed message is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SignedError {
    /// The signature does not belong to these bytes and this key.
    #[error("{context}: the signature by {key} does not match the bytes")]
    Signature {
        /// The kind of message.
        context: &'static str,
        /// The key that it claims.
        key: PublicKey,
    },
    /// Rightly signed, by a program of an earlier version.
    #[error(
        "{before}: of an earlier version of Echo, where this program reads {context}; both sides need the same version"
    )]
    Before {
        /// The kind of message that is read here.
        context: &'static str,
        /// The kind that was signed.
        before: &'static str,
    },
    /// Rightly signed, but not by the key that has to sign it.
    #[error("{context}: signed by {found}, but only {expected} may sign it")]
    WrongKey {
        /// The kind of message.
        context: &'static str,
        /// The key that signed the envelope.
        found: PublicKey,
        /// Who has to sign.
        expected: PublicKey,
    },
    /// The body is too long or does not decode.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Bytes of an encoded [`Signed`] beside its body: key, signature, field names and headers.
pub const ENVELOPE_BYTES: usize = 160;

impl<T: Signable> Signed<T> {
    /// Encodes and signs `value`.
    pub fn sign(value: &T, key: &NodeKey) -> Result<Self, CodecError> {
        let body = codec::encode(value, T::MAX_BYTES)?;
        let signature = key.sign(&signed_message(T::CONTEXT, &body));
        Ok(Self { body, key: key.public(), signature, kind: PhantomData })
    }

    /// Verifies the signature; what was signed may still be no `T`.
    pub fn verify(&self) -> Result<(), SignedError> {
        if self.body.len() > T::MAX_BYTES {
            return Err(CodecError::TooLarge { len: self.body.len(), cap: T::MAX_BYTES }.into());
        }
        if self.is_signed_as(T::CONTEXT) {
            return Ok(());
        }
        match T::BEFORE.iter().copied().find(|before| self.is_signed_as(before)) {
            Some(before) => Err(SignedError::Before { context: T::CONTEXT, before }),
            None => Err(SignedError::Signature { context: T::CONTEXT, key: self.key }),
        }
    }

    fn is_signed_as(&self, context: &str) -> bool {
        self.key.verifies(&signed_message(context, &self.body), &self.signature)
    }

    /// Verifies the signature, then decodes the body.
    pub fn open(&self) -> Result<T, SignedError> {
        self.verify()?;
        Ok(codec::decode(&self.body, T::MAX_BYTES)?)
    }

    /// [`Signed::open`], and the signer must be `expected`.
    pub fn open_from(&self, expected: &PublicKey) -> Result<T, SignedError> {
        if self.key != *expected {
            return Err(SignedError::WrongKey { context: T::CONTEXT, found: self.key, expected: *expected });
        }
        self.open()
    }

    /// The whole envelope, encoded.
    pub fn to_bytes(&self) -> Vec<u8> {
        codec::encode(self, T::MAX_BYTES + ENVELOPE_BYTES)
            .expect("a body within its limit fits the envelope's")
    }

    /// Decodes an envelope; nothing in it is verified yet.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        codec::decode(bytes, T::MAX_BYTES + ENVELOPE_BYTES)
    }

    /// What there is of the body in the beginning of an encoded envelope, which may end anywhere. `None`
    /// where the body does not begin in these bytes.
    pub fn begun_body(beginning: &[u8]) -> Option<&[u8]> {
        codec::begun_bytes(beginning, "body")
    }

    /// The key that claims to have signed.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// The encoded body, of which nothing is verified.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Content address of the body.
    pub fn body_id(&self) -> ContentId {
        ContentId::of(&self.body)
    }
}

fn signed_message(context: &str, body: &[u8]) -> Vec<u8> {
    [context.as_bytes(), &[0], blake3::hash(body).as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Note(String);
    impl Signable for Note {
        const CONTEXT: &'static str = "echo test note 1";
        const MAX_BYTES: usize = 100;
    }

    #[test]
    fn the_body_is_found_in_the_beginning_of_an_envelope() {
        let signed = Signed::sign(&Note("n".repeat(90)), &NodeKey::from_secret([1; 32])).unwrap();
        let whole = signed.to_bytes();
        assert_eq!(Signed::<Note>::begun_body(&whole), Some(signed.body()));
        let begun = Signed::<Note>::begun_body(&whole[..30]).unwrap();
        assert!(!begun.is_empty() && signed.body().starts_with(begun), "{begun:?}");
        // Whoever writes keys of maps in another order puts the body last.
        let sorted = Sorted { key: signed.key(), body: signed.body().to_vec() };
        let sorted = codec::encode(&sorted, 1 << 10).unwrap();
        assert_eq!(Signed::<Note>::begun_body(&sorted), Some(signed.body()));
        for nothing in [&whole[..3], &[], &[0xff; 40], b"body"] {
            assert_eq!(Signed::<Note>::begun_body(nothing), None);
        }
    }

    #[derive(Serialize)]
    struct Sorted {
        key: PublicKey,
        #[serde(with = "serde_bytes")]
        body: Vec<u8>,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Order(String);
    impl Signable for Order {
        const CONTEXT: &'static str = "echo test order 1";
        const MAX_BYTES: usize = 100;
    }

    #[test]
    fn opens_what_was_signed_and_nothing_else() {
        let key = NodeKey::from_secret([1; 32]);
        let signed = Signed::sign(&Note("hi".into()), &key).unwrap();
        let received = Signed::<Note>::from_bytes(&signed.to_bytes()).unwrap();
        assert_eq!(received.open_from(&key.public()).unwrap(), Note("hi".into()));

        let mut altered = received.clone();
        altered.body[1] ^= 1;
        assert!(matches!(altered.open(), Err(SignedError::Signature { .. })));

        let other = NodeKey::from_secret([2; 32]);
        assert!(matches!(received.open_from(&other.public()), Err(SignedError::WrongKey { .. })));
        let mut stolen = received;
        stolen.key = other.public();
        assert!(matches!(stolen.open(), Err(SignedError::Signature { .. })));
    }

    #[test]
    fn a_signature_holds_for_one_kind_of_message() {
        let signed = Signed::sign(&Note("hi".into()), &NodeKey::from_secret([1; 32])).unwrap();
        let posed = Signed::<Order>::from_bytes(&signed.to_bytes()).unwrap();
        assert!(matches!(posed.open(), Err(SignedError::Signature { .. })));
    }

    #[test]
    fn an_earlier_version_is_refused_by_its_name() {
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        struct Later(String);
        impl Signable for Later {
            const CONTEXT: &'static str = "echo test note 2";
            const BEFORE: &'static [&'static str] = &[Note::CONTEXT];
            const MAX_BYTES: usize = 100;
        }

        let key = NodeKey::from_secret([1; 32]);
        let before = Signed::sign(&Note("hi".into()), &key).unwrap().to_bytes();
        let mut read = Signed::<Later>::from_bytes(&before).unwrap();
        let refused = read.open_from(&key.public()).unwrap_err();
        assert!(matches!(refused, SignedError::Before { before: "echo test note 1", .. }), "{refused}");
        assert!(refused.to_string().contains("echo test note 2"), "{refused}");
        read.body[1] ^= 1;
        assert!(matches!(read.open(), Err(SignedError::Signature { .. })));
    }

    #[test]
    fn the_envelope_allowance_is_enough() {
        let key = NodeKey::from_secret([1; 32]);
        let signed = Signed::sign(&Note("x".repeat(98)), &key).unwrap();
        assert!(signed.to_bytes().len() <= Note::MAX_BYTES + ENVELOPE_BYTES);
        assert!(Signed::sign(&Note("x".repeat(99)), &key).is_err());
    }
}
