//! Epochs: the lives of a run's learner.

use crate::wire::time::UnixMillis;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One life of a run's learner, from a start to the next.
///
/// A learner that starts anew may publish a version again with other deltas, or, from a backup, with other
/// weights. An epoch and a version together name one manifest for ever. Nodes follow the epoch that the
/// learner answers with now, whatever numbers they saw before: epochs are compared for equality alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch of a learner that starts at `wall`. The last lease in its directory is of the epoch `last`.
    ///
    /// The seconds of the wall clock make it another one than all that were lost with the
    /// directory's newer states: a directory that is restored from a backup knows nothing of them.
    /// A clock that was set back costs nothing else.
    #[must_use]
    pub fn after(last: Self, wall: UnixMillis) -> Self {
        let seconds = u32::try_from(wall.0 / 1_000).unwrap_or(u32::MAX);
        Self(seconds.max(last.0.saturating_add(1)))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_new_whatever_the_clock_says() {
        let at = |seconds: u64| UnixMillis(seconds * 1_000);
        assert_eq!(Epoch::after(Epoch(0), at(1_700_000_000)), Epoch(1_700_000_000));
        assert_eq!(Epoch::after(Epoch(1_700_000_000), at(5)), Epoch(1_700_000_001), "the clock was set back");
        assert_eq!(Epoch::after(Epoch(7), at(7)), Epoch(8), "twice in one second");
    }
}
