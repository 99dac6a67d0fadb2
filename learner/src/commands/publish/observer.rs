//! What changed in the fleet since the last look. Plain state: time and members are given to it.

use super::report::{RehearsalEvent, name};
use crate::fleet::{Fleet, Member};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use std::collections::BTreeMap;

/// Follows publications through the fleet.
#[derive(Default)]
pub(super) struct Observer {
    /// Who was here at the last look, with what.
    nodes: BTreeMap<PublicKey, Option<PolicyVersion>>,
    newest: Option<(PolicyVersion, UnixMillis)>,
    /// Milliseconds until each living node had the newest version.
    installed: BTreeMap<PublicKey, u64>,
    reported_complete: bool,
    /// Reported peers, and by how many.
    rotten: BTreeMap<PublicKey, usize>,
}

impl Observer {
    /// Begins to time `version`, which was published at `at`.
    pub(super) fn published(&mut self, at: UnixMillis, version: PolicyVersion) {
        self.newest = Some((version, at));
        self.installed.clear();
        self.reported_complete = false;
    }

    /// Living nodes at the last look.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Whether every living node has the newest version, and there is one of each.
    pub(super) fn complete(&self) -> bool {
        self.newest.is_some() && !self.nodes.is_empty() && self.installed.len() == self.nodes.len()
    }

    /// How far the newest version is.
    pub(super) fn progress(&self, now: UnixMillis, sent_bytes: u64) -> RehearsalEvent {
        let version = self.newest.map(|(version, _)| version.0);
        let (installed, nodes) = (self.installed.len(), self.nodes.len());
        RehearsalEvent::Progress { at_ms: now.0, version, installed, nodes, sent_bytes }
    }

    /// Compares the fleet with the last look.
    pub(super) fn look(&mut self, now: UnixMillis, fleet: &Fleet) -> Vec<RehearsalEvent> {
        let mut events = self.follow(now, fleet.members());
        for (peer, reporters) in fleet.rotten_peers() {
            if self.rotten.insert(peer, reporters) != Some(reporters) {
                events.push(RehearsalEvent::Rotten { at_ms: now.0, peer: name(&peer), reporters });
            }
        }
        events
    }

    fn follow(&mut self, now: UnixMillis, members: &BTreeMap<PublicKey, Member>) -> Vec<RehearsalEvent> {
        let mut events = Vec::new();
        let gone: Vec<PublicKey> = self.nodes.keys().filter(|n| !members.contains_key(n)).copied().collect();
        for node in gone {
            self.nodes.remove(&node);
            self.installed.remove(&node);
            events.push(RehearsalEvent::Gone { at_ms: now.0, node: name(&node), nodes: self.nodes.len() });
        }
        for (node, member) in members {
            let version = member.heartbeat.installed;
            let before = self.nodes.insert(*node, version);
            if before.is_none() {
                events.push(RehearsalEvent::Joined {
                    at_ms: member.seen.0,
                    node: name(node),
                    nodes: self.nodes.len(),
                });
            }
            let Some((newest, published)) = self.newest else { continue };
            let (true, Some(at)) = (version == Some(newest), member.installed_at) else { continue };
            if !self.installed.contains_key(node) {
                let ms = at.since(published);
                self.installed.insert(*node, ms);
                events.push(RehearsalEvent::Installed {
                    at_ms: at.0,
                    node: name(node),
                    version: newest.0,
                    ms,
                });
            }
        }
        if self.complete() && !self.reported_complete {
            self.reported_complete = true;
            events.extend(self.completed(now));
        }
        events
    }

    fn completed(&self, now: UnixMillis) -> Option<RehearsalEvent> {
        let (version, _) = self.newest?;
        let mut times: Vec<u64> = self.installed.values().copied().collect();
        times.sort_unstable();
        // The time at which at least 90 % of the nodes had it.
        let ninety = (times.len() * 9).div_ceil(10).max(1) - 1;
        let (t_bcast_90_ms, t_bcast_ms) = (*times.get(ninety)?, *times.last()?);
        Some(RehearsalEvent::Complete {
            at_ms: now.0,
            version: version.0,
            nodes: times.len(),
            t_bcast_90_ms,
            t_bcast_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::control::heartbeat::Heartbeat;
    use echo_protocol::wire::identity::NodeKey;

    fn key(seed: u8) -> PublicKey {
        NodeKey::from_secret([seed; 32]).public()
    }

    fn member(installed: Option<u64>, at: u64) -> Member {
        let heartbeat = Heartbeat { installed: installed.map(PolicyVersion), ..Heartbeat::default() };
        Member::new(heartbeat, UnixMillis(at))
    }

    #[test]
    fn follows_a_version_until_every_living_node_has_it() {
        let mut observer = Observer::default();
        let mut fleet: BTreeMap<_, _> = (1..=3).map(|n| (key(n), member(None, 5))).collect();
        assert_eq!(observer.follow(UnixMillis(10), &fleet).len(), 3);
        assert!(!observer.complete(), "nothing is published");

        observer.published(UnixMillis(100), PolicyVersion(0));
        fleet.insert(key(1), member(Some(0), 150));
        fleet.insert(key(2), member(Some(0), 400));
        let events = observer.follow(UnixMillis(410), &fleet);
        // Nodes come in the order of their keys.
        let mut times: Vec<u64> = events
            .iter()
            .filter_map(|e| if let RehearsalEvent::Installed { ms, .. } = e { Some(*ms) } else { None })
            .collect();
        times.sort_unstable();
        assert_eq!((events.len(), times), (2, vec![50, 300]));
        assert!(!observer.complete());

        // The third dies; the rest is complete, which is said once.
        fleet.remove(&key(3));
        let events = observer.follow(UnixMillis(500), &fleet);
        assert!(matches!(
            events[..],
            [
                RehearsalEvent::Gone { nodes: 2, .. },
                RehearsalEvent::Complete { nodes: 2, t_bcast_90_ms: 300, t_bcast_ms: 300, .. }
            ]
        ));
        assert!(observer.complete() && observer.follow(UnixMillis(600), &fleet).is_empty());

        // The next version begins anew.
        observer.published(UnixMillis(700), PolicyVersion(1));
        assert!(!observer.complete());
    }
}
