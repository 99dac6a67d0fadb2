//! The precision in which matrix products are computed.

use candle_core::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What matrix products take as operands. Parameters, the residual stream, norms, softmax,
/// log-probs and gradients are f32 always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compute {
    /// Operands of all products stay f32.
    #[default]
    F32,
    /// bf16 copies of f32 values, in the layers. The output projection stays f32: its rounded
    /// results would move log-probs by hundredths.
    Bf16,
}

impl Compute {
    /// The operands' element type.
    pub(super) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
        }
    }
}

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}
