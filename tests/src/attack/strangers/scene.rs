//! What attackers have at hand.

use super::tally::Tally;
use super::way::Way;
use crate::attack::snapshots::LoadedSnapshots;
use echo_protocol::net::PeerId;
use std::sync::atomic::AtomicBool;

/// The network as its attackers know it, and where they note what they did.
pub(super) struct Scene {
    /// The way to the learner.
    pub(super) way: Way,
    /// The honest nodes.
    pub(super) nodes: Vec<PeerId>,
    /// The newest policy, for those that work.
    pub(super) snapshots: LoadedSnapshots,
    /// What attackers did, and were told.
    pub(super) tally: Tally,
    /// Whether sleepers lie by now.
    pub(super) awake: AtomicBool,
}
