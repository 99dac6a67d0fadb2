//! The table of a `Precompiled` normalizer, which replaces characters by entries: the length of a
//! trie, the trie, and entries that end with a zero byte.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;
use tokenizers::normalizers::Precompiled;

use crate::text::tokenizer::TokenizerError;

/// The field that holds it.
const NAME: &str = "precompiled_charsmap";

/// What the `tokenizers` crate reads of a base64 text, and more.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Checks that no table within `part` claims a trie that it does not have: the `tokenizers`
/// crate makes room for it first. A table stands under its name, or in a list, which serde
/// takes for an object as well.
pub(super) fn check(part: &Value) -> Result<(), TokenizerError> {
    match part {
        Value::Array(list) => list.iter().try_for_each(|item| check_table(item).and_then(|()| check(item))),
        Value::Object(fields) => fields
            .iter()
            .try_for_each(|(name, value)| if name == NAME { check_table(value) } else { check(value) }),
        _ => Ok(()),
    }
}

/// What is not base64, or shorter than a length, the `tokenizers` crate refuses itself.
fn check_table(table: &Value) -> Result<(), TokenizerError> {
    let Some(bytes) = table.as_str().and_then(|text| BASE64.decode(text).ok()) else { return Ok(()) };
    match entries(&bytes) {
        Some(Err(claimed)) => Err(TokenizerError::Malformed(format!(
            "a {NAME} of {} bytes says that its trie has {claimed}",
            bytes.len()
        ))),
        _ => Ok(()),
    }
}

/// Most bytes that a character becomes.
pub(super) fn longest_entry(precompiled: &Precompiled) -> u64 {
    // The table is private: only its serialized form shows it.
    let written = serde_json::to_value(precompiled).ok();
    let bytes = written.and_then(|written| BASE64.decode(written[NAME].as_str()?).ok());
    let entries = bytes.as_deref().and_then(entries).and_then(Result::ok);
    // What cannot be read has no bound.
    let Some(entries) = entries else { return u64::MAX };
    entries.split(|byte| *byte == 0).map(|entry| entry.len() as u64).max().unwrap_or(0).max(1)
}

/// The entries, or the length of the trie where there are fewer bytes; `None` without that length.
fn entries(bytes: &[u8]) -> Option<Result<&[u8], u32>> {
    let (size, rest) = bytes.split_first_chunk()?;
    let size = u32::from_le_bytes(*size);
    Some(rest.get((size - size % 4) as usize..).ok_or(size))
}
