//! Prompts that follow from a seed.

use crate::model::config::ModelConfig;

/// Domain of the hash that prompts are drawn from.
const CONTEXT: &str = "echo-policy 2026 random prompts v1";
/// Most tokens at the end of a prompt that are fed one by one.
const MOST_SINGLES: f64 = 8.0;

/// A prompt, and a token that is said to follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedPrompt {
    /// At least two: the last is only claimed, never fed.
    tokens: Vec<u32>,
    singles: usize,
}

impl ClaimedPrompt {
    /// What is fed: at least one token.
    #[must_use]
    pub fn inputs(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() - 1]
    }

    /// What is said to follow each of them.
    #[must_use]
    pub fn claims(&self) -> &[u32] {
        &self.tokens[1..]
    }

    /// How many of the inputs, at the end, are fed one by one when it is fed as generation does.
    #[must_use]
    pub fn singles(&self) -> usize {
        self.singles
    }
}

/// So many prompts of 1 to `longest` tokens, or to as many as the model has positions for. The
/// logarithms of their lengths are uniform, so that short ones and long ones are compared in calls
/// of every kind; the ends of half of them are fed one by one.
#[must_use]
pub fn prompts(config: &ModelConfig, count: usize, longest: usize, seed: u64) -> Vec<ClaimedPrompt> {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(&seed.to_le_bytes());
    let mut stream = hasher.finalize_xof();
    let mut uniform = || {
        let mut word = [0u8; 8];
        stream.fill(&mut word);
        (u64::from_le_bytes(word) >> 11) as f64 / (1u64 << 53) as f64
    };
    let longest = longest.clamp(1, config.max_position_embeddings);
    (0..count)
        .map(|_| {
            let length = (((longest + 1) as f64).powf(uniform()) as usize).clamp(1, longest);
            let one_by_one = uniform() < 0.5;
            let singles = 1 + (uniform() * MOST_SINGLES) as usize;
            let tokens = (0..=length).map(|_| (uniform() * config.vocab_size as f64) as u32).collect();
            ClaimedPrompt { tokens, singles: if one_by_one { singles.min(length) } else { 0 } }
        })
        .collect()
}
