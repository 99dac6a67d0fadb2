//! The weight of a product, in the numbers of the precision.

use super::matmul;
use super::matmul::{Format, WeightRows};
use crate::model::precision::Precision;
use crate::model::weights::{DType, WeightTensor};

/// A weight `[outputs, inputs]`.
pub(super) enum CpuMatrix {
    /// As it was published, or rounded to bf16 if it was not.
    Published(WeightTensor),
    /// In few bits, with scales.
    Quantised {
        /// Rows one after the other, in `format`.
        bytes: Vec<u8>,
        format: Format,
        outputs: usize,
        inputs: usize,
    },
}

impl CpuMatrix {
    /// The weight that `precision` makes of a published one. What has its numbers already shares its bytes.
    pub(super) fn load(tensor: &WeightTensor, precision: Precision) -> Self {
        let (bytes, format) = match precision {
            Precision::F32 => return Self::Published(tensor.clone()),
            Precision::Bf16 => return Self::Published(tensor.to_dtype(DType::BF16)),
            Precision::Int8 => (matmul::int8(tensor), Format::Int8),
            Precision::Int4 => (matmul::int4(tensor), Format::Int4),
        };
        let (outputs, inputs) = (tensor.shape()[0], tensor.shape()[1]);
        Self::Quantised { bytes, format, outputs, inputs }
    }

    /// Bytes of memory that the weight which `precision` makes of one stored as `stored` takes;
    /// none where it shares those.
    pub(super) fn copied_bytes(outputs: usize, inputs: usize, stored: DType, precision: Precision) -> usize {
        let format = match precision {
            Precision::F32 => return 0,
            Precision::Bf16 if stored == DType::BF16 => return 0,
            Precision::Bf16 => Format::Published(DType::BF16),
            Precision::Int8 => Format::Int8,
            Precision::Int4 => Format::Int4,
        };
        outputs * format.row_bytes(inputs)
    }

    /// Rows of the matrix, one an output.
    pub(super) fn outputs(&self) -> usize {
        match self {
            Self::Published(tensor) => tensor.shape()[0],
            Self::Quantised { outputs, .. } => *outputs,
        }
    }

    /// Numbers in a row.
    pub(super) fn inputs(&self) -> usize {
        match self {
            Self::Published(tensor) => tensor.shape()[1],
            Self::Quantised { inputs, .. } => *inputs,
        }
    }

    /// Gives back the memory of what a file holds as well.
    pub(super) fn release(&self) {
        if let Self::Published(tensor) = self {
            tensor.release();
        }
    }

    /// The matrix as products read it.
    pub(super) fn rows(&self) -> WeightRows<'_> {
        match self {
            Self::Published(tensor) => {
                WeightRows::new(tensor.bytes(), Format::Published(tensor.dtype()), self.inputs())
            }
            Self::Quantised { bytes, format, inputs, .. } => WeightRows::new(bytes, *format, *inputs),
        }
    }
}
