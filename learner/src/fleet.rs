//! The fleet: who is here, under which version, and in which forwarding chain. Sans-IO.
//!
//! Chains follow ECHO-2 §4.2: the learner sends to the head of each of N_ch = max(1, ⌊B0/Bw⌋) chains, every node passes on to the
//! next. They are kept as they are while nodes live, because reshuffling in mid-broadcast would leave two halves of the fleet waiting
//! for each other; a node that comes is appended, one that goes leaves its child to its parent, one whose child reports it as lost
//! moves to the tail.

pub mod chains;

use chains::Chains;
use echo_protocol::control::Peer;
use echo_protocol::heartbeat::{ACTIVE_FOR_MS, Heartbeat};
use echo_protocol::identity::PublicKey;
use echo_protocol::time::UnixMillis;
use echo_protocol::version::PolicyVersion;
use std::collections::{BTreeMap, VecDeque};

/// Most nodes that a fleet holds; heartbeats of further ones are refused.
pub const MAX_NODES: usize = 100_000;
/// Broadcast times kept for the percentiles.
pub const MAX_BROADCAST_SAMPLES: usize = 4096;
/// Publications whose arrival is still timed.
const MAX_PUBLICATIONS: usize = 64;

/// What is known of one node.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its last heartbeat.
    pub heartbeat: Heartbeat,
    /// When that came.
    pub seen: UnixMillis,
}

/// All nodes of a run, as the learner sees them.
#[derive(Debug)]
pub struct Fleet {
    me: Peer,
    members: BTreeMap<PublicKey, Member>,
    chains: Chains,
    publications: VecDeque<(PolicyVersion, UnixMillis)>,
    broadcast_ms: VecDeque<u64>,
}

/// Nobody further can join.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fleet has {MAX_NODES} nodes, which is its limit: ask again later")]
pub struct FleetFull;

impl Fleet {
    /// An empty fleet around the learner `me`, with `chain_count` chains (see [`chains::chain_count`]).
    pub fn new(me: Peer, chain_count: usize) -> Self {
        let (publications, broadcast_ms) = (VecDeque::new(), VecDeque::new());
        Self { me, members: BTreeMap::new(), chains: Chains::new(chain_count), publications, broadcast_ms }
    }

    /// Takes in a heartbeat. A node that is new, or back after a silence, gets a place in a chain.
    pub fn heartbeat(
        &mut self,
        now: UnixMillis,
        node: PublicKey,
        heartbeat: Heartbeat,
    ) -> Result<(), FleetFull> {
        if self.members.len() >= MAX_NODES && !self.members.contains_key(&node) {
            return Err(FleetFull);
        }
        let before = self.members.get(&node).and_then(|m| m.heartbeat.installed);
        if heartbeat.installed > before
            && let Some(version) = heartbeat.installed
            && let Some((_, at)) = self.publications.iter().find(|(v, _)| *v == version)
        {
            self.broadcast_ms.push_back(now.since(*at));
            if self.broadcast_ms.len() > MAX_BROADCAST_SAMPLES {
                self.broadcast_ms.pop_front();
            }
        }
        self.chains.join(node, heartbeat.relays);
        self.members.insert(node, Member { heartbeat, seen: now });
        Ok(())
    }

    /// Forgets nodes that have been silent for too long, closes the gaps that they leave, and returns them.
    pub fn expire(&mut self, now: UnixMillis) -> Vec<PublicKey> {
        let silent = self.members.iter().filter(|(_, member)| now.since(member.seen) > ACTIVE_FOR_MS);
        let gone: Vec<PublicKey> = silent.map(|(node, _)| *node).collect();
        for node in &gone {
            self.members.remove(node);
            self.chains.leave(node);
        }
        gone
    }

    /// Notes when a version went out.
    pub fn published(&mut self, now: UnixMillis, version: PolicyVersion) {
        self.publications.push_back((version, now));
        if self.publications.len() > MAX_PUBLICATIONS {
            self.publications.pop_front();
        }
    }

