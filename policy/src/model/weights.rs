//! Named tensors of a model, kept as they are stored: owned bytes or memory-mapped files.

mod convert;
mod error;
mod image;
mod init;
mod load;
pub(crate) mod named;
mod spec;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;
#[cfg(unix)]
use memmap2::UncheckedAdvice;

pub use crate::model::dtype::DType;
pub use error::WeightsError;
pub use image::ImageWriter;
pub use load::{MAX_INDEX_BYTES, MAX_SHARDS};
pub use spec::{TensorSpec, expected_tensors};

use crate::model::config::ModelConfig;

/// A tensor as it arrives from a file or the network, not yet checked against a configuration.
#[derive(Debug, Clone)]
pub struct RawTensor {
    /// Name by the convention of Hugging Face.
    pub name: String,
    /// Element type of the bytes.
    pub dtype: DType,
    /// Sizes of the dimensions, row-major.
    pub shape: Vec<usize>,
    /// Elements one after the other, little-endian.
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Bytes {
    Owned(Arc<Vec<u8>>),
    Mapped(Arc<Mmap>, Range<usize>),
}

/// One named tensor. Cloning shares the bytes.
#[derive(Debug, Clone)]
pub struct WeightTensor {
    spec: TensorSpec,
    dtype: DType,
    bytes: Bytes,
}

impl WeightTensor {
    /// Takes a raw tensor over as it is.
    pub(crate) fn unchecked(raw: RawTensor) -> Self {
        let spec = TensorSpec { name: raw.name, shape: raw.shape };
        Self { spec, dtype: raw.dtype, bytes: Bytes::Owned(Arc::new(raw.bytes)) }
    }

    /// Name by the convention of Hugging Face.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Sizes of the dimensions, row-major.
    pub fn shape(&self) -> &[usize] {
        &self.spec.shape
    }

    /// Number of elements, the product of the shape.
    pub fn elements(&self) -> usize {
        self.spec.elements()
    }

    /// Element type as stored.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The elements as stored, little-endian: what is published and hashed.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Owned(bytes) => bytes,
            Bytes::Mapped(map, range) => &map[range.clone()],
        }
    }

    /// Gives back the memory of what a file holds as well: whoever looks at it next has it
    /// read from there again.
    pub(crate) fn release(&self) {
        #[cfg(unix)]
        if let Bytes::Mapped(map, range) = &self.bytes {
            // SAFETY: the map is only read, and its file is not changed, so what is read later
            // is what was there.
            let released =
                unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len()) };
            // It costs memory and nothing else where the system does not know how.
            let _ = released;
        }
    }
}

/// A complete set of tensors for one configuration: every expected name once, with its
/// shape, and nothing else.
#[derive(Debug, Clone)]
pub struct Weights {
    /// In the canonical order of [`expected_tensors`].
    tensors: Vec<WeightTensor>,
}

impl Weights {
    /// Checks raw tensors, in any order, against `config` and takes them over without copying.
    ///
    /// # Errors
    /// When a tensor is missing, unknown, given twice, or has the wrong shape or length.
    pub fn from_raw(
        config: &ModelConfig,
        raw: impl IntoIterator<Item = RawTensor>,
    ) -> Result<Self, WeightsError> {
        Self::assemble(config, raw.into_iter().map(WeightTensor::unchecked))
    }

    fn assemble(
        config: &ModelConfig,
        found: impl IntoIterator<Item = WeightTensor>,
    ) -> Result<Self, WeightsError> {
        let mut expected: BTreeMap<String, (usize, Vec<usize>)> = expected_tensors(config)
            .into_iter()
            .enumerate()
            .map(|(index, spec)| (spec.name, (index, spec.shape)))
            .collect();
        let mut slots: Vec<Option<WeightTensor>> = vec![None; expected.len()];
        for tensor in found {
            let name = tensor.spec.name.clone();
            let Some((index, shape)) = expected.get_mut(&name) else {
                return Err(WeightsError::Unexpected { name: name.chars().take(80).collect() });
            };
            if slots[*index].is_some() {
                return Err(WeightsError::Duplicate { name });
            }
            if tensor.spec.shape != *shape {
                return Err(WeightsError::Shape {
                    name,
                    found: tensor.spec.shape.into_iter().take(8).collect(),
                    expected: shape.clone(),
                });
            }
            let expected_bytes = tensor.elements() * tensor.dtype.size();
            if tensor.bytes().len() != expected_bytes {
                return Err(WeightsError::Length {
                    name,
                    found: tensor.bytes().len(),
                    expected: expected_bytes,
                });
            }
            slots[*index] = Some(tensor);
        }
        for (name, (index, _)) in expected {
            if slots[index].is_none() {
                return Err(WeightsError::Missing { name });
            }
        }
        Ok(Self { tensors: slots.into_iter().flatten().collect() })
    }

    /// Whether they are those of `config`.
    ///
    /// # Errors
    /// The first tensor that is missing or has another shape.
    pub fn check(&self, config: &ModelConfig) -> Result<(), WeightsError> {
        for TensorSpec { name, shape: expected } in expected_tensors(config) {
            match self.get(&name).map(|tensor| tensor.shape().to_vec()) {
                None => return Err(WeightsError::Missing { name }),
                Some(found) if found != expected => {
                    return Err(WeightsError::Shape { name, found, expected });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The tensors in canonical order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &WeightTensor> {
        self.tensors.iter()
    }

    /// The tensor of that Hugging Face name.
    pub fn get(&self, name: &str) -> Option<&WeightTensor> {
        self.tensors.iter().find(|tensor| tensor.name() == name)
    }

    /// Bytes of all tensors together.
    pub fn total_bytes(&self) -> usize {
        self.iter().map(|tensor| tensor.bytes().len()).sum()
    }

    /// Parameters of all tensors together.
    pub fn total_elements(&self) -> usize {
        self.iter().map(WeightTensor::elements).sum()
    }
}

#[cfg(test)]
mod tests;
