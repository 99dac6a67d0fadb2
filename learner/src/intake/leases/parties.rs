//! Who is behind the nodes that ask for orders: keys cost nothing, networks do.

use std::collections::{BTreeMap, BTreeSet};

use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;

use super::LeaseBook;
use crate::reputation::NetworkPrefix;

/// Most keys whose network is remembered here. Beyond, those that hold nothing are forgotten.
const MAX_REMEMBERED: usize = 1 << 16;
/// Known parties that have to have held an order before it is given up, where there are so many.
pub(super) const KNOWN_TO_GIVE_UP: usize = 3;

/// Most orders that are out with one node without a record, as soon as others have one. It has a record after
/// a few groups; many keys without one would hold all that may run ahead.
const STRANGERS_ORDERS: u64 = 8;

/// One owner, as far as that can be seen: all keys of a network, or a key of which no network is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    Key(PublicKey),
    Network(NetworkPrefix),
}

/// What is known of nodes beside their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Parties {
    networks: BTreeMap<PublicKey, NetworkPrefix>,
    /// Those with a record.
    known: BTreeSet<Party>,
    /// The keys that have it.
    known_keys: BTreeSet<PublicKey>,
}

impl Parties {
    /// Notes where a node is connected. `holds` says whether a key holds an order.
    pub(super) fn connected(
        &mut self,
        node: PublicKey,
        network: Option<NetworkPrefix>,
        holds: impl Fn(&PublicKey) -> bool,
    ) {
        if self.networks.len() >= MAX_REMEMBERED {
            self.networks.retain(|key, _| holds(key));
        }
        // Whoever comes through a relay later has not become another owner.
        if let Some(network) = network {
            self.networks.insert(node, network);
        }
    }

    /// Notes that a node has a record by now. Whether that is new.
    fn is_known_now(&mut self, node: &PublicKey) -> bool {
        self.known.insert(self.of(node));
        self.known_keys.len() < MAX_REMEMBERED && self.known_keys.insert(*node)
    }

    /// Notes that a node has lost its record. Whether it had one.
    fn is_unknown_now(&mut self, node: &PublicKey) -> bool {
        let party = self.of(node);
        // As it may have been noted before its network was seen.
        self.known.remove(&Party::Key(*node));
        let was_known = self.known_keys.remove(node);
        if was_known && !self.known_keys.iter().any(|other| self.of(other) == party) {
            self.known.remove(&party);
        }
        was_known
    }

    /// Whose a node is.
    pub(super) fn of(&self, node: &PublicKey) -> Party {
        self.networks.get(node).map_or(Party::Key(*node), |network| Party::Network(*network))
    }

    /// Whether a node has a record itself. That of a neighbour in its network is none of its own.
    pub(super) fn knows(&self, node: &PublicKey) -> bool {
        self.known_keys.contains(node)
    }

    /// The network of a key without a record, where others have one.
    pub(super) fn stranger_of(&self, node: &PublicKey) -> Option<NetworkPrefix> {
        let is_stranger = self.knows_anybody() && !self.knows(node);
        self.networks.get(node).filter(|_| is_stranger).copied()
    }

    /// Whether any party has one.
    pub(super) fn knows_anybody(&self) -> bool {
        !self.known.is_empty()
    }

    /// Whether one of `nodes` is of the same party as `node`.
    pub(super) fn is_among(&self, nodes: &[PublicKey], node: &PublicKey) -> bool {
        let party = self.of(node);
        nodes.iter().any(|other| self.of(other) == party)
    }

    /// Whether enough of those that are known, and ask for orders, are among `holders`: whose keys cost
    /// nothing do not decide what the run trains on.
    pub(super) fn suffice(&self, holders: &[PublicKey], asks: impl Fn(&Party) -> bool) -> bool {
        let wanted = self.known.iter().filter(|party| asks(party)).take(KNOWN_TO_GIVE_UP).count();
        let held: BTreeSet<Party> = holders.iter().map(|node| self.of(node)).collect();
        held.intersection(&self.known).take(wanted).count() == wanted
    }
}

impl LeaseBook {
    /// Notes from where a node is connected: all nodes of a network count as one, where orders go to others
    /// and are given up.
    pub fn connected(&mut self, node: PublicKey, network: Option<NetworkPrefix>) {
        let holders = &self.out_by_node;
        self.parties.connected(node, network, |key| holders.contains_key(key));
    }

