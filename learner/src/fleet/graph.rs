//! The mesh: a random graph in which every node has the same small number of neighbours.
//!
//! A node that comes splits edges of others, one that goes joins its neighbours to each other, so
//! everybody else keeps nearly all of theirs. A random regular graph of degree 8 is connected with
//! near certainty and a few hops wide at any size.

use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::rng::Draws;
use std::collections::{BTreeMap, BTreeSet};

/// Neighbours of a node, where there are that many.
pub const DEGREE: usize = 8;
/// Attempts to find a node or an edge for one that has too few.
const ATTEMPTS: usize = 64;

/// The graph. Who may be linked is asked of the caller.
pub struct Graph {
    edges: BTreeMap<PublicKey, BTreeSet<PublicKey>>,
    /// The same nodes, to draw from, and where each stands there.
    nodes: Vec<PublicKey>,
    places: BTreeMap<PublicKey, usize>,
    draws: Draws,
}

impl Graph {
    /// No nodes; `seed` decides every draw.
    pub fn new(seed: [u8; 32]) -> Self {
        let (edges, nodes, places) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        Self { edges, nodes, places, draws: Draws::new(seed) }
    }

    /// A node's neighbours, in order.
    pub fn neighbours(&self, node: &PublicKey) -> impl Iterator<Item = PublicKey> {
        self.edges.get(node).into_iter().flatten().copied()
    }

    /// Whether a node is in the graph.
    pub fn contains(&self, node: &PublicKey) -> bool {
        self.edges.contains_key(node)
    }

    /// Adds a node, if it is not there already.
    pub fn join(&mut self, node: PublicKey, linked: impl Fn(&PublicKey, &PublicKey) -> bool) {
        if self.contains(&node) {
            return;
        }
        self.edges.insert(node, BTreeSet::new());
        self.places.insert(node, self.nodes.len());
        self.nodes.push(node);
        self.fill(&node, &linked);
    }

    /// Removes a node, and gives its neighbours others.
    pub fn leave(&mut self, node: &PublicKey, linked: impl Fn(&PublicKey, &PublicKey) -> bool) {
        let Some(bereft) = self.edges.remove(node) else { return };
        if let Some(place) = self.places.remove(node) {
            self.nodes.swap_remove(place);
            if let Some(moved) = self.nodes.get(place) {
                self.places.insert(*moved, place);
            }
        }
        for other in &bereft {
            self.edges.entry(*other).or_default().remove(node);
        }
        // Each other first: that leaves everybody else as they are.
        let bereft: Vec<PublicKey> = bereft.into_iter().collect();
        for (at, a) in bereft.iter().enumerate() {
            if let Some(b) =
                bereft[at + 1..].iter().find(|b| self.free(b) && self.may(a, b, &linked)).copied()
                && self.free(a)
            {
                self.connect(*a, b);
            }
        }
        for other in bereft {
            self.fill(&other, &linked);
        }
    }

    /// Draws neighbours for a node until it has enough: nodes that have too few themselves, else an
    /// edge that it is put in between.
    fn fill(&mut self, node: &PublicKey, linked: &impl Fn(&PublicKey, &PublicKey) -> bool) {
        // In a small graph chance would miss some.
        if self.nodes.len() <= 2 * DEGREE {
            for other in self.nodes.clone() {
                if self.free(node) && self.free(&other) && self.may(node, &other, linked) {
                    self.connect(*node, other);
                }
            }
        }
        for _ in 0..ATTEMPTS {
            if !self.free(node) {
                return;
            }
            let Some(a) = self.draws.pick(&self.nodes).copied() else { return };
            if !self.may(node, &a, linked) {
                continue;
            }
            if self.free(&a) {
                self.connect(*node, a);
                continue;
            }
            let others: Vec<PublicKey> = self.neighbours(&a).collect();
            let Some(b) = self.draws.pick(&others).copied() else { continue };
            if self.degree(node) + 2 <= DEGREE && self.may(node, &b, linked) {
                self.disconnect(&a, &b);
                self.connect(*node, a);
                self.connect(*node, b);
            }
        }
    }

