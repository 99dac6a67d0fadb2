//! What a node's word against another is worth: for itself, at once; for others, only together with
//! those of several more.

use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use std::collections::BTreeMap;

/// Nodes that have to say the same of a node before others act upon it.
pub const QUORUM: usize = 3;
/// Reports of lost neighbours that one node may make within [`REPORT_WINDOW_MS`]; more are not heard.
pub const MAX_REPORTS: u32 = 24;
/// The window of [`MAX_REPORTS`], and how long a report counts towards the quorum, in milliseconds.
pub const REPORT_WINDOW_MS: u64 = 60_000;
/// Accused nodes that are remembered; beyond, the one whose accusers are oldest is forgotten.
pub(super) const MAX_ACCUSED: usize = 4096;
/// Accusers of one node that are remembered: more would change nothing.
pub(super) const MAX_ACCUSERS: usize = 2 * QUORUM;

/// How much a node has said lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReportCount {
    since: UnixMillis,
    count: u32,
}

impl ReportCount {
    /// Whether one more report is heard.
    pub(super) fn one_more(&mut self, now: UnixMillis) -> bool {
        if now.since(self.since) >= REPORT_WINDOW_MS {
            *self = Self { since: now, count: 0 };
        }
        self.count += 1;
        self.count <= MAX_REPORTS
    }
}

/// Who accuses whom of having failed it, each with the time of the last word.
#[derive(Clone, Debug, Default)]
pub(super) struct Accusations {
    by_accused: BTreeMap<PublicKey, BTreeMap<PublicKey, UnixMillis>>,
}

/// What an accusation adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accusation {
    /// Nodes that said the same within the last [`REPORT_WINDOW_MS`] milliseconds, this one included.
    pub(super) accusers: usize,
    /// Whether this one had not said so yet.
    pub(super) new: bool,
}

impl Accusation {
    /// Whether it makes the quorum.
    pub(super) fn makes_quorum(self) -> bool {
        self.new && self.accusers == QUORUM
    }
}

impl Accusations {
    /// Notes one accusation, unless [`MAX_ACCUSERS`] nodes said the same already.
    pub(super) fn add(&mut self, now: UnixMillis, accuser: PublicKey, accused: PublicKey) -> Accusation {
        let accusers = self.by_accused.entry(accused).or_default();
        accusers.retain(|_, at| now.since(*at) < REPORT_WINDOW_MS);
        if accusers.len() >= MAX_ACCUSERS {
            return Accusation { accusers: accusers.len(), new: false };
        }
        let new = accusers.insert(accuser, now).is_none();
        let word = Accusation { accusers: accusers.len(), new };
        self.forget_oldest();
        word
    }

    fn forget_oldest(&mut self) {
        if self.by_accused.len() > MAX_ACCUSED {
            let newest = |accusers: &BTreeMap<_, UnixMillis>| accusers.values().max().copied();
            let oldest = self.by_accused.iter().min_by_key(|(_, accusers)| newest(accusers));
            let oldest = oldest.map(|(accused, _)| *accused);
            oldest.map(|accused| self.by_accused.remove(&accused));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::identity::NodeKey;

    fn key(seed: u8) -> PublicKey {
        NodeKey::from_secret([seed; 32]).public()
    }

    #[test]
    fn a_quorum_needs_different_accusers_within_the_window() {
        let mut accusations = Accusations::default();
        let mut add = |at, accuser| accusations.add(UnixMillis(at), key(accuser), key(9)).makes_quorum();
        assert!(!(0..10).any(|_| add(0, 1)), "one accuser is one accuser");
        assert!(!add(100, 2));
        assert!(!add(REPORT_WINDOW_MS + 50, 3), "the first word has grown old");
        assert!(add(REPORT_WINDOW_MS + 60, 4));
        assert!(!add(REPORT_WINDOW_MS + 70, 5), "the quorum is made once");
    }

    #[test]
    fn a_chatterbox_is_not_heard_for_a_while() {
        let mut reports = ReportCount::default();
        assert!((0..MAX_REPORTS).all(|_| reports.one_more(UnixMillis(REPORT_WINDOW_MS))));
        assert!(!reports.one_more(UnixMillis(REPORT_WINDOW_MS + 1)));
        assert!(reports.one_more(UnixMillis(2 * REPORT_WINDOW_MS)));
    }

    #[test]
    fn memory_of_accusations_is_bounded() {
        let mut accusations = Accusations::default();
        for n in 0..MAX_ACCUSED as u32 + 10 {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            accusations.add(UnixMillis(n.into()), key(1), PublicKey::from_bytes(bytes));
        }
        assert_eq!(accusations.by_accused.len(), MAX_ACCUSED);
    }
}
