//! The scores of a pack, and the way back from derivatives of a loss to gradients.

use super::batch::Batch;
use super::{Decoder, DecoderError, Gradients, Kept};
use crate::training::packed::Target;
use serde::{Deserialize, Serialize};

/// What the policy gives the targets of a pack, in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scores {
    /// Log-probability of each target.
    pub logp: Vec<f32>,
    /// Entropy, in nats, of the distribution that each target was drawn from.
    pub entropy: Vec<f32>,
}

/// What is held in memory between the two halves of a training pass. Both give the same
/// gradients, bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activations {
    /// What every layer computed, save what is cheap to compute again, and up to 64 MiB of logits.
    Keep,
    /// The input of every layer; the way back runs each layer again.
    Recompute,
}

/// Scores of a pack, with what it takes to go back from them.
///
/// The parameters must not change before [`ScoredPack::backward`] was called.
pub struct ScoredPack<'a> {
    pub(super) decoder: &'a Decoder,
    pub(super) batch: Batch,
    pub(super) targets: Vec<Target>,
    pub(super) scores: Scores,
    pub(super) kept: Kept<'a>,
}

impl ScoredPack<'_> {
    /// Log-probs and entropies, one for each target.
    #[must_use]
    pub fn scores(&self) -> &Scores {
        &self.scores
    }

    /// Adds the gradient of a loss to `gradients`: that of Σ `d_logp`·logp + Σ `d_entropy`·entropy,
    /// given what the loss has for derivatives with respect to the scores. Without `d_entropy` the
    /// loss does not depend on entropies.
    ///
    /// The same scores, derivatives and parameters add the same bits, whatever the number of threads.
    ///
    /// # Errors
    /// When there is not one derivative per target, when `gradients` are those of another model, or
    /// when the device runs out of memory; part of the gradient may have been added then.
    pub fn backward(
        self,
        d_logp: &[f32],
        d_entropy: Option<&[f32]>,
        gradients: &mut Gradients,
    ) -> Result<(), DecoderError> {
        let expected = self.targets.len();
        let given = [("d_logp", Some(d_logp)), ("d_entropy", d_entropy)];
        for (what, values) in given.into_iter().filter_map(|(what, values)| Some((what, values?))) {
            if values.len() != expected {
                return Err(DecoderError::Derivatives { what, found: values.len(), expected });
            }
        }
        gradients.check(self.decoder)?;
        let slopes = Slopes { targets: &self.targets, scores: &self.scores, d_logp, d_entropy };
        match self.kept {
            Kept::Cpu(kept) => kept.backward(self.decoder, &self.batch, slopes, gradients),
            Kept::Autograd(kept) => kept.backward(self.decoder, &self.batch, slopes, gradients),
        }
    }
}

/// Derivatives of a loss with respect to the scores.
#[derive(Clone, Copy)]
pub(super) struct Slopes<'a> {
    pub(super) targets: &'a [Target],
    pub(super) scores: &'a Scores,
    pub(super) d_logp: &'a [f32],
    pub(super) d_entropy: Option<&'a [f32]>,
}

impl Slopes<'_> {
    /// d loss / d entropy of one target.
    pub(super) fn d_entropy(&self, index: usize) -> f32 {
        self.d_entropy.map_or(0.0, |values| values[index])
    }
}
