//! Forwarding chains (ECHO-2 §4.2): who comes after whom. The head of each chain receives from the learner.
//!
//! Every change costs the logarithm of the fleet's size: a chain is a linked list, not an array. Links name
//! places in a slab, not keys, so that a walk along a chain of thousands looks up its first node only.

use echo_protocol::dissemination::MAX_SOURCE_CONSUMERS;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::rate::BytesPerSec;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet};

/// Most chains, whatever the source's uplink: its machine serves no more heads.
pub const MAX_CHAINS: usize = MAX_SOURCE_CONSUMERS;

/// N_ch = max(1, ⌊B0/B̂w⌋): chains that the source's uplink feeds at full rate.
pub fn chain_count(source: BytesPerSec, node: BytesPerSec) -> usize {
    usize::try_from(source.0 / node.0.max(1)).unwrap_or(usize::MAX).clamp(1, MAX_CHAINS)
}

/// A node in its chain, and the places of those beside it.
#[derive(Clone, Copy, Debug)]
struct Link {
    node: PublicKey,
    chain: usize,
    before: Option<usize>,
    after: Option<usize>,
}

/// The places at the ends of a chain.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    head: Option<usize>,
    tail: Option<usize>,
    length: usize,
}

/// All chains. Nodes that do not forward stand in none.
#[derive(Clone, Debug)]
pub struct Chains {
    links: Slab<Link>,
    /// Where the link of each node is.
    places: BTreeMap<PublicKey, usize>,
    ends: Vec<Ends>,
    /// Length and number of each chain, the shortest first.
    by_length: BTreeSet<(usize, usize)>,
}

impl Chains {
    /// `count` chains without nodes.
    pub fn new(count: usize) -> Self {
        let count = count.clamp(1, MAX_CHAINS);
        let by_length = (0..count).map(|chain| (0, chain)).collect();
        Self { links: Slab::new(), places: BTreeMap::new(), ends: vec![Ends::default(); count], by_length }
    }

    /// Chains of nodes in the order of their rank: the first become heads, the rest follow in round
    /// robin. A node whose turn brings it after one that it has no link to waits for a chain where
    /// it has one, if there is any.
    pub fn of(
        count: usize,
        ranked: impl IntoIterator<Item = PublicKey>,
        linked: impl Fn(&PublicKey, &PublicKey) -> bool,
    ) -> Self {
        let mut chains = Self::new(count);
        let count = chains.ends.len();
        for (turn, node) in ranked.into_iter().enumerate() {
            let tail = |chain: &usize| chains.ends[*chain].tail.map(|place| chains.links[place].node);
            let fits = |chain: &usize| tail(chain).is_none_or(|tail| linked(&tail, &node));
            let chain = (0..count).map(|step| (turn + step) % count).find(fits).unwrap_or(turn % count);
            chains.append(chain, node);
        }
        chains
    }

    /// Appends a node to the shortest chain, if it does not stand in one already.
    pub fn join(&mut self, node: PublicKey) {
        if let Some(&(_, chain)) = self.by_length.first()
            && !self.contains(&node)
        {
            self.append(chain, node);
        }
    }

    /// Takes a node out; its child now comes after its parent.
    pub fn leave(&mut self, node: &PublicKey) {
        let Some(place) = self.places.remove(node) else { return };
        let link = self.links.remove(place);
        match link.before {
            Some(before) => self.links[before].after = link.after,
            None => self.ends[link.chain].head = link.after,
        }
        match link.after {
            Some(after) => self.links[after].before = link.before,
            None => self.ends[link.chain].tail = link.before,
        }
        self.resize(link.chain, |length| length - 1);
    }

    fn append(&mut self, chain: usize, node: PublicKey) {
        let before = self.ends[chain].tail;
        let place = self.links.insert(Link { node, chain, before, after: None });
        self.places.insert(node, place);
        self.ends[chain].tail = Some(place);
        match before {
            Some(before) => self.links[before].after = Some(place),
            None => self.ends[chain].head = Some(place),
        }
        self.resize(chain, |length| length + 1);
    }

    fn link(&self, node: &PublicKey) -> Option<&Link> {
        self.places.get(node).map(|place| &self.links[*place])
    }

    fn resize(&mut self, chain: usize, change: impl Fn(usize) -> usize) {
        let length = &mut self.ends[chain].length;
        self.by_length.remove(&(*length, chain));
        *length = change(*length);
        self.by_length.insert((*length, chain));
    }

    /// The chain that a node stands in.
    pub fn chain_of(&self, node: &PublicKey) -> Option<usize> {
        self.link(node).map(|link| link.chain)
    }

    /// Whether a node stands in a chain.
    pub fn contains(&self, node: &PublicKey) -> bool {
        self.places.contains_key(node)
    }

