//! Size-capped CBOR: the one place that knows `serde_cbor`.
//!
//! Every message is refused by length before it is looked at, nesting is bounded by the decoder,
//! and bytes after the value are an error. Tests decode what this encodes with `ciborium`, so that
//! the archived crate can be replaced here.

use ciborium_io::Read as _;
use ciborium_ll::{Decoder, Header};
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};

/// Nesting levels that the decoder follows before it refuses the message.
pub const MAX_DEPTH: usize = 128;

/// Why bytes are not the message that was expected.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The encoding is longer than this kind of message may be.
    #[error("message of {len} bytes exceeds the limit of {cap} bytes for its kind")]
    TooLarge {
        /// Length of the encoding in bytes.
        len: usize,
        /// The limit in bytes.
        cap: usize,
    },
    /// Not CBOR, not this type, nested too deeply, or followed by more bytes.
    #[error("malformed message: {0}")]
    Malformed(String),
}

/// Encodes `value`, refusing results longer than `cap` bytes.
pub fn encode<T: Serialize>(value: &T, cap: usize) -> Result<Vec<u8>, CodecError> {
    let bytes = serde_cbor::to_vec(value).map_err(|e| CodecError::Malformed(e.to_string()))?;
    if bytes.len() > cap { Err(CodecError::TooLarge { len: bytes.len(), cap }) } else { Ok(bytes) }
}

/// Decodes exactly one value from `bytes`, refusing inputs longer than `cap` bytes before reading them.
///
/// Collections grow as elements arrive, so a lying length reserves no memory beyond a small constant.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], cap: usize) -> Result<T, CodecError> {
    if bytes.len() > cap {
        return Err(CodecError::TooLarge { len: bytes.len(), cap });
    }
    serde_cbor::from_slice(bytes).map_err(|e| CodecError::Malformed(e.to_string()))
}

/// Lets `seed` read the beginning of `bytes` as far as it likes. What it has read is in the seed itself: one
/// that stops in the middle of a value always fails, as more follows.
pub(crate) fn read_prefix<'de, S: DeserializeSeed<'de>>(bytes: &'de [u8], seed: S) {
    let mut decoder = serde_cbor::Deserializer::from_slice(bytes);
    drop(seed.deserialize(&mut decoder));
}

/// The longest name or value that [`begun_bytes`] passes over: a signature has 64 bytes.
const LONGEST_PASSED: usize = 64;

/// What there is of the byte string `name` in the beginning of a map of byte strings, which may end
/// anywhere. `None` where that string does not begin in these bytes.
pub(crate) fn begun_bytes<'a>(beginning: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut decoder = Decoder::from(beginning);
    let Header::Map(_) = decoder.pull().ok()? else { return None };
    let mut passed = [0; LONGEST_PASSED];
    loop {
        let Header::Text(Some(len)) = decoder.pull().ok()? else { return None };
        decoder.read_exact(passed.get_mut(..len)?).ok()?;
        let is_it = passed[..len] == *name.as_bytes();
        let Header::Bytes(Some(len)) = decoder.pull().ok()? else { return None };
        if is_it {
            let begun = beginning.get(decoder.offset()..)?;
            return Some(&begun[..begun.len().min(len)]);
        }
        decoder.read_exact(passed.get_mut(..len)?).ok()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        words: Vec<String>,
        numbers: Vec<f32>,
        #[serde(with = "serde_bytes")]
        blob: Vec<u8>,
        inner: Option<(u64, bool)>,
    }

    fn sample() -> impl Strategy<Value = Sample> {
        let numbers = proptest::collection::vec(-1e6f32..1e6, 0..20);
        let blob = proptest::collection::vec(any::<u8>(), 0..50);
        (proptest::collection::vec(".{0,8}", 0..5), numbers, blob, any::<Option<(u64, bool)>>())
            .prop_map(|(words, numbers, blob, inner)| Sample { words, numbers, blob, inner })
    }

    proptest! {
        #[test]
        fn ciborium_reads_what_we_write(value in sample()) {
            let bytes = encode(&value, 1 << 16).unwrap();
            prop_assert_eq!(&decode::<Sample>(&bytes, 1 << 16).unwrap(), &value);
            prop_assert_eq!(&ciborium::from_reader::<Sample, _>(bytes.as_slice()).unwrap(), &value);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode::<Sample>(&bytes, 1 << 16);
        }
    }

    #[test]
    fn nesting_ten_thousand_deep_is_refused() {
        let mut bytes = vec![0x81; 10_000];
        bytes.push(0x00);
        assert!(matches!(decode::<serde_cbor::Value>(&bytes, 1 << 20), Err(CodecError::Malformed(_))));
        // As the value of a field that the type does not know: skipping must not
        // recurse without bound either.
        let mut hidden = vec![0xa1, 0x61, b'z'];
        hidden.extend_from_slice(&bytes);
        assert!(matches!(decode::<Sample>(&hidden, 1 << 20), Err(CodecError::Malformed(_))));
    }

    #[test]
    fn a_lying_length_reserves_no_memory() {
        // An array that claims 2^61 elements and holds none.
        let bytes = [0x9b, 0x20, 0, 0, 0, 0, 0, 0, 0];
        assert!(decode::<Vec<u64>>(&bytes, 100).is_err());
        let bytes = [0x5b, 0x20, 0, 0, 0, 0, 0, 0, 0];
        assert!(decode::<serde_bytes::ByteBuf>(&bytes, 100).is_err());
    }

    #[test]
    fn limits_and_trailing_bytes_are_errors() {
        assert!(matches!(encode(&vec![0u8; 100], 50), Err(CodecError::TooLarge { cap: 50, .. })));
        assert!(matches!(decode::<u64>(&[0; 51], 50), Err(CodecError::TooLarge { len: 51, cap: 50 })));
        assert!(decode::<u64>(&[1, 2], 50).is_err());
    }
}
