//! `[sampling]`

use echo_protocol::run::charter::{DrawRule, Sampling, Takeover};
use serde::{Deserialize, Serialize};

/// `[sampling]`: how nodes draw responses; the charter fixes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingSection {
    /// G: responses to each prompt.
    pub group_size: u32,
    /// Softmax temperature, 0.01 to 10.
    pub temperature: f32,
    /// Nucleus mass; 1 is off.
    pub top_p: f32,
    /// Most likely tokens kept; 0 is off.
    pub top_k: u32,
    /// Longest response in tokens; left out, what the tasks' longest answer needs.
    pub max_new_tokens: Option<u32>,
    /// What nodes do with the responses that they are generating when a newer policy
    /// comes: `recompute` caches and go on under it, `keep` caches and go on, or `wait`
    /// until they are done.
    pub takeover: Takeover,
}

impl Default for SamplingSection {
    fn default() -> Self {
        let takeover = Takeover::default();
        Self { group_size: 16, temperature: 1.0, top_p: 1.0, top_k: 0, max_new_tokens: None, takeover }
    }
}

/// The largest vocabulary of which tokens are drawn by intervals: with so few, hardly any two of them
/// are within the tolerances of an audit, and a race would only cost time.
const MOST_BY_INTERVALS: usize = 256;

impl SamplingSection {
    /// The charter's form, with `longest` tokens where the file leaves the length out. Of a large
    /// `vocabulary`, tokens are drawn by a race, so that a node has no choice among them.
    pub fn charter(&self, longest: u32, vocabulary: usize) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            max_new_tokens: self.max_new_tokens.unwrap_or(longest),
            draw: if vocabulary > MOST_BY_INTERVALS { DrawRule::Race } else { DrawRule::Intervals },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_a_large_vocabulary_race() {
        let draw = |vocabulary| SamplingSection::default().charter(8, vocabulary).draw;
        assert_eq!((draw(0), draw(MOST_BY_INTERVALS)), (DrawRule::Intervals, DrawRule::Intervals));
        assert_eq!((draw(MOST_BY_INTERVALS + 1), draw(151_936)), (DrawRule::Race, DrawRule::Race));
    }
}
