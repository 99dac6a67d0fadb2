//! A node of a simulated fleet: what it can do, and its key.

use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::rate::BytesPerSec;

/// A node of the fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SceneNode {
    /// Mean time of one order, in milliseconds. It makes one at a time.
    pub(crate) order_ms: f64,
    pub(crate) up: BytesPerSec,
    pub(crate) down: BytesPerSec,
    /// What an hour of it costs; 0 for a volunteer.
    pub(crate) dollars_per_hour: f64,
    /// Whether it is there from the beginning; others come by a [`Change`](super::Change).
    pub(crate) is_present: bool,
}

/// The key of a node by its number.
pub(super) fn key(node: usize) -> PublicKey {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&(node as u64).to_le_bytes());
    PublicKey::from_bytes(bytes)
}

/// The number of a node by its key.
pub(super) fn number(key: &PublicKey) -> usize {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&key.as_bytes()[..8]);
    u64::from_le_bytes(bytes) as usize
}
