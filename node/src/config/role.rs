//! What a node does for its run.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// One thing that a node does for its run. A node without [`Role::Rollout`] never loads the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Generates and scores rollouts
    Rollout,
    /// Passes snapshots on to other nodes; alone, it keeps them without generating
    Relay,
}

impl Role {
    /// Every role, which is what a node has unless its owner says otherwise.
    pub const ALL: [Self; 2] = [Self::Rollout, Self::Relay];
}