    fn may(&self, a: &PublicKey, b: &PublicKey, linked: &impl Fn(&PublicKey, &PublicKey) -> bool) -> bool {
        a != b && !self.edges.get(a).is_some_and(|others| others.contains(b)) && linked(a, b)
    }

    fn degree(&self, node: &PublicKey) -> usize {
        self.edges.get(node).map_or(0, BTreeSet::len)
    }

    fn free(&self, node: &PublicKey) -> bool {
        self.degree(node) < DEGREE
    }

    fn connect(&mut self, a: PublicKey, b: PublicKey) {
        self.edges.entry(a).or_default().insert(b);
        self.edges.entry(b).or_default().insert(a);
    }

    fn disconnect(&mut self, a: &PublicKey, b: &PublicKey) {
        for (node, other) in [(a, b), (b, a)] {
            if let Some(others) = self.edges.get_mut(node) {
                others.remove(other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::content_id::ContentId;

    fn key(n: u32) -> PublicKey {
        PublicKey::from_bytes(*ContentId::of(&n.to_le_bytes()).as_bytes())
    }

    fn sound(graph: &Graph) {
        for (node, others) in &graph.edges {
            assert!(others.len() <= DEGREE && !others.contains(node));
            assert!(others.iter().all(|other| graph.edges[other].contains(node)), "edges have two ends");
        }
        assert_eq!(graph.nodes.len(), graph.edges.len());
        assert!(graph.nodes.iter().enumerate().all(|(at, node)| graph.places[node] == at));
    }

    fn reached(graph: &Graph) -> usize {
        let mut seen: BTreeSet<PublicKey> = graph.nodes.first().copied().into_iter().collect();
        let mut open: Vec<PublicKey> = seen.iter().copied().collect();
        while let Some(node) = open.pop() {
            open.extend(graph.neighbours(&node).filter(|other| seen.insert(*other)));
        }
        seen.len()
    }

    #[test]
    fn small_fleets_are_all_neighbours() {
        let mut graph = Graph::new([1; 32]);
        (0..9).for_each(|n| graph.join(key(n), |_, _| true));
        assert!((0..9).all(|n| graph.neighbours(&key(n)).count() == 8));
        sound(&graph);
    }

    #[test]
    fn churn_leaves_it_regular_connected_and_mostly_as_it_was() {
        let mut graph = Graph::new([2; 32]);
        (0..500).for_each(|n| graph.join(key(n), |_, _| true));
        assert_eq!(reached(&graph), 500);
        let before = graph.edges.clone();
        for n in 0..50 {
            graph.leave(&key(n * 7), |_, _| true);
            graph.join(key(1_000 + n), |_, _| true);
            sound(&graph);
        }
        assert_eq!(reached(&graph), 500);
        let degrees: usize = graph.edges.values().map(BTreeSet::len).sum();
        assert!(degrees >= 500 * DEGREE * 95 / 100, "{degrees}");
        let kept: usize = before
            .iter()
            .filter_map(|(node, others)| Some(graph.edges.get(node)?.intersection(others).count()))
            .sum();
        assert!(kept >= 450 * DEGREE * 3 / 5, "{kept}");
    }

    #[test]
    fn nodes_behind_nats_are_never_neighbours() {
        let private = |node: &PublicKey| node.as_bytes()[0].is_multiple_of(2);
        let linked = |a: &PublicKey, b: &PublicKey| !private(a) || !private(b);
        let mut graph = Graph::new([3; 32]);
        (0..200).for_each(|n| graph.join(key(n), linked));
        (0..200).step_by(3).for_each(|n| graph.leave(&key(n), linked));
        sound(&graph);
        assert_eq!(reached(&graph), graph.nodes.len());
        assert!(graph.edges.iter().all(|(node, others)| others.iter().all(|other| linked(node, other))));
    }
}
