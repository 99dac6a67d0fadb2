//! Model FLOPs: the arithmetic that a policy needs for a batch, whatever a backend computes beyond it.
//!
//! A multiplication with an addition counts as two. Counted are the products of the layers'
//! matrices with each packed token (2 a weight), the causal attention of each token to those up to
//! itself, and the output projection for the tokens whose log-probability is asked. Looking up
//! embeddings, norms, softmax and activations are left out, as everybody does. Forward and backward
//! together cost three forward passes; layers that are recomputed to spare memory count once.

use crate::model::config::ModelConfig;
use crate::training::packed::{Packed, Target};
use std::ops::AddAssign;

/// What a policy was asked to score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScoringWork {
    /// Packed tokens: prompts and responses.
    pub tokens: u64,
    /// Tokens whose log-probability was asked.
    pub targets: u64,
    /// Pairs of a token and one that it attends to, itself included.
    pub pairs: u64,
}

impl ScoringWork {
    /// The work of scoring `targets` in a pack.
    #[must_use]
    pub fn of(packed: &Packed, targets: &[Target]) -> Self {
        let pairs = packed.sequences().map(|rows| {
            let length = rows.len() as u64;
            length * (length + 1) / 2
        });
        Self { tokens: packed.ids().len() as u64, targets: targets.len() as u64, pairs: pairs.sum() }
    }
}

impl AddAssign for ScoringWork {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.targets += other.targets;
        self.pairs += other.pairs;
    }
}

impl ModelConfig {
    /// FLOPs of a forward pass.
    #[must_use]
    pub fn forward_flops(&self, work: &ScoringWork) -> f64 {
        let queries = self.num_attention_heads * self.head_dim;
        let keys = self.num_key_value_heads * self.head_dim;
        let attention = self.hidden_size * (2 * queries + 2 * keys);
        let layer = attention + 3 * self.hidden_size * self.intermediate_size;
        let layers = self.num_hidden_layers as f64;
        let products = 2.0 * layers * layer as f64 * work.tokens as f64;
        let head = 2.0 * (self.vocab_size * self.hidden_size) as f64 * work.targets as f64;
        // Queries with keys, and weights with values.
        let mixing = 4.0 * layers * queries as f64 * work.pairs as f64;
        products + head + mixing
    }

    /// FLOPs of a forward and a backward pass.
    #[must_use]
    pub fn training_flops(&self, work: &ScoringWork) -> f64 {
        3.0 * self.forward_flops(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::TinySizes;
    use crate::model::weights::expected_tensors;

    #[test]
    fn a_token_costs_two_a_weight_forward_and_six_in_training() {
        let sizes = TinySizes {
            vocab: 50,
            hidden: 16,
            layers: 3,
            heads: 4,
            kv_heads: 2,
            head_dim: 8,
            intermediate: 24,
            positions: 32,
        };
        let model = ModelConfig::tiny_qwen3(sizes).unwrap();
        // The embedding is tied: as the output projection it is a matrix like the others.
        let matrices = expected_tensors(&model).into_iter().filter(|spec| spec.shape.len() == 2);
        let weights: usize = matrices.map(|spec| spec.shape.iter().product::<usize>()).sum();
        let one = ScoringWork { tokens: 1, targets: 1, pairs: 0 };
        assert_eq!(model.forward_flops(&one), 2.0 * weights as f64);
        assert_eq!(model.training_flops(&one), 6.0 * weights as f64);
    }

    #[test]
    fn attention_is_within_a_sequence_and_backwards() {
        let packed = Packed::of(&[vec![1u32, 2, 3], vec![4, 5]]).unwrap();
        let mut work = ScoringWork::of(&packed, &packed.next_tokens());
        assert_eq!(work, ScoringWork { tokens: 5, targets: 3, pairs: 6 + 3 });
        work += work;
        assert_eq!(work, ScoringWork { tokens: 10, targets: 6, pairs: 18 });
    }
}
