//! A pack as a decoder works on it: checked against the model, with the rotary angles of its positions.

use std::ops::Range;

use super::DecoderError;
use crate::math;
use crate::model::config::ModelConfig;
use crate::training::packed::{Packed, Target};

/// A pack whose ids and lengths fit the model.
pub(super) struct Batch {
    pub(super) ids: Vec<u32>,
    pub(super) sequences: Vec<Range<usize>>,
    /// Position of each row in its sequence.
    pub(super) positions: Vec<usize>,
    /// `[longest, head_dim / 2]`
    pub(super) cos: Vec<f32>,
    pub(super) sin: Vec<f32>,
}

impl Batch {
    pub(super) fn new(config: &ModelConfig, packed: &Packed) -> Result<Self, DecoderError> {
        let (longest, limit) = (packed.longest(), config.max_position_embeddings);
        if longest > limit {
            return Err(DecoderError::TooLong { found: longest, limit });
        }
        for (row, token) in packed.ids().iter().enumerate() {
            check_token(config, row, *token)?;
        }
        let inv_freq = config.inv_freq();
        let half = inv_freq.len();
        let (mut cos, mut sin) = (vec![0.0; longest * half], vec![0.0; longest * half]);
        for (position, (cos, sin)) in cos.chunks_exact_mut(half).zip(sin.chunks_exact_mut(half)).enumerate() {
            math::rope_row(position, &inv_freq, cos, sin);
        }
        Ok(Self {
            ids: packed.ids().to_vec(),
            sequences: packed.sequences().collect(),
            positions: packed.sequences().flat_map(|rows| 0..rows.len()).collect(),
            cos,
            sin,
        })
    }

    /// Rows of the pack.
    pub(super) fn rows(&self) -> usize {
        self.ids.len()
    }

    /// cos and sin of the angles of a row.
    #[inline(always)]
    pub(super) fn angles(&self, row: usize, half: usize) -> (&[f32], &[f32]) {
        let at = self.positions[row] * half;
        (&self.cos[at..at + half], &self.sin[at..at + half])
    }

    /// Checks that the targets are of rows of this pack, each row at most once and in order: the
    /// head then never needs more memory than the pack has rows for.
    pub(super) fn check_targets(&self, config: &ModelConfig, targets: &[Target]) -> Result<(), DecoderError> {
        let mut next = 0;
        for (index, target) in targets.iter().enumerate() {
            let (row, rows) = (target.row, self.rows());
            if row < next || row >= rows {
                return Err(DecoderError::TargetRow { index, row, rows });
            }
            check_token(config, row, target.token)?;
            next = row + 1;
        }
        Ok(())
    }
}

fn check_token(config: &ModelConfig, row: usize, token: u32) -> Result<(), DecoderError> {
    let vocab = config.vocab_size;
    if token as usize >= vocab { Err(DecoderError::Token { token, row, vocab }) } else { Ok(()) }
}
