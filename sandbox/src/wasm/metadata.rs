//! A module's words about a response, as entries of Ω.

use std::collections::BTreeMap;

use echo_protocol::work::trajectory::MetaValue;
use serde::Deserialize;

use super::WasmFailure;
use crate::task::Verdict;

/// A value of the JSON object.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
}

impl From<Entry> for MetaValue {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Flag(flag) => Self::Flag(flag),
            Entry::Integer(integer) => Self::Integer(integer),
            Entry::Number(number) => Self::Number(number),
            Entry::Text(text) => Self::Text(text),
        }
    }
}

/// Adds the entries of a flat JSON object to a verdict; nothing for an empty text.
pub(super) fn add(verdict: Verdict, text: &str) -> Result<Verdict, WasmFailure> {
    if text.is_empty() {
        return Ok(verdict);
    }
    let entries: BTreeMap<String, Entry> =
        serde_json::from_str(text).map_err(|error| WasmFailure::Metadata(error.to_string()))?;
    entries.into_iter().try_fold(verdict, |verdict, (key, entry)| {
        verdict.with(&key, entry.into()).map_err(|error| WasmFailure::Metadata(error.to_string()))
    })
}
