//! In which numbers tokens were computed, as charters and groups say it.
//!
//! What a precision does to weights, activations and caches is the engine's own affair (`precision`
//! of the policy crate). Here it is a name, as a task is: who does not know one can still open the
//! charter that lists it and the group that declares it, and say so.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Most precisions of a charter.
pub const MAX_PRECISIONS: usize = 8;
/// Longest name of a precision, in bytes.
pub const MAX_PRECISION_BYTES: usize = 16;

/// What every node can compute in: it is in every charter, and goes without saying.
const DEFAULT: &str = "f32";

/// The name of a precision: 1 to [`MAX_PRECISION_BYTES`] lower-case letters and digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PrecisionName(String);

/// A text that names no precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a precision is named by 1 to {MAX_PRECISION_BYTES} lower-case letters and digits")]
pub struct NoPrecision;

impl PrecisionName {
    /// The name as charters and groups carry it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it goes without saying.
    pub fn is_default(&self) -> bool {
        self.0 == DEFAULT
    }

    /// The precisions of a charter that names none.
    pub(crate) fn only_default() -> Vec<Self> {
        vec![Self::default()]
    }

    pub(crate) fn are_only_default(names: &[Self]) -> bool {
        matches!(names, [only] if only.is_default())
    }
}

impl Default for PrecisionName {
    fn default() -> Self {
        Self(DEFAULT.to_owned())
    }
}

impl TryFrom<String> for PrecisionName {
    type Error = NoPrecision;

    fn try_from(name: String) -> Result<Self, NoPrecision> {
        let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let fits = (1..=MAX_PRECISION_BYTES).contains(&name.len());
        if is_plain && fits { Ok(Self(name)) } else { Err(NoPrecision) }
    }
}

impl From<PrecisionName> for String {
    fn from(name: PrecisionName) -> Self {
        name.0
    }
}

impl fmt::Display for PrecisionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What became of the caches of a group's samples when a newer version took over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caches {
    /// They were computed anew, so that every token was drawn as the version that it names draws it.
    #[default]
    Recomputed,
    /// They were kept: after the change a token follows from keys and values of two versions and more.
    Kept,
}

impl Caches {
    /// Whether it goes without saying.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::codec::{decode, encode};

    #[test]
    fn names_are_short_and_plain_whoever_wrote_them() {
        for name in ["f32", "bf16", "int8", "int4", "0123456789abcdef"] {
            let bytes = encode(&name, 64).unwrap();
            let read: PrecisionName = decode(&bytes, 64).unwrap();
            assert_eq!((read.as_str(), encode(&read, 64).unwrap()), (name, bytes));
        }
        for name in ["", "F32", "fp 8", "e4m3_fn", "0123456789abcdefg", "µ"] {
            assert_eq!(PrecisionName::try_from(name.to_owned()), Err(NoPrecision), "{name}");
            assert!(decode::<PrecisionName>(&encode(&name, 64).unwrap(), 64).is_err(), "{name}");
        }
        assert!(PrecisionName::default().is_default());
    }
}
