//! Random weights that are the same on every machine.

use std::sync::Arc;

use super::{Bytes, DType, WeightTensor, Weights, convert, expected_tensors};
use crate::model::config::ModelConfig;

/// Domain of the hash that random weights are drawn from.
const CONTEXT: &str = "echo-policy 2026 random weights v1";

impl Weights {
    /// Random f32 weights as transformers initializes them: normal with deviation
    /// `initializer_range`, norms 1, biases 0.
    ///
    /// Each tensor has its own stream, the BLAKE3 output keyed by seed and name, turned into normal
    /// numbers by the Box-Muller transform in f64.
    pub fn random(config: &ModelConfig, seed: u64) -> Weights {
        let tensors = expected_tensors(config).into_iter().map(|spec| {
            let values = if spec.name.ends_with("norm.weight") {
                vec![1.0; spec.elements()]
            } else if spec.name.ends_with(".bias") {
                vec![0.0; spec.elements()]
            } else {
                normal(seed, &spec.name, spec.elements(), config.initializer_range)
            };
            let bytes = Bytes::Owned(Arc::new(convert::encode(&values, DType::F32)));
            WeightTensor { spec, dtype: DType::F32, bytes }
        });
        Weights { tensors: tensors.collect() }
    }
}

fn normal(seed: u64, name: &str, count: usize, deviation: f64) -> Vec<f32> {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(&seed.to_le_bytes());
    hasher.update(name.as_bytes());
    let mut stream = hasher.finalize_xof();
    let mut uniform = || {
        let mut word = [0u8; 8];
        stream.fill(&mut word);
        // 53 bits, shifted by half a step so that the logarithm below never sees zero.
        ((u64::from_le_bytes(word) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        let radius = (-2.0 * libm::log(uniform())).sqrt() * deviation;
        let angle = std::f64::consts::TAU * uniform();
        values.push((radius * libm::cos(angle)) as f32);
        values.push((radius * libm::sin(angle)) as f32);
    }
    values.truncate(count);
    values
}
