//! From ragged token sequences to what a policy scores.
//!
//! A sequence of P prompt and R response tokens gives P + R - 1 positions: position t holds token t and predicts
//! token t + 1, so the response's log-probabilities stand at positions P - 1 .. P + R - 1.

mod error;
mod split;

use candle_core::{Device, Tensor};

pub use error::BatchError;
pub use split::micro_batches;

/// Most tokens of one sequence, prompt and response together.
pub const MAX_SEQUENCE_TOKENS: usize = 131_072;
/// Most sequences of one batch.
pub const MAX_SEQUENCES: usize = 65_536;
/// Most positions, padding included, of one padded batch.
pub const MAX_PADDED_TOKENS: usize = 1 << 26;
/// Token id that fills the padding. Any valid id would do: no position that counts can see it.
pub const PADDING_ID: u32 = 0;

/// One prompt with one response, as it is trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    /// Prompt token ids, at least one.
    pub prompt: Vec<u32>,
    /// Response token ids; may be empty when the prompt has at least two tokens.
    pub response: Vec<u32>,
    /// The prompt's tag: sequences with the same tag form a group.
    pub group: usize,
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
        Ok(())
    }
}

/// `N` sequences padded to `T` positions, the longest of them. Rows are padded on the right; under causal attention the
/// padding cannot reach what counts.
#[derive(Debug, Clone)]
pub struct PaddedBatch {
    /// Token at each position, `[N, T]` u32.
    pub ids: Tensor,
    /// Token that each position predicts, `[N, T]` u32.
    pub targets: Tensor,
    /// Where in the flattened `[N · T]` positions each sequence's response is predicted.
    pub responses: Vec<std::ops::Range<usize>>,
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
        let width = sequences.iter().map(|s| s.positions()).max().ok_or(BatchError::Empty)?;
        let shape = (sequences.len(), width);
        let padded = sequences.len() * width;
        if padded > MAX_PADDED_TOKENS {
            return Err(BatchError::TooLarge { padded });
        }
        let (mut ids, mut targets) = (vec![PADDING_ID; padded], vec![PADDING_ID; padded]);
        let mut responses = Vec::with_capacity(sequences.len());
        for (row, sequence) in sequences.iter().enumerate() {
            let at = row * width;
            let end = at + sequence.positions();
            let tokens = || sequence.prompt.iter().chain(&sequence.response);
            fill(&mut ids[at..end], tokens());
            fill(&mut targets[at..end], tokens().skip(1));
            responses.push(end - sequence.response.len()..end);
        }
        Ok(Self {
            ids: Tensor::from_vec(ids, shape, device)?,
            targets: Tensor::from_vec(targets, shape, device)?,
            responses,
        })
    }
}

fn fill<'a>(row: &mut [u32], tokens: impl Iterator<Item = &'a u32>) {
    row.iter_mut().zip(tokens).for_each(|(slot, &token)| *slot = token);
}

#[cfg(test)]
mod tests;
