//! What targets share.

pub mod suite;

use echo_protocol::wire::codec::{decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A change of some bytes: where, how, and with which byte.
pub type Edit = (u16, u8, u8);

/// `sample` after `edits`. From nothing, a fuzzer hardly ever finds a message with the right field
/// names: so it starts from sound ones.
pub fn edited(sample: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for &(at, how, byte) in edits {
        let at = usize::from(at) % (bytes.len() + 1);
        match how % 4 {
            0 => bytes.insert(at, byte),
            1 => bytes.truncate(at),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ if at < bytes.len() => bytes[at] = byte,
            _ => bytes.push(byte),
        }
    }
    bytes
}

/// `pattern` again and again, to `length` bytes: long data from a short input. Nothing but
/// zeros without a pattern.
pub fn tiled(pattern: &[u8], length: usize) -> Vec<u8> {
    let bytes = if pattern.is_empty() { &[0] } else { pattern };
    bytes.iter().copied().cycle().take(length).collect()
}

/// Decodes a message of at most `cap` bytes. What is read has one encoding of our own, which is
/// read as the same.
pub fn reread<T: Serialize + DeserializeOwned>(bytes: &[u8], cap: usize) -> Option<T> {
    let value: T = decode(bytes, cap).ok()?;
    // Other forms of CBOR are read as well, and some are shorter than ours.
    if let Ok(written) = encode(&value, cap) {
        let again: T = decode(&written, cap).expect("what was written is read");
        assert_eq!(encode(&again, cap).expect("what was written is written again"), written);
    }
    Some(value)
}
