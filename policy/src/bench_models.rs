//! Models of stated sizes with seeded random weights: what rates are measured with.
//!
//! Nothing that is measured depends on what the weights say. So they are made by the quickest rule
//! that gives the same bits on every machine. Value i of tensor t is the sum of the four 16-bit
//! words of `mix(mix(SEED ^ t) + i)`, which is close to normal, shifted and scaled to mean 0 and
//! deviation 0.02, in bf16; norms are 1. Hence logits with a deviation of about 0.6, and no two
//! engines that agree by chance.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;
use serde::Serialize;

use crate::model::config::{ModelConfig, ModelConfigError, TinySizes};
use crate::model::weights::{DType, RawTensor, Weights, WeightsError, expected_tensors};

/// Seed that decides all weights.
pub const SEED: u64 = 0;
const DEVIATION: f32 = 0.02;
/// Values that a task fills.
const BLOCK: usize = 1 << 16;
/// 1.0 as the bits of a bf16.
const ONE: u16 = 0x3f80;

/// How large a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Size {
    /// Two layers and a small vocabulary: shows in seconds that every engine runs.
    #[serde(rename = "tiny")]
    Tiny,
    /// Eight layers, 17 million parameters: many tokens in a short time.
    #[serde(rename = "17m")]
    M17,
    /// Twelve layers, 108 million parameters: too large for a processor's caches.
    #[serde(rename = "108m")]
    M108,
    /// The form of Qwen3-0.6B.
    #[serde(rename = "0.6b")]
    B06,
}

impl Size {
    /// Every size, the smallest first.
    pub const ALL: [Self; 4] = [Self::Tiny, Self::M17, Self::M108, Self::B06];

    /// Its name: `108m` has 108 million parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::M17 => "17m",
            Self::M108 => "108m",
            Self::B06 => "0.6b",
        }
    }

    /// Shape of a model of this size.
    ///
    /// # Errors
    /// None that this version knows of: all sizes are within the limits of configurations.
    pub fn config(self) -> Result<ModelConfig, ModelConfigError> {
        let tiny = TinySizes {
            vocab: 512,
            hidden: 64,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 32,
            intermediate: 128,
            positions: 1024,
        };
        let middle = TinySizes {
            vocab: 8192,
            hidden: 384,
            layers: 8,
            heads: 6,
            kv_heads: 2,
            head_dim: 64,
            intermediate: 1152,
            positions: 4096,
        };
        let upper = TinySizes {
            vocab: 32_768,
            hidden: 768,
            layers: 12,
            heads: 12,
            kv_heads: 4,
            head_dim: 64,
            intermediate: 2304,
            positions: 4096,
        };
        let large = TinySizes {
            vocab: 151_936,
            hidden: 1024,
            layers: 28,
            heads: 16,
            kv_heads: 8,
            head_dim: 128,
            intermediate: 3072,
            positions: 40_960,
        };
        let mut config = ModelConfig::tiny_qwen3(match self {
            Self::Tiny => tiny,
            Self::M17 => middle,
            Self::M108 => upper,
            Self::B06 => large,
        })?;
        config.rope_theta = 1e6;
        Ok(config)
    }
}

