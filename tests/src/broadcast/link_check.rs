//! What plain TCP carries over the links of a race: a check of the links before anything races.

use crate::harness::netns::Copied;
use serde::Serialize;

/// What plain TCP carries over the links of this race.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct LinkCheck {
    /// From the source to as many nodes as its uplink needs.
    pub(super) source: Copied,
    /// From one node to another.
    pub(super) node: Option<Copied>,
}
