//! Conversions between stored bytes, f32 slices and candle tensors.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use half::{bf16, f16};

use super::{Bytes, DType, RawTensor, WeightTensor, Weights};
use crate::error::WeightsError;

impl WeightTensor {
    /// The elements as f32, row-major. bf16 and f16 are exactly representable.
    pub fn to_f32(&self) -> Vec<f32> {
        let bytes = self.bytes();
        match self.dtype {
            DType::F32 => {
                let (chunks, _) = bytes.as_chunks::<4>();
                chunks.iter().map(|c| f32::from_le_bytes(*c)).collect()
            }
            DType::BF16 => {
                let (chunks, _) = bytes.as_chunks::<2>();
                chunks.iter().map(|c| bf16::from_le_bytes(*c).to_f32()).collect()
            }
            DType::F16 => {
                let (chunks, _) = bytes.as_chunks::<2>();
                chunks.iter().map(|c| f16::from_le_bytes(*c).to_f32()).collect()
            }
        }
    }

    /// An f32 candle tensor on `device`.
    ///
    /// # Errors
    /// When the device cannot hold it.
    pub fn to_tensor(&self, device: &Device) -> Result<Tensor, WeightsError> {
        Ok(Tensor::from_vec(self.to_f32(), self.shape(), device)?)
    }
}

/// Little-endian bytes of `values` in `dtype`; rounds to nearest even.
pub(super) fn encode(values: &[f32], dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::BF16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect(),
        DType::F16 => values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(),
    }
}

impl Weights {
    /// The same weights stored as `dtype`, rounded to nearest even; tensors that have it already share their bytes.
    pub fn to_dtype(&self, dtype: DType) -> Weights {
        let tensors = self.iter().map(|tensor| {
            if tensor.dtype == dtype {
                return tensor.clone();
            }
            let bytes = Bytes::Owned(Arc::new(encode(&tensor.to_f32(), dtype)));
            WeightTensor { spec: tensor.spec.clone(), dtype, bytes }
        });
        Weights { tensors: tensors.collect() }
    }

    /// The element type of the largest part of the weights.
    pub fn main_dtype(&self) -> DType {
        let share = |dtype: DType| -> usize {
            self.iter().filter(|t| t.dtype == dtype).map(WeightTensor::elements).sum()
        };
        [DType::F32, DType::BF16, DType::F16]
            .into_iter()
            .max_by_key(|dtype| share(*dtype))
            .expect("the list of element types is not empty")
    }
}

impl RawTensor {
    /// A raw tensor of f32 values, rounded to `dtype`.
    pub fn from_f32(name: &str, shape: &[usize], values: &[f32], dtype: DType) -> Self {
        Self { name: name.to_owned(), dtype, shape: shape.to_vec(), bytes: encode(values, dtype) }
    }
}
