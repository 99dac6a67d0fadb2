//! The number formats in which weights are published.

use serde::{Deserialize, Serialize};

/// Element type of a published tensor, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TensorType {
    /// IEEE single precision, of four bytes.
    F32,
    /// bfloat16, the upper half of an f32.
    Bf16,
    /// IEEE half precision, of two bytes.
    F16,
}

impl TensorType {
    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }
}
