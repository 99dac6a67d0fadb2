//! Chains and mesh as the learner builds them, and who stands behind whom.

use super::node::{key, number};
use anyhow::ensure;
use echo_learner::fleet::chains::Chains;
use echo_learner::fleet::graph::{DEGREE, Graph};

/// Who passes versions on to whom.
pub(super) struct Topology {
    chains: Chains,
    graph: Graph,
}

impl Topology {
    /// Of nobody yet, with so many chains.
    pub(super) fn new(seed: u64, chains: usize) -> Self {
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&seed.to_le_bytes());
        Self { chains: Chains::new(chains), graph: Graph::new(secret) }
    }

    /// Gives a node its place in a chain and in the mesh.
    pub(super) fn join(&mut self, node: usize) -> anyhow::Result<()> {
        self.chains.join(key(node));
        self.graph.join(key(node), |_, _| true);
        self.check(node)
    }

    /// Takes a node out. Returns those that stood behind it, the nearest first.
    pub(super) fn leave(&mut self, node: usize) -> anyhow::Result<Vec<usize>> {
        let behind = self.behind(node);
        let bereft: Vec<usize> = self.graph.neighbours(&key(node)).map(|other| number(&other)).collect();
        self.chains.leave(&key(node));
        self.graph.leave(&key(node), |_, _| true);
        ensure!(!self.chains.contains(&key(node)), "node {node} is gone and stands in a chain");
        ensure!(!self.graph.contains(&key(node)), "node {node} is gone and stands in the mesh");
        behind.iter().take(1).chain(&bereft).try_for_each(|other| self.check(*other))?;
        Ok(behind)
    }

    /// Those behind a node in its chain, the nearest first.
    pub(super) fn behind(&self, node: usize) -> Vec<usize> {
        self.chains.behind(&key(node)).map(|behind| number(&behind)).collect()
    }

    /// All nodes with their places in their chains, from 0.
    pub(super) fn depths(&self) -> Vec<(usize, usize)> {
        let chain = |chain| self.chains.chain(chain).into_iter().enumerate();
        (0..self.chains.count()).flat_map(chain).map(|(depth, node)| (number(&node), depth)).collect()
    }

    /// Whether as many nodes have a place as are there.
    pub(super) fn check_all(&self, present: usize) -> anyhow::Result<()> {
        let placed = self.depths().len();
        ensure!(placed == present && self.chains.len() == present, "{present} nodes, {placed} in chains");
        Ok(())
    }

    fn check(&self, node: usize) -> anyhow::Result<()> {
        let me = key(node);
        ensure!(self.chains.contains(&me), "node {node} stands in no chain");
        if let Some(parent) = self.chains.before(&me).next() {
            let child = self.chains.behind(&parent).next();
            ensure!(child == Some(me), "node {node} is not its parent's child");
        }
        let neighbours: Vec<_> = self.graph.neighbours(&me).collect();
        ensure!(neighbours.len() <= DEGREE, "node {node} has {} neighbours", neighbours.len());
        for other in neighbours {
            let is_mutual = self.graph.neighbours(&other).any(|back| back == me);
            ensure!(is_mutual, "node {node} is no neighbour of its neighbour");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_is_known_to_those_behind_it() {
        let mut topology = Topology::new(1, 2);
        (0..40).for_each(|node| topology.join(node).unwrap());
        topology.check_all(40).unwrap();
        assert_eq!(topology.leave(36).unwrap(), [38]);
        assert!(topology.check_all(40).is_err());
        topology.check_all(39).unwrap();
        let depths = topology.depths();
        assert!(depths.contains(&(0, 0)) && depths.contains(&(38, 18)), "{depths:?}");
    }
}
