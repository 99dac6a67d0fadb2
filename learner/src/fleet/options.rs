//! `[fleet]`

use crate::common::option_error::{OptionError, above_zero, refused};
use echo_protocol::wire::rate::BytesPerSec;
use serde::{Deserialize, Serialize};

/// `[fleet]`: how orders are leased, and how chains are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetSection {
    /// B̂w: a node's uplink; left out, the median of those that nodes declare or others measure.
    /// ⌊B0/B̂w⌋ chains are built.
    pub node_uplink: Option<BytesPerSec>,
    /// Seconds until an order that was leased and not delivered is leased again.
    pub lease_s: u64,
    /// Most orders that one node holds at once.
    pub orders_per_node: u32,
}

impl Default for FleetSection {
    fn default() -> Self {
        Self { node_uplink: None, lease_s: 600, orders_per_node: 64 }
    }
}

impl FleetSection {
    /// Numbers that are 0.
    pub(crate) fn problems(&self) -> Vec<OptionError> {
        refused([
            above_zero("fleet.lease_s", self.lease_s),
            above_zero("fleet.orders_per_node", u64::from(self.orders_per_node)),
        ])
    }
}
