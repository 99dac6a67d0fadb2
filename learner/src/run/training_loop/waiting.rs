//! What a long wait for a batch is for, so that nobody has to guess it.

use crate::common::long_waits::ReportDue;
use crate::fleet::Fleet;
use crate::intake::coordinator::Coordinator;
use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Nodes that a word names: those that hold the most orders.
const NAMED: usize = 3;

/// A wait for one batch.
pub(super) struct Waiting {
    version: PolicyVersion,
    due: ReportDue,
    /// Groups that had been turned away when it began.
    before: Lost,
}

/// What the fleet can do for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hands {
    /// Nodes that were heard of lately.
    nodes: usize,
    /// Those that hold a policy which is fresh enough for work.
    served: usize,
}

/// Groups by the reason for which they came to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lost {
    refused: BTreeMap<&'static str, u64>,
    dropped: BTreeMap<&'static str, u64>,
}

impl Waiting {
    /// A wait for the batch of `version` begins.
    pub(super) fn new(version: PolicyVersion, coordinator: &Coordinator) -> Self {
        Self { version, due: ReportDue::default(), before: Lost::so_far(coordinator) }
    }

    /// Whether it is worth a word after it took `waited`. True once for each doubling.
    pub(super) fn is_due(&mut self, waited: Duration) -> bool {
        self.due.is_due(waited)
    }

    /// The text for the log: what is there for the batch, and what came to nothing meanwhile.
    pub(super) fn text(&self, waited: Duration, coordinator: &Coordinator, hands: Hands) -> String {
        let Hands { nodes, served } = hands;
        let (work, update) = (coordinator.work(self.version), self.version.next());
        let mut text = format!(
            "waiting for the batch of update {} for {} s: {} of {} groups are there, {} orders are out with {} nodes",
            update.0,
            waited.as_secs(),
            work.ready,
            coordinator.groups_per_update(),
            work.out,
            work.holders.len()
        );
        let most =
            work.holders.iter().take(NAMED).map(|(node, orders)| format!("{orders} with {}", node.short()));
        let most: Vec<String> = most.collect();
        if !most.is_empty() {
            let _ = write!(text, " ({})", most.join(", "));
        }
        let published = work.published.map_or_else(|| "none".to_owned(), |version| version.to_string());
        let _ = write!(
            text,
            "; of {nodes} nodes, {served} have a policy that is fresh enough (newest published: {published})"
        );
        let lost = Lost::so_far(coordinator).since(&self.before);
        for (what, counts) in [("refused", lost.refused), ("dropped", lost.dropped)] {
            if !counts.is_empty() {
                let counts: Vec<String> =
                    counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
                let _ = write!(text, "; {what} meanwhile: {}", counts.join(", "));
            }
        }
        text
    }
}

impl Hands {
    /// Of nodes that were heard of, while the learner is at `current`.
    pub(super) fn of(fleet: &Fleet, staleness: &Staleness, current: PolicyVersion) -> Self {
        let served = |installed: &PolicyVersion| staleness.serves(*installed, current);
        let installed = fleet.members().values().filter_map(|member| member.heartbeat.installed);
        Self { nodes: fleet.members().len(), served: installed.filter(served).count() }
    }
}

impl Lost {
    fn so_far(coordinator: &Coordinator) -> Self {
        let refused = coordinator.tally().refused.iter().map(|(reason, groups)| (reason.name(), *groups));
        let dropped =
            coordinator.totals().dropped.iter().map(|(reason, count)| (reason.name(), count.groups));
        Self { refused: refused.collect(), dropped: dropped.collect() }
    }

    /// What has been lost since `before`.
    fn since(self, before: &Self) -> Self {
        let newer = |now: BTreeMap<&'static str, u64>, before: &BTreeMap<&'static str, u64>| {
            let since = now.into_iter().map(|(name, count)| (name, count - before.get(name).unwrap_or(&0)));
            since.filter(|(_, count)| *count > 0).collect()
        };
        Self { refused: newer(self.refused, &before.refused), dropped: newer(self.dropped, &before.dropped) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::release::tests::Fixture;

    #[test]
    fn the_word_says_what_is_there_and_what_is_missing() {
        let fixture = Fixture::new();
        let coordinator = fixture.shared.coordinator();
        let waiting = Waiting::new(PolicyVersion(0), &coordinator);
        let text = waiting.text(Duration::from_secs(61), &coordinator, Hands { nodes: 3, served: 1 });
        let needed = coordinator.groups_per_update();
        for part in [
            "update 1 for 61 s".to_owned(),
            format!("0 of {needed} groups"),
            "0 orders are out with 0 nodes".to_owned(),
            "of 3 nodes, 1 have".to_owned(),
        ] {
            assert!(text.contains(&part), "{part}: {text}");
        }
        assert!(!text.contains("meanwhile"), "{text}");
    }

    #[test]
    fn only_what_was_lost_in_the_wait_counts() {
        let lost = |counts: &[(&'static str, u64)]| Lost {
            refused: counts.iter().copied().collect(),
            dropped: BTreeMap::new(),
        };
        let since =
            lost(&[("stale", 7), ("lease", 2), ("signature", 1)]).since(&lost(&[("stale", 4), ("lease", 2)]));
        assert_eq!(since, lost(&[("stale", 3), ("signature", 1)]));
    }
}
