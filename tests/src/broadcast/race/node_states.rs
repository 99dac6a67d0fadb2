//! What has become of each node. All times are seconds after publication.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// What has become of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fate {
    /// When it had the whole snapshot.
    pub(crate) complete_s: Option<f64>,
    /// When it was killed last, if it was not started again.
    pub(crate) down_since: Option<f64>,
    /// Whether it was ever killed.
    pub(crate) killed: bool,
    /// For how long it was away before it was complete.
    pub(crate) away_s: f64,
}

/// What has become of every node, by host.
#[derive(Clone, Debug)]
pub(super) struct Fates {
    nodes: BTreeMap<usize, Fate>,
    /// When `--slow` or `--gone` happened.
    pub(super) fault_s: Option<f64>,
}

impl Fates {
    /// All are up, none is complete.
    pub(super) fn new(hosts: RangeInclusive<usize>) -> Self {
        Self { nodes: hosts.map(|host| (host, Fate::default())).collect(), fault_s: None }
    }

    /// A node was killed.
    pub(super) fn killed(&mut self, host: usize, at: f64) {
        let fate = self.nodes.entry(host).or_default();
        (fate.killed, fate.down_since) = (true, Some(at));
    }

    /// A killed node was started again.
    pub(super) fn back(&mut self, host: usize, at: f64) {
        let fate = self.nodes.entry(host).or_default();
        if let (Some(since), None) = (fate.down_since.take(), fate.complete_s) {
            fate.away_s += at - since;
        }
    }

    /// A node has the whole snapshot.
    pub(super) fn complete(&mut self, host: usize, at: f64) {
        self.nodes.entry(host).or_default().complete_s.get_or_insert(at);
    }

    /// Nodes that are up and not complete.
    pub(super) fn awaited(&self) -> Vec<usize> {
        let awaited = self.living().filter(|(_, fate)| fate.complete_s.is_none());
        awaited.map(|(host, _)| host).collect()
    }

    /// Nodes that are up and complete, and all that are up.
    pub(super) fn count(&self) -> (usize, usize) {
        (self.complete_nodes().count(), self.living().count())
    }

    /// Nodes that are up and complete.
    pub(super) fn complete_nodes(&self) -> impl Iterator<Item = (usize, &Fate)> {
        self.living().filter(|(_, fate)| fate.complete_s.is_some())
    }

    /// Nodes that are up.
    pub(super) fn living(&self) -> impl Iterator<Item = (usize, &Fate)> {
        self.all().filter(|(_, fate)| fate.down_since.is_none())
    }

    /// All nodes by host, whether they live or not.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Fate)> {
        self.nodes.iter().map(|(host, fate)| (*host, fate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_not_waited_for_and_downtime_counts_until_complete() {
        let mut fates = Fates::new(1..=3);
        fates.complete(1, 2.0);
        fates.killed(1, 2.5);
        fates.killed(2, 3.0);
        assert_eq!((fates.awaited(), fates.count()), (vec![3], (0, 1)));
        fates.back(1, 4.0);
        fates.back(2, 4.5);
        fates.complete(2, 6.0);
        fates.complete(2, 9.0);
        let away: Vec<_> = fates.all().map(|(_, fate)| (fate.away_s, fate.complete_s)).collect();
        assert_eq!(away, [(0.0, Some(2.0)), (1.5, Some(6.0)), (0.0, None)]);
        assert_eq!(fates.count(), (2, 3));
    }
}
