//! What a peer has taken of an allowance.

use std::time::Duration;
use tokio::time::Instant;

/// A leaky bucket, which leaks all the time, as the time at which it will be empty.
///
/// Who must wait for what it brings fills first and then waits; who is sent away asks first how
/// long, and has taken nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeakyBucket(Instant);

impl LeakyBucket {
    /// An empty bucket at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self(now)
    }

    /// Pours in what leaks within `took`.
    pub(super) fn fill(&mut self, now: Instant, took: Duration) {
        self.0 = self.0.max(now) + took;
    }

    /// How long until it holds no more than what leaks within `burst`.
    pub(super) fn wait(self, now: Instant, burst: Duration) -> Duration {
        self.0.saturating_duration_since(now + burst)
    }

    /// Whether all has leaked.
    pub(super) fn is_empty(self, now: Instant) -> bool {
        self.0 <= now
    }
}
