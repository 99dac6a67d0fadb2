//! Conversions between stored bytes, f32 slices and candle tensors.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use half::{bf16, f16};

use super::{Bytes, DType, RawTensor, WeightTensor, Weights, WeightsError};

impl WeightTensor {
    /// The elements as f32, row-major. bf16 and f16 are exactly representable.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.elements()];
        decode(self.bytes(), self.dtype, &mut values);
        values
    }

    /// Whether all elements are numbers. Nothing is copied.
    pub(super) fn is_finite(&self) -> bool {
        fn each<const N: usize>(bytes: &[u8], finite: impl Fn([u8; N]) -> bool) -> bool {
            bytes.as_chunks::<N>().0.iter().all(|chunk| finite(*chunk))
        }
        match self.dtype {
            DType::F32 => each(self.bytes(), |chunk| f32::from_le_bytes(chunk).is_finite()),
            DType::BF16 => each(self.bytes(), |chunk| bf16::from_le_bytes(chunk).is_finite()),
            DType::F16 => each(self.bytes(), |chunk| f16::from_le_bytes(chunk).is_finite()),
        }
    }

    /// Row `index` of a matrix as f32.
    ///
    /// Panics when there is no such row, or `to` is not as long as one.
    pub(crate) fn row_to_f32(&self, index: usize, to: &mut [f32]) {
        let row = to.len() * self.dtype.size();
        let bytes = &self.bytes()[index * row..(index + 1) * row];
        assert_eq!(self.shape().last(), Some(&to.len()), "a row of {}", self.name());
        decode(bytes, self.dtype, to);
    }

    /// The same numbers stored as `dtype`, rounded to nearest even. Where they are already,
    /// the bytes are shared.
    pub fn to_dtype(&self, dtype: DType) -> WeightTensor {
        if self.dtype == dtype {
            return self.clone();
        }
        let bytes = Bytes::Owned(Arc::new(encode(&self.to_f32(), dtype)));
        WeightTensor { spec: self.spec.clone(), dtype, bytes }
    }

    /// An f32 candle tensor on `device`.
    ///
    /// # Errors
    /// When the device cannot hold it.
    pub fn to_tensor(&self, device: &Device) -> Result<Tensor, WeightsError> {
        Ok(Tensor::from_vec(self.to_f32(), self.shape(), device)?)
    }
}

/// Reads little-endian numbers; there are as many as `values`.
fn decode(bytes: &[u8], dtype: DType, values: &mut [f32]) {
    fn each<const N: usize>(bytes: &[u8], values: &mut [f32], decode: impl Fn([u8; N]) -> f32) {
        for (value, chunk) in values.iter_mut().zip(bytes.as_chunks::<N>().0) {
            *value = decode(*chunk);
        }
    }
    match dtype {
        DType::F32 => each(bytes, values, f32::from_le_bytes),
        DType::BF16 => each(bytes, values, |chunk| bf16::from_le_bytes(chunk).to_f32()),
        DType::F16 => each(bytes, values, |chunk| f16::from_le_bytes(chunk).to_f32()),
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
    /// The same weights stored as `dtype`, rounded to nearest even; tensors that have it
    /// already share their bytes.
    pub fn to_dtype(&self, dtype: DType) -> Weights {
        Weights { tensors: self.iter().map(|tensor| tensor.to_dtype(dtype)).collect() }
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