    /// Takes a child's word that its parent is gone or rotten: that parent moves to the tail, where nobody waits for it.
    pub fn lost(&mut self, child: &PublicKey, parent: &PublicKey) {
        if self.chains.parent(child).as_ref() == Some(parent) {
            self.chains.lost(child, parent);
        }
    }

    /// Whom `node` receives from: a node of its chain, or the learner itself.
    pub fn parent(&self, node: &PublicKey) -> Option<Peer> {
        if !self.members.contains_key(node) {
            return None;
        }
        let Some(parent) = self.chains.parent(node) else { return Some(self.me.clone()) };
        let addresses = self.members.get(&parent)?.heartbeat.addresses.clone();
        Some(Peer { key: parent, addresses })
    }

    /// The active nodes.
    pub fn members(&self) -> &BTreeMap<PublicKey, Member> {
        &self.members
    }

    /// The forwarding chains.
    pub fn chains(&self) -> &Chains {
        &self.chains
    }

    /// The p-th percentile (0 to 1) of the time from a publication to its installation on a node, in milliseconds: T_bcast.
    pub fn broadcast_ms(&self, p: f64) -> Option<u64> {
        let mut sorted: Vec<u64> = self.broadcast_ms.iter().copied().collect();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        sorted.get((p.clamp(0.0, 1.0) * last as f64).round() as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::identity::NodeKey;

    fn key(seed: u8) -> PublicKey {
        NodeKey::from_secret([seed; 32]).public()
    }

    fn fleet() -> Fleet {
        Fleet::new(Peer { key: key(0), addresses: vec!["/learner".into()] }, 1)
    }

    fn beat(installed: Option<u64>) -> Heartbeat {
        let addresses = vec!["/node".into()];
        Heartbeat { installed: installed.map(PolicyVersion), relays: true, addresses, ..Heartbeat::default() }
    }

    #[test]
    fn nodes_join_leave_and_are_replaced_as_parents() {
        let mut fleet = fleet();
        for n in 1..=3 {
            fleet.heartbeat(UnixMillis(0), key(n), beat(None)).unwrap();
        }
        let parents =
            |fleet: &Fleet| (1..=3).map(|n| fleet.parent(&key(n)).map(|p| p.key)).collect::<Vec<_>>();
        assert_eq!(parents(&fleet), [Some(key(0)), Some(key(1)), Some(key(2))]);
        // The second falls silent: the third goes to its parent.
        let late = UnixMillis(ACTIVE_FOR_MS + 1);
        for n in [1, 3] {
            fleet.heartbeat(late, key(n), beat(None)).unwrap();
        }
        assert_eq!(fleet.expire(late), [key(2)]);
        assert_eq!(fleet.parent(&key(2)), None);
        assert_eq!(fleet.members().len(), 2);
        let heads = fleet.members().keys().filter(|n| fleet.parent(n).unwrap().key == key(0)).count();
        assert_eq!(heads, 1);
    }

    #[test]
    fn a_parent_reported_by_its_child_moves_to_the_tail() {
        let mut fleet = fleet();
        for n in 1..=3 {
            fleet.heartbeat(UnixMillis(0), key(n), beat(None)).unwrap();
        }
        fleet.lost(&key(3), &key(1));
        assert_eq!(fleet.parent(&key(2)).unwrap().key, key(1), "a stranger's word moves nobody");
        fleet.lost(&key(2), &key(1));
        assert_eq!(fleet.parent(&key(2)).unwrap().key, key(0));
        assert_eq!(fleet.parent(&key(1)).unwrap().key, key(3));
    }

    #[test]
    fn times_the_broadcast_once_for_each_node_and_version() {
        let mut fleet = fleet();
        assert_eq!(fleet.broadcast_ms(0.5), None);
        fleet.published(UnixMillis(100), PolicyVersion(2));
        for (node, at) in [(1, 150), (2, 400), (1, 900)] {
            fleet.heartbeat(UnixMillis(at), key(node), beat(Some(2))).unwrap();
        }
        assert_eq!((fleet.broadcast_ms(0.0), fleet.broadcast_ms(1.0)), (Some(50), Some(300)));
    }
}
