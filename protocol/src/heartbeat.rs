//! What a node tells the learner about itself, every few seconds and at every installation.

use crate::version::PolicyVersion;
use serde::{Deserialize, Serialize};

/// Milliseconds between two heartbeats of a node.
pub const HEARTBEAT_EVERY_MS: u64 = 1_000;
/// Milliseconds of silence after which a node no longer counts as active.
pub const ACTIVE_FOR_MS: u64 = 5_000;
/// Most addresses in a heartbeat.
pub const MAX_ADDRESSES: usize = 16;

/// A node's state. Authenticated by the connection that it arrives on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The version that it generates under; `None` before the first installation.
    pub installed: Option<PolicyVersion>,
    /// μ: rollouts (trajectories) per second, lately.
    pub rollouts_per_s: f32,
    /// Groups that wait in its outbox.
    pub outbox: u32,
    /// Where other nodes reach it: multiaddresses.
    pub addresses: Vec<String>,
    /// Whether it forwards snapshots to others.
    pub relays: bool,
    /// Upload cap that its owner set, in bytes per second; `None` is no cap.
    pub max_upload: Option<u64>,
}
