//! Which nodes work.

use serde::{Deserialize, Serialize};

/// `[fleet] activation`: which nodes of those that are there get orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// The cheapest that are enough; in fleets of less than 16 nodes without prices, all of them.
    #[default]
    Cheapest,
    /// All of them.
    All,
}
