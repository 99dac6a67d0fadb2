//! From ragged token sequences to what a policy scores.
//!
//! A sequence of P prompt and R response tokens gives P + R - 1 rows: row t holds token t and predicts token t + 1, so the
//! response's log-probabilities come from rows P - 1 .. P + R - 1. Nobody needs the last token as an input.

mod error;
mod split;

use echo_policy::packed::{Packed, Target};

pub use error::BatchError;
pub use split::micro_batches;

/// Most tokens of one sequence, prompt and response together.
pub const MAX_SEQUENCE_TOKENS: usize = 131_072;
/// Most sequences of one batch.
pub const MAX_SEQUENCES: usize = 65_536;
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
    /// Rows of this sequence in a pack: one less than its tokens.
    #[must_use]
    pub fn rows(&self) -> usize {
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

/// Packs some of `sequences`, and asks for the tokens of their responses.
///
/// # Errors
/// [`BatchError`] when there is no sequence, one of them is malformed, or a limit is exceeded.
pub fn pack(sequences: &[Sequence], part: &[usize]) -> Result<(Packed, Vec<Target>), BatchError> {
    let (mut ids, mut lengths, mut targets) = (Vec::new(), Vec::new(), Vec::new());
    for &index in part {
        let sequence = &sequences[index];
        sequence.validate(index)?;
        let first = ids.len() + sequence.prompt.len() - 1;
        targets.extend((first..).zip(&sequence.response).map(|(row, &token)| Target { row, token }));
        ids.extend(sequence.prompt.iter().chain(&sequence.response).take(sequence.rows()));
        lengths.push(sequence.rows());
    }
    Ok((Packed::new(ids, &lengths)?, targets))
}

#[cfg(test)]
mod tests;
