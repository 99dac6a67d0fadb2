//! Element types in which weights are stored and published.

use serde::{Deserialize, Serialize};

/// Element type of a stored tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE 754 single precision.
    F32,
    /// bfloat16: the upper half of an f32.
    BF16,
    /// IEEE 754 half precision.
    F16,
}

impl DType {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::BF16 | Self::F16 => 2,
        }
    }
}

impl From<DType> for safetensors::Dtype {
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::F32 => Self::F32,
            DType::BF16 => Self::BF16,
            DType::F16 => Self::F16,
        }
    }
}

impl TryFrom<safetensors::Dtype> for DType {
    type Error = safetensors::Dtype;

    fn try_from(dtype: safetensors::Dtype) -> Result<Self, safetensors::Dtype> {
        match dtype {
            safetensors::Dtype::F32 => Ok(Self::F32),
            safetensors::Dtype::BF16 => Ok(Self::BF16),
            safetensors::Dtype::F16 => Ok(Self::F16),
            other => Err(other),
        }
    }
}