    /// Those before `node`, the nearest first; ends with the head.
    pub fn before<'a>(&'a self, node: &PublicKey) -> impl Iterator<Item = PublicKey> + use<'a> {
        self.walk(self.link(node).and_then(|link| link.before), |link| link.before)
    }

    /// Those after `node`, the nearest first.
    pub fn behind<'a>(&'a self, node: &PublicKey) -> impl Iterator<Item = PublicKey> + use<'a> {
        self.walk_on(self.link(node).and_then(|link| link.after))
    }

    /// Nodes from a place on towards the tail.
    fn walk_on(&self, from: Option<usize>) -> impl Iterator<Item = PublicKey> + use<'_> {
        self.walk(from, |link| link.after)
    }

    fn walk(
        &self,
        from: Option<usize>,
        next: fn(&Link) -> Option<usize>,
    ) -> impl Iterator<Item = PublicKey> + use<'_> {
        std::iter::successors(from, move |place| next(&self.links[*place]))
            .map(|place| self.links[place].node)
    }

    /// Nodes by their depth, beginning with all heads.
    pub fn by_depth(&self) -> impl Iterator<Item = PublicKey> {
        let mut row: Vec<usize> = self.ends.iter().filter_map(|ends| ends.head).collect();
        std::iter::from_fn(move || {
            (!row.is_empty()).then(|| {
                let behind = row.iter().filter_map(|place| self.links[*place].after).collect();
                std::mem::replace(&mut row, behind)
            })
        })
        .flatten()
        .map(|place| self.links[place].node)
    }

    /// A node at an arbitrary but lasting place: the first at or after `point` in the order of keys.
    pub fn at(&self, point: PublicKey) -> impl Iterator<Item = PublicKey> {
        self.places.range(point..).chain(&self.places).map(|(node, _)| *node)
    }

    /// How many chains there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// How many nodes stand in them.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nobody stands in them.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The nodes of one chain, head first.
    pub fn chain(&self, chain: usize) -> Vec<PublicKey> {
        self.walk_on(self.ends.get(chain).and_then(|ends| ends.head)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::identity::NodeKey;
    use proptest::prelude::*;

    fn key(seed: u8) -> PublicKey {
        NodeKey::from_secret([seed; 32]).public()
    }

    fn rate(bytes: u64) -> BytesPerSec {
        BytesPerSec(bytes)
    }

    #[test]
    fn counts_chains_as_the_paper_does() {
        let counts = [(300, 100), (250, 100), (50, 100), (5, 0), (u64::MAX, 1)];
        assert_eq!(counts.map(|(b0, bw)| chain_count(rate(b0), rate(bw))), [3, 2, 1, 5, MAX_CHAINS]);
    }

    #[test]
    fn ranks_go_round_robin_and_gaps_close() {
        let mut chains = Chains::of(2, (1..=5).map(key), |_, _| true);
        assert_eq!(chains.chain(0), [key(1), key(3), key(5)]);
        assert_eq!(chains.chain(1), [key(2), key(4)]);
        assert_eq!(chains.by_depth().collect::<Vec<_>>(), (1..=5).map(key).collect::<Vec<_>>());
        assert_eq!(chains.before(&key(5)).collect::<Vec<_>>(), [key(3), key(1)]);
        chains.leave(&key(3));
        assert_eq!(chains.before(&key(5)).next(), Some(key(1)));
        chains.join(key(5));
        assert_eq!(chains.chain(0), [key(1), key(5)], "a node that stands stays");
        chains.leave(&key(1));
        chains.join(key(1));
        assert_eq!(chains.chain(0), [key(5), key(1)], "the shortest chain, at its tail");
    }

    #[test]
    fn nodes_without_a_link_are_kept_apart_where_that_is_possible() {
        // Odd nodes lie behind a NAT.
        let private = [key(1), key(3), key(5)];
        let linked = |a: &PublicKey, b: &PublicKey| !private.contains(a) || !private.contains(b);
        let chains = Chains::of(2, [1, 2, 3, 5, 4].map(key), linked);
        assert_eq!(chains.chain(1), [key(2), key(3), key(5)], "the last had nowhere better to go");
        assert_eq!(chains.chain(0), [key(1), key(4)]);
    }

    proptest! {
        #[test]
        fn links_stay_sound_whatever_comes_and_goes(steps in prop::collection::vec((0u8..20, any::<bool>()), 0..200)) {
            let mut chains = Chains::new(3);
            let mut here = BTreeSet::new();
            for (seed, joins) in steps {
                if joins {
                    chains.join(key(seed));
                    here.insert(key(seed));
                } else {
                    chains.leave(&key(seed));
                    here.remove(&key(seed));
                }
                let all: Vec<Vec<PublicKey>> = (0..3).map(|c| chains.chain(c)).collect();
                for chain in &all {
                    for pair in chain.windows(2) {
                        prop_assert_eq!(chains.before(&pair[1]).next(), Some(pair[0]));
                    }
                }
                prop_assert_eq!(all.concat().into_iter().collect::<BTreeSet<_>>(), here.clone());
                prop_assert_eq!(chains.len(), here.len());
            }
        }
    }
}
