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
        match network {
            Some(network) => drop(self.networks.insert(node, network)),
            None => drop(self.networks.remove(&node)),
        }
    }

    /// Notes that a node has a record by now.
    pub(super) fn is_known_now(&mut self, node: &PublicKey) {
        self.known.insert(self.of(node));
    }

    /// Whose a node is.
    pub(super) fn of(&self, node: &PublicKey) -> Party {
        self.networks.get(node).map_or(Party::Key(*node), |network| Party::Network(*network))
    }

    /// Whether a node is of a party with a record.
    pub(super) fn knows(&self, node: &PublicKey) -> bool {
        self.known.contains(&self.of(node))
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
        self.parties.is_known_now(node);
    }

    /// Orders that may be out with a node.
    pub(super) fn most_open(&self, node: &PublicKey) -> u64 {
        let most = self.config.max_open_per_node;
        let is_stranger = self.parties.knows_anybody() && !self.parties.knows(node);
        if is_stranger { most.min(STRANGERS_ORDERS) } else { most }
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
