//! What the nodes of a drawn fleet say of themselves, what the operator pays, and what the learner knows of
//! an earlier process.

use super::chance::Chance;
use super::node::{SceneNode, key};
use echo_learner::fleet::capacity::{Activation, CapacityConfig, CapacityState, Prices};
use echo_protocol::control::heartbeat::Offer;

/// Groups of rented machines whose price the operator names.
const LABELS: u64 = 4;
/// What generates, as nodes say.
const CLASSES: [&str; 3] = ["cpu", "cuda", "wgpu"];
/// Updates that an earlier process has measured: as many as are needed to ask anything of the fleet.
const MEASURED: usize = 5;
/// In one fleet of so many, the learner begins without having measured anything; in as many, everybody works.
const BEGINNERS: u64 = 4;
const EVERYBODY: u64 = 8;
/// One node in so many boasts, by a thousand times its speed.
const BOASTERS: u64 = 100;

/// Prices, words and measurements.
#[derive(Clone, Debug)]
pub(crate) struct Market {
    pub(super) config: CapacityConfig,
    /// Of each node.
    pub(super) words: Vec<NodeWord>,
    /// What an earlier process of the learner has measured.
    pub(super) before: CapacityState,
}

/// What a node says of itself.
#[derive(Clone, Debug)]
pub(super) struct NodeWord {
    /// Rollouts a second.
    pub(super) declared: f64,
    pub(super) offer: Offer,
}

/// The learner for which the nodes work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buyer {
    pub(super) seed: u64,
    /// κ; B in groups, of one rollout each.
    pub(super) period: u64,
    pub(super) batch: usize,
    /// T_train, and about T_bcast, in seconds.
    pub(super) update_s: f64,
    pub(super) broadcast_s: f64,
}

impl Market {
    /// Draws what everybody says. Nodes whose price the operator names cost that from now on.
    pub(super) fn drawn(buyer: &Buyer, nodes: &mut [SceneNode]) -> Self {
        let mut chance = Chance::new(buyer.seed, b"market");
        let label = |number: u64| format!("rented-{number}");
        let prices = Prices::new((0..LABELS).map(|number| (label(number), chance.between_logs(0.1, 3.0))));
        let config = CapacityConfig {
            activation: if chance.below(EVERYBODY) == 0 { Activation::All } else { Activation::Cheapest },
            gamma: chance.between_logs(1.02, 1.3),
            batch: buyer.batch as u64,
            period: Some(buyer.period),
            prices,
            learner_price: chance.between_logs(0.5, 5.0),
        };
        let mut words = Vec::with_capacity(nodes.len());
        for (number, node) in nodes.iter_mut().enumerate() {
            let is_rented = node.dollars_per_hour > 0.0;
            let is_labelled = is_rented && chance.below(2) == 0;
            let offer = Offer {
                label: is_labelled.then(|| label(chance.below(LABELS))),
                class: Some(CLASSES[chance.below(CLASSES.len() as u64) as usize].to_owned()),
                micro_usd_per_hour: is_rented.then_some((node.dollars_per_hour * 1e6) as u64),
            };
            node.dollars_per_hour = config.prices.of(&key(number), &offer);
            let believes = match chance.below(BOASTERS) {
                0 => 1e3,
                // Nodes that have never measured themselves.
                1..=20 => 0.0,
                _ => chance.between_logs(0.7, 1.4),
            };
            words.push(NodeWord { declared: believes * 1e3 / node.order_ms, offer });
        }
        let before = match chance.below(BEGINNERS) {
            0 => CapacityState::default(),
            _ => CapacityState {
                updates: vec![buyer.update_s; MEASURED],
                broadcasts: vec![buyer.broadcast_s],
                ..CapacityState::default()
            },
        };
        Self { config, words, before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::rate::BytesPerSec;

    #[test]
    fn what_a_node_costs_is_what_the_learner_reckons() {
        let node = |number: usize| SceneNode {
            order_ms: 60e3,
            up: BytesPerSec(1),
            down: BytesPerSec(1),
            dollars_per_hour: if number.is_multiple_of(3) { 0.0 } else { 0.25 },
            is_present: true,
        };
        let mut nodes: Vec<SceneNode> = (0..800).map(node).collect();
        let buyer = Buyer { seed: 5, period: 2, batch: 100, update_s: 60.0, broadcast_s: 20.0 };
        let Market { config, words, .. } = Market::drawn(&buyer, &mut nodes);
        for (number, (node, word)) in nodes.iter().zip(&words).enumerate() {
            assert_eq!(config.prices.of(&key(number), &word.offer), node.dollars_per_hour);
            assert_eq!(node.dollars_per_hour == 0.0, number.is_multiple_of(3));
        }
        let by_label = words.iter().filter(|word| word.offer.label.is_some()).count();
        assert!((180..350).contains(&by_label), "{by_label}");
        assert!(words.iter().any(|word| word.declared > 1.0), "nobody boasts");
    }
}
