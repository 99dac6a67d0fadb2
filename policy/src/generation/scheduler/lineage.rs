//! Which versions filled a cache.

/// Whose computing the caches of a group hold.
#[derive(Debug)]
pub(super) struct Lineage {
    /// The version that computed everything in the caches, if it is a single one.
    pure: Option<u64>,
    /// Whether the caches were given up since the last draw.
    pub(super) anew: bool,
    /// Whether something was computed since the last draw.
    pub(super) midway: bool,
    /// What becomes of [`super::Completion::recomputed`].
    pub(super) recomputed: Vec<u32>,
}

impl Lineage {
    pub(super) fn new() -> Self {
        Self { pure: None, anew: true, midway: false, recomputed: Vec::new() }
    }

    pub(super) fn forget(&mut self) {
        (self.anew, self.midway) = (true, false);
    }

    /// Notes that token `position` of every response was drawn by this version.
    pub(super) fn drawn(&mut self, position: usize, version: u64) {
        if self.anew && position > 0 && self.pure != Some(version) {
            self.recomputed.push(position as u32);
        }
        let pure = self.anew || self.pure == Some(version);
        (self.pure, self.anew, self.midway) = (pure.then_some(version), false, false);
    }
}
