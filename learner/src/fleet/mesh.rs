//! From whom a node receives: its parent, the parent's parent as standby, and the mesh.

use super::Fleet;
use super::graph::DEGREE;
use super::member::Member;
use echo_protocol::control::heartbeat::Reach;
use echo_protocol::control::requests::{MAX_NEIGHBOURS, MAX_PEER_ADDRESSES, Neighbour, Neighbourhood, Peer};
use echo_protocol::dissemination::{DisseminationMode, MAX_SOURCE_CONSUMERS, NeighbourRole};
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use std::collections::BTreeSet;

/// Up to this many nodes everybody is everybody's neighbour, and the source everyone's.
pub const SMALL_FLEET: usize = 16;
/// Nodes that the source serves, if it has no more chains than that: the first rows of all chains.
pub const SOURCE_PLACES: usize = 16;
/// Nodes before one in its chain that are looked at for a parent to which it has a link.
const MAX_STEPS: usize = 32;

impl Fleet {
    /// Whom `node` receives from; `None` for a stranger.
    pub fn neighbourhood(&self, now: UnixMillis, node: &PublicKey) -> Option<Neighbourhood> {
        let member = self.members.get(node)?;
        let upstreams = self.upstreams(now, node, member);
        let neighbours: Vec<Neighbour> = upstreams
            .iter()
            .filter_map(|(key, role)| Some(Neighbour { peer: self.peer(key)?, role: *role }))
            .collect();
        let consumers = self.consumers(node, &upstreams);
        let dials = member.heartbeat.reach == Reach::Private;
        let dial = consumers.iter().filter(|_| dials).filter_map(|key| self.peer(key)).collect();
        Some(Neighbourhood { mode: self.config.mode, neighbours, dial, consumers })
    }

    /// The parent first, then the standby, then the mesh; at most [`MAX_NEIGHBOURS`].
    pub(super) fn upstreams(
        &self,
        now: UnixMillis,
        node: &PublicKey,
        member: &Member,
    ) -> Vec<(PublicKey, NeighbourRole)> {
        let me = self.me.key;
        if self.config.mode == DisseminationMode::Star {
            return vec![(me, NeighbourRole::Parent)];
        }
        let usable = |key: &PublicKey| key != node && !member.avoids(key, now) && self.linked(node, key);
        let mut above = self.above(node).take(MAX_STEPS).filter(usable);
        let mut upstreams = vec![(above.next().unwrap_or(me), NeighbourRole::Parent)];
        if upstreams[0].0 != me {
            upstreams.push((above.next().unwrap_or(me), NeighbourRole::Standby));
        }
        if self.config.mode == DisseminationMode::Chain {
            return upstreams;
        }
        let source = self.source_places.contains(node)
            || self.laggards().contains(node)
            || self.present.len() <= SMALL_FLEET;
        let proven = self.benefactor(member).filter(usable);
        let mesh = proven.into_iter().chain(self.mesh(node).into_iter().filter(usable));
        let mesh = source.then_some(me).into_iter().chain(mesh);
        let mut named: BTreeSet<PublicKey> = upstreams.iter().map(|(key, _)| *key).collect();
        for key in mesh {
            if upstreams.len() < MAX_NEIGHBOURS && named.insert(key) {
                upstreams.push((key, NeighbourRole::Mesh));
            }
        }
        upstreams
    }

    /// Those that could be a node's parent, the best first: those before it in its chain, or for a
    /// node that stands in none those at a place of its own among all chains.
    fn above(&self, node: &PublicKey) -> Box<dyn Iterator<Item = PublicKey> + '_> {
        if self.chains.contains(node) { Box::new(self.chains.before(node)) } else { self.picks(node, 0) }
    }

    fn mesh(&self, node: &PublicKey) -> Vec<PublicKey> {
        if self.present.len() <= SMALL_FLEET {
            let serving = |key: &&PublicKey| self.members.get(*key).is_some_and(|member| self.serves(member));
            return self.present.iter().filter(serving).copied().collect();
        }
        if self.graph.contains(node) {
            return self.graph.neighbours(node).collect();
        }
        (1..=DEGREE as u8).filter_map(|n| self.picks(node, n).next()).collect()
    }

    /// Serving nodes from a place that only the node and `n` decide, so that they stay the
    /// same while they live.
    fn picks(&self, node: &PublicKey, n: u8) -> Box<dyn Iterator<Item = PublicKey> + '_> {
        let place = [&self.config.seed[..], node.as_bytes(), &[n]].concat();
        Box::new(self.chains.at(PublicKey::from_bytes(*ContentId::of(&place).as_bytes())))
    }

    /// Peers that pull from `node` and are not among its upstreams. One behind a NAT has to connect to them.
    fn consumers(&self, node: &PublicKey, upstreams: &[(PublicKey, NeighbourRole)]) -> Vec<PublicKey> {
        if self.config.mode == DisseminationMode::Star {
            return Vec::new();
        }
        let named = |key: &PublicKey| upstreams.iter().any(|(other, _)| other == key);
        let behind = self.chains.behind(node).take(2);
        let mesh = if self.config.mode == DisseminationMode::Echo { self.mesh(node) } else { Vec::new() };
        let all = behind.chain(mesh).filter(|key| key != node && !named(key) && self.linked(node, key));
        all.take(MAX_NEIGHBOURS).collect()
    }

    /// Whether one of two nodes can connect to the other.
    pub(super) fn linked(&self, a: &PublicKey, b: &PublicKey) -> bool {
        let reach = |key: &PublicKey| self.members.get(key).map_or(Reach::Public, |m| m.heartbeat.reach);
        reach(a).links(reach(b))
    }

    fn peer(&self, key: &PublicKey) -> Option<Peer> {
        if *key == self.me.key {
            return Some(self.me.clone());
        }
        let addresses = &self.members.get(key)?.heartbeat.addresses;
        Some(Peer { key: *key, addresses: addresses.iter().take(MAX_PEER_ADDRESSES).cloned().collect() })
    }

    /// Finds out anew whom the source serves: the heads of all chains, and the rows after them as
    /// far as there are places.
    pub(super) fn place_at_source(&mut self) {
        let places = SOURCE_PLACES.max(self.chains.count());
        self.source_places = self.chains.by_depth().take(places).collect();
    }

    /// Those whom the source serves before anybody else, at most as many as it has places: where it
    /// does not serve everybody, the heads of all chains, for which it is the parent, then the next
    /// rows, for which it is the standby.
    pub fn source_consumers(&self) -> Vec<PublicKey> {
        let everybody = self.config.mode == DisseminationMode::Star || self.present.len() <= SMALL_FLEET;
        if everybody {
            return self.present.iter().take(MAX_SOURCE_CONSUMERS).copied().collect();
        }
        let places = self.source_places.len().max(2 * self.chains.count());
        let mut consumers: Vec<PublicKey> = self.chains.by_depth().take(places).collect();
        // Before the last rows, which have others too.
        consumers.truncate(MAX_SOURCE_CONSUMERS - self.laggards().len());
        let behind: Vec<PublicKey> =
            self.laggards().iter().filter(|node| !consumers.contains(node)).copied().collect();
        consumers.extend(behind);
        consumers
    }

    /// Those of `consumers` who serve nobody.
    pub fn leaves_among(&self, consumers: &[PublicKey]) -> Vec<PublicKey> {
        let is_leaf = |key: &&PublicKey| self.members.get(key).is_some_and(|member| !self.serves(member));
        consumers.iter().filter(is_leaf).copied().collect()
    }
}
