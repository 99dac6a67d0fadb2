//! The reference's distributions after every token of some prompts.

use super::{Agreement, AgreementError, ClaimedPrompt, Reference};

/// A row is a token of the prompts laid end to end.
pub(super) struct ExpectedScores {
    vocab: usize,
    /// `[rows, vocab]`, as all of these.
    logprobs: Vec<f64>,
    probabilities: Vec<f64>,
    /// The likeliest token of each row.
    tops: Vec<usize>,
    /// What is said to follow each row.
    claims: Vec<u32>,
}

impl ExpectedScores {
    pub(super) fn of(reference: &impl Reference, prompts: &[ClaimedPrompt]) -> Result<Self, AgreementError> {
        let logits = reference.distributions(prompts)?;
        let vocab = reference.vocab();
        let mut logprobs = Vec::with_capacity(logits.len());
        for row in logits.chunks_exact(vocab) {
            let normaliser = normaliser(row);
            logprobs.extend(row.iter().map(|logit| f64::from(*logit) - normaliser));
        }
        Ok(Self {
            vocab,
            probabilities: logprobs.iter().map(|logprob| logprob.exp()).collect(),
            logprobs,
            tops: logits.chunks_exact(vocab).map(top).collect(),
            claims: prompts.iter().flat_map(ClaimedPrompt::claims).copied().collect(),
        })
    }

    /// Holds a backend's logits of a row against it.
    pub(super) fn compare(&self, row: usize, logits: &[f32], found: &mut Agreement) {
        let normaliser = normaliser(logits);
        let place = row * self.vocab..(row + 1) * self.vocab;
        let terms = self.probabilities[place.clone()].iter().zip(&self.logprobs[place]).zip(logits);
        let kl = terms.map(|((p, logprob), logit)| p * (logprob - (f64::from(*logit) - normaliser))).sum();
        found.saw_distribution(kl, top(logits) == self.tops[row]);
        let claimed = f64::from(logits[self.claims[row] as usize]) - normaliser;
        self.compare_claim(row, claimed, found);
    }

    /// Holds a backend's log-prob of the token that is said to follow a row against it.
    pub(super) fn compare_claim(&self, row: usize, logprob: f64, found: &mut Agreement) {
        found.saw_logprob(self.logprobs[row * self.vocab + self.claims[row] as usize], logprob);
    }
}

/// log Σ exp(x). NaN when a logit is.
fn normaliser(logits: &[f32]) -> f64 {
    let most = f64::from(logits[top(logits)]);
    most + logits.iter().map(|logit| (f64::from(*logit) - most).exp()).sum::<f64>().ln()
}

/// The first of the largest logits.
fn top(logits: &[f32]) -> usize {
    let mut top = 0;
    for (token, logit) in logits.iter().enumerate() {
        if *logit > logits[top] {
            top = token;
        }
    }
    top
}
