//! What a node does for its run.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// One thing that a node does for its run. A node with [`Role::Relay`] alone never loads the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Generates and scores rollouts
    Rollout,
    /// Passes snapshots on to other nodes; alone, it keeps them without generating
    Relay,
    /// Checks what others have generated; takes memory for a few policies, and
    /// processor time beside generating
    Verifier,
}

impl Role {
    /// What a node does unless its owner says otherwise.
    pub const DEFAULT: [Self; 2] = [Self::Rollout, Self::Relay];
}
