//! From ragged token sequences to padded tensors.
//!
//! A sequence of P prompt and R response tokens gives P + R - 1 positions: position t holds token t and predicts
//! token t + 1. Everything per position (logits, log-probabilities, mask) is aligned to that, so the response's
//! log-probabilities stand at positions P - 1 .. P + R - 1. Rows are padded on the right; under causal attention the
//! padding cannot reach what counts.

mod error;
mod split;

use candle_core::{Device, Tensor};

pub use error::BatchError;
pub use split::{MicroBatch, split_by_tokens};

use crate::objective::ObjectiveInput;

/// Most tokens of one sequence, prompt and response together.
pub const MAX_SEQUENCE_TOKENS: usize = 131_072;
/// Most sequences of one batch.
pub const MAX_SEQUENCES: usize = 65_536;
/// Most positions, padding included, of one padded batch.
pub const MAX_PADDED_TOKENS: usize = 1 << 26;
/// Token id that fills the padding. Any valid id would do: the mask keeps it out of every figure.
pub const PADDING_ID: u32 = 0;

/// One prompt with one response, as it is trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    /// Prompt token ids, at least one.
    pub prompt: Vec<u32>,
    /// Response token ids; may be empty when the prompt has at least two tokens.
    pub response: Vec<u32>,
    /// log-probability that the sampling policy gave each response token; as long as `response`.
    pub behaviour_logp: Vec<f32>,
    /// The prompt's tag: sequences with the same tag form a group.
    pub group: usize,
    /// Advantage of the response.
    pub advantage: f64,
}

impl Sequence {
    /// Positions of this sequence: one less than its tokens.
    #[must_use]
    pub fn positions(&self) -> usize {
        (self.prompt.len() + self.response.len()).saturating_sub(1)
    }

    fn validate(&self, row: usize) -> Result<(), BatchError> {
        let tokens = self.prompt.len() + self.response.len();
        if tokens > MAX_SEQUENCE_TOKENS {
            return Err(BatchError::SequenceTooLong { row, tokens });
        }
        if self.prompt.is_empty() || tokens < 2 {
            return Err(BatchError::NothingToPredict { row });
        }
        if self.response.len() != self.behaviour_logp.len() {
            return Err(BatchError::Misaligned {
                row,
                response: self.response.len(),
                logp: self.behaviour_logp.len(),
            });
        }
        Ok(())
    }
}

/// `N` sequences padded to `T` positions, the longest of them.
#[derive(Debug, Clone)]
pub struct PaddedBatch {
    /// Token at each position, `[N, T]` u32.
    pub ids: Tensor,
    /// Token that each position predicts, `[N, T]` u32.
    pub targets: Tensor,
    /// One where the predicted token belongs to the response, `[N, T]` u8.
    pub mask: Tensor,
    /// The sampling policy's log-probability of the predicted token, `[N, T]` f32, zero outside the response.
    pub behaviour_logp: Tensor,
    /// Advantage of each sequence, `[N]` f32.
    pub advantages: Tensor,
    /// Group of each sequence.
    pub groups: Vec<usize>,
    /// Positions of each sequence that are not padding.
    pub lengths: Vec<usize>,
    /// Response tokens of the whole batch.
    pub response_tokens: usize,
}

impl PaddedBatch {
    /// Pads `sequences`, keeping their order.
    ///
    /// # Errors
    /// [`BatchError`] when there is no sequence, one of them is malformed, or a limit is exceeded.
    pub fn new(sequences: &[&Sequence], device: &Device) -> Result<Self, BatchError> {
        if sequences.len() > MAX_SEQUENCES {
            return Err(BatchError::TooManySequences { sequences: sequences.len() });
        }
        for (row, sequence) in sequences.iter().enumerate() {
            sequence.validate(row)?;
        }
        let lengths: Vec<usize> = sequences.iter().map(|s| s.positions()).collect();
        let width = lengths.iter().copied().max().ok_or(BatchError::Empty)?;
        let shape = (sequences.len(), width);
        let padded = sequences.len() * width;
        if padded > MAX_PADDED_TOKENS {
            return Err(BatchError::TooLarge { padded });
        }

        let (mut ids, mut targets) = (vec![PADDING_ID; padded], vec![PADDING_ID; padded]);
        let (mut mask, mut behaviour) = (vec![0u8; padded], vec![0f32; padded]);
        for (row, sequence) in sequences.iter().enumerate() {
            let at = row * width;
            let tokens = || sequence.prompt.iter().chain(&sequence.response);
            fill(&mut ids[at..at + lengths[row]], tokens());
            fill(&mut targets[at..at + lengths[row]], tokens().skip(1));
            let first = at + sequence.prompt.len() - 1;
            mask[first..first + sequence.response.len()].fill(1);
            behaviour[first..first + sequence.response.len()].copy_from_slice(&sequence.behaviour_logp);
        }
        let advantages: Vec<f32> = sequences.iter().map(|s| s.advantage as f32).collect();
        Ok(Self {
            ids: Tensor::from_vec(ids, shape, device)?,
            targets: Tensor::from_vec(targets, shape, device)?,
            mask: Tensor::from_vec(mask, shape, device)?,
            behaviour_logp: Tensor::from_vec(behaviour, shape, device)?,
            advantages: Tensor::from_vec(advantages, sequences.len(), device)?,
            groups: sequences.iter().map(|s| s.group).collect(),
            lengths,
            response_tokens: sequences.iter().map(|s| s.response.len()).sum(),
        })
    }

    /// What an objective needs, given the policy's log-probabilities of [`PaddedBatch::targets`], all `[N, T]`.
    #[must_use]
    pub fn objective_input(
        &self,
        logp: Tensor,
        proximal_logp: Option<Tensor>,
        entropy: Option<Tensor>,
    ) -> ObjectiveInput {
        ObjectiveInput {
            logp,
            behaviour_logp: self.behaviour_logp.clone(),
            proximal_logp,
            mask: self.mask.clone(),
            advantages: self.advantages.clone(),
            groups: self.groups.clone(),
            entropy,
        }
    }
}

fn fill<'a>(row: &mut [u32], tokens: impl Iterator<Item = &'a u32>) {
    row.iter_mut().zip(tokens).for_each(|(slot, &token)| *slot = token);
}

#[cfg(test)]
mod tests;
