//! Up to where top-k, top-p and greedy sampling draw.

/// The last token, in order of falling logit and rising id, of those that stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Border {
    /// Logit of that token.
    pub(super) floor: f32,
    /// Id of that token.
    pub(super) last: usize,
}

impl Border {
    /// Whether a token stays.
    pub(super) fn keeps(&self, id: usize, logit: f32) -> bool {
        logit > self.floor || (logit == self.floor && id <= self.last)
    }

    /// How many of the `len` tokens from `start` on stay when their logit is the border's.
    pub(super) fn split(&self, start: usize, len: usize) -> usize {
        (self.last + 1).saturating_sub(start).min(len)
    }
}
