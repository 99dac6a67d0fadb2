//! Tensors that a backend asks for by name.

use super::{WeightTensor, Weights, WeightsError};

/// The tensor of that name.
pub(crate) fn tensor<'a>(weights: &'a Weights, name: &str) -> Result<&'a WeightTensor, WeightsError> {
    weights.get(name).ok_or_else(|| WeightsError::Missing { name: name.to_owned() })
}

/// The numbers of a norm or a bias, in f32.
pub(crate) fn vector(weights: &Weights, name: &str) -> Result<Vec<f32>, WeightsError> {
    Ok(tensor(weights, name)?.to_f32())
}
