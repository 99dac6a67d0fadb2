//! Records: checksummed CBOR, so that damaged bytes are noticed and never decoded into something else.

use echo_protocol::wire::codec;
use serde::{Serialize, de::DeserializeOwned};

use super::{MAX_VALUE_BYTES, ObjectStoreError};

/// Bytes of BLAKE3 in front of every record.
const CHECKSUM_BYTES: usize = 16;

/// Encodes `value` after its checksum.
pub(crate) fn seal<T: Serialize>(value: &T) -> Result<Vec<u8>, ObjectStoreError> {
    let body = codec::encode(value, MAX_VALUE_BYTES - CHECKSUM_BYTES)
        .map_err(|error| ObjectStoreError::Encoding(error.to_string()))?;
    let mut record = Vec::with_capacity(CHECKSUM_BYTES + body.len());
    record.extend_from_slice(&checksum(&body));
    record.extend_from_slice(&body);
    Ok(record)
}

/// Decodes a record; `None` when it is damaged.
pub(crate) fn unseal<T: DeserializeOwned>(record: &[u8]) -> Option<T> {
    let (found, body) = record.split_at_checked(CHECKSUM_BYTES)?;
    if found != checksum(body) {
        return None;
    }
    codec::decode(body, MAX_VALUE_BYTES).ok()
}

fn checksum(body: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut sum = [0; CHECKSUM_BYTES];
    sum.copy_from_slice(&blake3::hash(body).as_bytes()[..CHECKSUM_BYTES]);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_truncation_and_any_flipped_byte_is_noticed() {
        let record = seal(&(7u64, "text".to_owned())).unwrap();
        assert_eq!(unseal::<(u64, String)>(&record), Some((7, "text".into())));
        for at in 0..record.len() {
            assert_eq!(unseal::<(u64, String)>(&record[..at]), None);
            let mut flipped = record.clone();
            flipped[at] ^= 0x10;
            assert_eq!(unseal::<(u64, String)>(&flipped), None);
        }
    }
}
