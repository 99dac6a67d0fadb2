//! When the learner is asked for neighbours.

use crate::wire::identity::PublicKey;
use crate::wire::time::UnixMillis;
use std::collections::BTreeSet;

/// Shortest pause between two questions; doubles while the same question is repeated.
pub(super) const ASK_EVERY_MS: u64 = 500;
/// Longest pause between two questions, in milliseconds.
const MAX_ASK_MS: u64 = 8_000;

/// What was asked, and when to ask again.
#[derive(Debug)]
pub(super) struct Questions {
    again_at: UnixMillis,
    asked_at: Option<UnixMillis>,
    pause: u64,
    lost: BTreeSet<PublicKey>,
    /// Rotten peers that the learner named since: it forgot, or never heard, that they were cut off.
    pub(super) rotten: BTreeSet<PublicKey>,
}

impl Default for Questions {
    fn default() -> Self {
        Self {
            again_at: UnixMillis(0),
            asked_at: None,
            pause: ASK_EVERY_MS,
            lost: BTreeSet::new(),
            rotten: BTreeSet::new(),
        }
    }
}

impl Questions {
    /// When the question may be put that names these as lost.
    pub(super) fn due(&self, lost: &BTreeSet<PublicKey>) -> UnixMillis {
        let Some(asked_at) = self.asked_at else { return UnixMillis(0) };
        // A new loss is reported at once, but nothing is reported more often than this.
        if lost.is_subset(&self.lost) { self.again_at } else { asked_at.plus(ASK_EVERY_MS) }
    }

    /// Notes that the question is put.
    pub(super) fn put(&mut self, now: UnixMillis, lost: BTreeSet<PublicKey>) {
        self.pause = if lost.is_subset(&self.lost) { (self.pause * 2).min(MAX_ASK_MS) } else { ASK_EVERY_MS };
        (self.asked_at, self.again_at) = (Some(now), now.plus(self.pause));
        self.lost = lost;
    }

    /// Nothing is wrong: the next question will be a new one.
    pub(super) fn settled(&mut self) {
        self.lost.clear();
        self.pause = ASK_EVERY_MS;
    }
}
