//! `[fleet]`

use crate::common::option_error::{OptionError, above_zero, refused, setting};
use crate::fleet::capacity::{Activation, Prices};
use echo_protocol::wire::rate::BytesPerSec;
use serde::{Deserialize, Serialize};

/// `[fleet]`: how orders are leased, who works and what that costs, and how chains are counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetSection {
    /// B̂w: a node's uplink; left out, the median of those that nodes declare or others measure.
    /// ⌊B0/B̂w⌋ chains are built.
    pub node_uplink: Option<BytesPerSec>,
    /// Seconds until an order that was leased and not delivered is leased again.
    pub lease_s: u64,
    /// Most orders that one node holds at once.
    pub orders_per_node: u32,
    /// Which nodes of those that are there get orders.
    pub activation: Activation,
    /// γ: what the fleet is to bring, in times of what keeps the learner from waiting.
    pub gamma: f64,
    /// What the learner's machine costs, in dollars an hour.
    pub learner_price: f64,
    /// The program that starts and stops rented nodes, with its arguments; none where it is empty.
    pub provision: Vec<String>,
    /// What nodes cost, in dollars an hour, by key, label or class.
    pub prices: Prices,
}

impl Default for FleetSection {
    fn default() -> Self {
        Self {
            node_uplink: None,
            lease_s: 600,
            orders_per_node: 64,
            activation: Activation::default(),
            gamma: 1.1,
            prices: Prices::default(),
            learner_price: 0.0,
            provision: Vec::new(),
        }
    }
}

impl FleetSection {
    /// Numbers that are outside their domain.
    pub(crate) fn problems(&self) -> Vec<OptionError> {
        refused([
            above_zero("fleet.lease_s", self.lease_s),
            above_zero("fleet.orders_per_node", u64::from(self.orders_per_node)),
            setting(
                "fleet.gamma",
                self.gamma,
                (1.0..=10.0).contains(&self.gamma),
                "it has to be from 1 to 10",
            ),
            setting(
                "fleet.learner_price",
                self.learner_price,
                (0.0..=1e6).contains(&self.learner_price),
                "dollars an hour, at least 0",
            ),
            self.prices
                .wrong()
                .map_or(Ok(()), |found| setting("fleet.prices", found, false, "dollars an hour, at least 0")),
        ])
    }
}
