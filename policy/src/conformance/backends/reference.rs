//! What backends are held against.

use super::{AgreementError, ClaimedPrompt, feeding};
use crate::generation::{Backend, CpuBackend};
use crate::training::decoder::Decoder;
use crate::training::packed::Packed;

/// Another implementation of the model.
pub trait Reference {
    /// Tokens of the vocabulary.
    fn vocab(&self) -> usize;

    /// Logits after every token of some prompts, `[tokens, vocab]`.
    ///
    /// # Errors
    /// When it cannot compute them, or they do not fit.
    fn distributions(&self, prompts: &[ClaimedPrompt]) -> Result<Vec<f32>, AgreementError>;
}

impl Reference for Decoder {
    fn vocab(&self) -> usize {
        self.config().vocab_size
    }

    fn distributions(&self, prompts: &[ClaimedPrompt]) -> Result<Vec<f32>, AgreementError> {
        let packed = Packed::of(&prompts.iter().map(ClaimedPrompt::inputs).collect::<Vec<_>>())?;
        let rows: Vec<usize> = (0..packed.ids().len()).collect();
        Ok(self.logits(&packed, &rows)?)
    }
}

impl Reference for CpuBackend {
    fn vocab(&self) -> usize {
        self.config().vocab_size
    }

    fn distributions(&self, prompts: &[ClaimedPrompt]) -> Result<Vec<f32>, AgreementError> {
        let (vocab, tokens) =
            (self.vocab(), prompts.iter().map(|prompt| prompt.inputs().len()).sum::<usize>());
        let mut all = vec![0.0; tokens * vocab];
        feeding::distributions(self, prompts, |row, logits| {
            all[row * vocab..(row + 1) * vocab].copy_from_slice(logits);
        })?;
        Ok(all)
    }
}