    /// Notes that a node has a record. Where some have, orders are not given up without them.
    pub fn is_known_now(&mut self, node: &PublicKey) {
        if self.parties.is_known_now(node) {
            self.out_with_known += self.out_with(node);
        }
    }

    /// Notes that a node has no record, or has lost it.
    pub fn is_unknown_now(&mut self, node: &PublicKey) {
        if self.parties.is_unknown_now(node) {
            self.out_with_known = self.out_with_known.saturating_sub(self.out_with(node));
        }
    }

    /// Orders that are out, as they count for a node that asks for more. Those of keys without a record count
    /// for such keys alone: by holding all that may run ahead, they would keep everybody else from work.
    pub fn outstanding_for(&self, node: &PublicKey) -> u64 {
        if self.parties.knows(node) { self.out_with_known } else { self.outstanding() }
    }

    /// Orders that may be out with a node. All keys of a network that have no record hold no more than
    /// one node.
    pub(super) fn most_open(&self, node: &PublicKey) -> u64 {
        let most = self.config.max_open_per_node;
        let is_stranger = self.parties.knows_anybody() && !self.parties.knows(node);
        if !is_stranger {
            return most;
        }
        let network = self.parties.stranger_of(node);
        let of_network = network.and_then(|network| self.strangers_out.get(&network)).copied().unwrap_or(0);
        let left = most.saturating_sub(of_network);
        most.min(STRANGERS_ORDERS).min(left.saturating_add(self.out_with(node)))
    }

    /// Whether a node may make an order that another one is making. A key without a record has any pace
    /// that it likes, by sending rubbish at once, and would have every order of slower nodes go to
    /// others.
    pub fn makes_backups(&self, node: &PublicKey) -> bool {
        self.parties.knows(node) || !self.parties.knows_anybody()
    }

    /// So many orders more are out with `node`. Returns the network that they count for too.
    pub(super) fn count(&mut self, node: PublicKey, orders: u64) -> Option<NetworkPrefix> {
        *self.out_by_node.entry(node).or_default() += orders;
        if self.parties.knows(&node) {
            self.out_with_known += orders;
        }
        let network = self.parties.stranger_of(&node);
        if let Some(network) = network {
            *self.strangers_out.entry(network).or_default() += orders;
        }
        network
    }

    /// One order fewer is out with the node of lease `id`.
    pub(super) fn uncount(&mut self, id: LeaseId) {
        let Some(open) = self.leases.get(&id) else { return };
        let (node, network) = (open.lease.node, open.stranger_of);
        one_less(&mut self.out_by_node, &node);
        if self.parties.knows(&node) {
            self.out_with_known = self.out_with_known.saturating_sub(1);
        }
        if let Some(network) = network {
            one_less(&mut self.strangers_out, &network);
        }
    }

    /// Notes the version that the learner is at.
    pub fn at(&mut self, version: PolicyVersion) {
        self.at = version;
    }

    /// The version that the learner was at when it leased `counter` to `node`. `None` if an earlier process
    /// did, and for work under an earlier lease, which may be older than the one that holds now.
    pub fn granted_at(&self, node: &PublicKey, id: LeaseId, counter: OrderCounter) -> Option<PolicyVersion> {
        let slot = self.orders.get(&counter)?;
        // Whoever never held the order before has no earlier lease of it, whatever it names.
        let is_earlier = id != slot.lease && slot.holders.contains(node);
        self.leases.get(&slot.lease).filter(|_| !is_earlier).and_then(|open| open.at)
    }

    /// Whether an idle order may be leased to `node`: it did not hold it, or so did all others
    /// that ask for orders.
    pub(super) fn is_for(&self, node: &PublicKey, counter: OrderCounter) -> bool {
        self.orders.get(&counter).is_some_and(|slot| {
            let held: BTreeSet<Party> = slot.holders.iter().map(|holder| self.parties.of(holder)).collect();
            // Ends with the first that did not, so after as many steps as there are holders.
            !held.contains(&self.parties.of(node)) || self.asked.keys().all(|party| held.contains(party))
        })
    }
}

fn one_less<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
