//! From ragged token sequences to what a policy scores.
//!
//! A sequence of P prompt and R response tokens gives P + R - 1 rows: row t holds token t and
//! predicts token t + 1, so the response's log-probabilities come from rows P - 1 .. P + R - 1.
//! Nobody needs the last token as an input.
//!
//! What the policy heard between its turns stands where it was heard, has rows, and is
//! asked of nobody: the mask of ECHO-2's eq. 19, shifted by one. Whatever has one entry a
//! token (log-probabilities, advantages) has one for each of the policy's own, all turns
//! one after the other.

mod error;
mod split;

use echo_policy::training::packed::{Packed, Target};
use echo_sandbox::rollout::replay::interleave;

pub use echo_sandbox::rollout::replay::Heard;
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
    /// Response token ids, the policy's own; may be empty when the prompt has at least two tokens.
    pub response: Vec<u32>,
    /// What was heard between the turns of the response; none where it has only one.
    pub heard: Vec<Heard>,
    /// The prompt's tag: sequences with the same tag form a group.
    pub group: usize,
}

impl Sequence {
    /// Rows of this sequence in a pack: one less than its tokens.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.length().saturating_sub(1)
    }

    fn length(&self) -> usize {
        let heard: usize = self.heard.iter().map(|heard| heard.tokens.len()).sum();
        self.prompt.len() + self.response.len() + heard
    }

    /// All tokens in order, each with whether it is the policy's own. The sequence must be valid.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        let prompt = self.prompt.iter().map(|&token| (token, false));
        prompt.chain(interleave(&self.response, &self.heard))
    }

    fn validate(&self, row: usize) -> Result<(), BatchError> {
        let tokens = self.length();
        if tokens > MAX_SEQUENCE_TOKENS {
            return Err(BatchError::SequenceTooLong { row, tokens });
        }
        if self.prompt.is_empty() || tokens < 2 {
            return Err(BatchError::NothingToPredict { row });
        }
        let ends = self.heard.iter().map(|heard| heard.after).chain([self.response.len()]);
        if !self.heard.is_empty() && !std::iter::once(0).chain(ends).is_sorted_by(|end, next| end < next) {
            return Err(BatchError::Turns { row });
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
        let first = ids.len();
        for (at, (token, own)) in sequence.tokens().enumerate() {
            if own {
                targets.push(Target { row: first + at - 1, token });
            }
            ids.push(token);
        }
        ids.pop();
        lengths.push(sequence.rows());
    }
    Ok((Packed::new(ids, &lengths)?, targets))
}

#[cfg(test)]
mod tests;
