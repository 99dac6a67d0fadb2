//! The form of `expected.json`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use crate::conformance::vectors::VectorError;

/// Longest `expected.json` that is read, in bytes.
const MAX_EXPECTED_BYTES: u64 = 256 << 20;

#[derive(Deserialize)]
pub(super) struct ExpectedModel {
    pub(super) cases: Vec<ModelCase>,
    pub(super) nll: Nll,
}

#[derive(Deserialize)]
pub(super) struct ModelCase {
    pub(super) ids: Vec<u32>,
    pub(super) last_logits: Vec<f64>,
    pub(super) token_logprobs: Vec<f64>,
    pub(super) entropies: Vec<f64>,
}

#[derive(Deserialize)]
pub(super) struct Nll {
    pub(super) ids: Vec<u32>,
    pub(super) loss: f64,
    pub(super) grad_norms: BTreeMap<String, f64>,
}

impl ExpectedModel {
    pub(super) fn load(path: &Path) -> Result<Self, VectorError> {
        let read = |source| VectorError::Read { path: path.to_owned(), source };
        let malformed = |reason: String| VectorError::Malformed { path: path.to_owned(), reason };
        let mut text = String::new();
        let file = File::open(path).map_err(read)?;
        file.take(MAX_EXPECTED_BYTES + 1).read_to_string(&mut text).map_err(read)?;
        if text.len() as u64 > MAX_EXPECTED_BYTES {
            return Err(malformed(format!("longer than {MAX_EXPECTED_BYTES} bytes")));
        }
        let expected: Self = serde_json::from_str(&text).map_err(|e| malformed(e.to_string()))?;
        if expected.cases.is_empty() {
            return Err(malformed("no cases".into()));
        }
        if let Some(index) = expected.cases.iter().position(|case| case.ids.is_empty()) {
            return Err(malformed(format!("case {index} has no ids")));
        }
        Ok(expected)
    }
}
