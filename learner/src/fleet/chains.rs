//! Forwarding chains (ECHO-2 §4.2).

use echo_protocol::identity::PublicKey;
use std::collections::BTreeSet;

/// N_ch = max(1, ⌊B0/Bw⌋): chains that the source's uplink feeds at full rate. Both rates in bytes per second; a `node` of 0 counts as 1.
pub fn chain_count(source_uplink: u64, node_uplink: u64) -> usize {
    usize::try_from(source_uplink / node_uplink.max(1)).unwrap_or(usize::MAX).max(1)
}

/// Who stands behind whom. The head of each chain receives from the learner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chains {
    chains: Vec<Vec<PublicKey>>,
    /// Nodes that receive but do not forward: they hang on a forwarding node and have no child.
    leaves: Vec<PublicKey>,
    /// Leaves whose parent failed them: they receive from the learner.
    at_source: BTreeSet<PublicKey>,
}

impl Chains {
    /// No nodes, in `count` chains.
    pub fn new(count: usize) -> Self {
        Self {
            chains: vec![Vec::new(); count.clamp(1, super::MAX_NODES)],
            leaves: Vec::new(),
            at_source: BTreeSet::new(),
        }
    }

    /// Appends a node to the shortest chain, or to the leaves if it does not relay. A node that is already there keeps its place.
    pub fn join(&mut self, node: PublicKey, relays: bool) {
        let stands = if relays { self.place(&node).is_some() } else { self.leaves.contains(&node) };
        if stands {
            return;
        }
        self.leave(&node);
        if !relays {
            self.leaves.push(node);
        } else if let Some(shortest) = self.chains.iter_mut().min_by_key(|chain| chain.len()) {
            shortest.push(node);
        }
    }

    /// Takes a node out; its child now stands behind its parent.
    pub fn leave(&mut self, node: &PublicKey) {
        self.leaves.retain(|n| n != node);
        self.at_source.remove(node);
        self.chains.iter_mut().for_each(|chain| chain.retain(|n| n != node));
    }

    /// Takes a child's word against its parent: a leaf goes to the learner, else the parent moves to the tail.
    pub fn lost(&mut self, child: &PublicKey, parent: &PublicKey) {
        if self.leaves.contains(child) {
            self.at_source.insert(*child);
        } else {
            self.demote(parent);
        }
    }

    /// Moves a node to the tail of its chain.
    fn demote(&mut self, node: &PublicKey) {
        if let Some((chain, at)) = self.place(node) {
            let node = self.chains[chain].remove(at);
            self.chains[chain].push(node);
        }
    }

    /// The node before `node`; `None` for heads, which receive from the learner, and for strangers.
    pub fn parent(&self, node: &PublicKey) -> Option<PublicKey> {
        if self.at_source.contains(node) {
            return None;
        }
        if let Some(at) = self.leaves.iter().position(|n| n == node) {
            // Leaves are spread over the forwarding nodes, beginning at the tails.
            let forwarding: Vec<_> = self.chains.iter().flat_map(|chain| chain.iter().rev()).collect();
            return forwarding.get(at % forwarding.len().max(1)).copied().copied();
        }
        let (chain, at) = self.place(node)?;
        at.checked_sub(1).map(|before| self.chains[chain][before])
    }

    /// The chains, heads first.
    pub fn chains(&self) -> &[Vec<PublicKey>] {
        &self.chains
    }

    fn place(&self, node: &PublicKey) -> Option<(usize, usize)> {
        let mut places = self.chains.iter().enumerate();
        places.find_map(|(chain, nodes)| nodes.iter().position(|n| n == node).map(|at| (chain, at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::identity::NodeKey;

    fn key(seed: u8) -> PublicKey {
        NodeKey::from_secret([seed; 32]).public()
    }

    #[test]
    fn counts_chains_as_the_paper_does() {
        assert_eq!(
            [chain_count(300, 100), chain_count(250, 100), chain_count(50, 100), chain_count(5, 0)],
            [3, 2, 1, 5]
        );
    }

    #[test]
    fn nodes_are_spread_round_robin_and_gaps_close() {
        let mut chains = Chains::new(2);
        (1..=5).for_each(|n| chains.join(key(n), true));
        assert_eq!(chains.chains(), [vec![key(1), key(3), key(5)], vec![key(2), key(4)]]);
        chains.leave(&key(3));
        assert_eq!(chains.parent(&key(5)), Some(key(1)));
        chains.join(key(5), true);
        assert_eq!(chains.chains()[0], [key(1), key(5)], "a node that stands stays");
        chains.demote(&key(1));
        assert_eq!((chains.parent(&key(5)), chains.parent(&key(1))), (None, Some(key(5))));
    }

    #[test]
    fn leaves_hang_on_forwarding_nodes_and_nobody_on_them() {
        let mut chains = Chains::new(1);
        chains.join(key(9), false);
        assert_eq!(chains.parent(&key(9)), None, "alone: it receives from the learner");
        (1..=2).for_each(|n| chains.join(key(n), true));
        chains.join(key(8), false);
        assert_eq!((chains.parent(&key(9)), chains.parent(&key(8))), (Some(key(2)), Some(key(1))));
        chains.lost(&key(8), &key(1));
        assert_eq!(chains.parent(&key(8)), None, "failed by its parent, it receives from the learner");
        // It changes its mind.
        chains.join(key(9), true);
        assert_eq!(chains.parent(&key(9)), Some(key(2)));
        assert!(chains.chains()[0].contains(&key(9)));
    }
}