/// Random weights of that shape, in bf16: made anew with each call.
///
/// # Errors
/// None that this version knows of: they are made as the shape asks for them.
pub fn weights(config: &ModelConfig) -> Result<Weights, WeightsError> {
    let raw = expected_tensors(config).into_iter().enumerate().map(|(index, spec)| {
        let bytes = if spec.name.ends_with("norm.weight") {
            ONE.to_le_bytes().repeat(spec.elements())
        } else {
            values(index as u64, spec.elements())
        };
        RawTensor { name: spec.name, dtype: DType::BF16, shape: spec.shape, bytes }
    });
    Weights::from_raw(config, raw)
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no size has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no size of a model; write tiny, 17m, 108m or 0.6b")]
pub struct UnknownSize(String);

impl FromStr for Size {
    type Err = UnknownSize;

    fn from_str(name: &str) -> Result<Self, UnknownSize> {
        Self::ALL.into_iter().find(|size| size.name() == name).ok_or_else(|| UnknownSize(name.to_owned()))
    }
}

/// The values of one tensor, as little-endian bf16.
fn values(tensor: u64, count: usize) -> Vec<u8> {
    let stream = mix(SEED ^ tensor);
    let mut bytes = vec![0u8; count * 2];
    bytes.par_chunks_mut(BLOCK * 2).enumerate().for_each(|(block, bytes)| {
        let first = stream.wrapping_add((block * BLOCK) as u64);
        for (at, bytes) in bytes.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *bytes = value(mix(first.wrapping_add(at as u64))).to_le_bytes();
        }
    });
    bytes
}

/// A bf16 near a normal number of that deviation, of 64 random bits.
fn value(bits: u64) -> u16 {
    /// Of a sum of four uniform words: each has 2¹⁶ / √12.
    const OF_SUM: f32 = 2.0 * 65_536.0 / 3.464_101_6;
    let sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    let scaled = (sum as f32 - 131_070.0) * (DEVIATION / OF_SUM);
    // Cut off rather than rounded: as random, and the same everywhere.
    (scaled.to_bits() >> 16) as u16
}

/// SplitMix64: every bit of the input moves every bit of the output.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `count` token ids below `vocabulary` that look random; `stream` tells lists apart.
pub fn tokens(stream: u64, count: usize, vocabulary: usize) -> Vec<u32> {
    let first = mix(!stream);
    (0..count as u64).map(|at| (mix(first.wrapping_add(at)) % vocabulary as u64) as u32).collect()
}

/// Number `at` of a stream of numbers from 0 to 1, 1 excluded, that look random.
pub fn unit(stream: u64, at: u64) -> f64 {
    (mix(mix(stream).wrapping_add(at)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_name_and_a_shape() {
        for size in Size::ALL {
            assert_eq!(size.name().parse(), Ok(size));
            assert_eq!(serde_json::to_value(size).unwrap(), size.name());
            size.config().unwrap();
        }
        assert_eq!(Size::B06.config().unwrap().parameter_count(), 596_049_920);
        let error = "7b".parse::<Size>().unwrap_err().to_string();
        assert!(error.contains("\"7b\"") && error.contains("108m"), "{error}");
    }

    #[test]
    fn weights_have_the_deviation_that_they_are_said_to_have() {
        let weights = weights(&Size::Tiny.config().unwrap()).unwrap();
        let embedding = weights.get("model.embed_tokens.weight").unwrap();
        assert_eq!(embedding.dtype(), DType::BF16);
        let values = embedding.to_f32();
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / values.len() as f32;
        assert!(mean.abs() < 5e-4 && (variance.sqrt() / DEVIATION - 1.0).abs() < 0.02, "{mean}, {variance}");
        assert!(weights.get("model.norm.weight").unwrap().to_f32().iter().all(|x| *x == 1.0));
    }

    #[test]
    fn values_do_not_depend_on_blocks_and_tensors_differ() {
        let long = values(3, BLOCK + 5);
        assert_eq!(long[..200], values(3, 100));
        assert_ne!(long[..200], values(4, 100));
        let own = value(mix(mix(SEED ^ 3).wrapping_add(BLOCK as u64 + 4)));
        assert_eq!(long[long.len() - 2..], own.to_le_bytes());
        assert!(tokens(1, 1000, 7).iter().all(|token| *token < 7));
        assert_ne!(tokens(1, 20, 1000), tokens(2, 20, 1000));
        let units: Vec<f64> = (0..1000).map(|at| unit(5, at)).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        assert!((units.iter().sum::<f64>() / 1000.0 - 0.5).abs() < 0.05);
    }
}
