//! What peers of a simulated network are, and what happens to them.

use super::links::{Control, SimulatedFrame};
use crate::dissemination::Input;

/// What a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerKind {
    Honest,
    /// Claims everything and serves rotten blocks.
    Rotten,
    /// Claims everything and serves nothing.
    Silent,
    /// Claims and asks for what does not exist.
    Nonsense,
}

/// What happens at some instant.
#[derive(Clone, Debug)]
pub(super) enum SimulationEvent {
    Timer { node: usize },
    Input { node: usize, epoch: u64, input: Box<Input> },
    Announce { node: usize, epoch: u64, version: usize },
    Receive { node: usize, epoch: u64, version: usize },
    Learner { node: usize, lost: Vec<usize> },
    Open { serial: u64 },
    Opened { serial: u64 },
    Control { serial: u64, control: Control },
    Closed { serial: u64 },
    Ended { serial: u64 },
    Uplink { node: usize, epoch: u64, serial: u64, frame: SimulatedFrame },
    Arrive { serial: u64, frame: SimulatedFrame },
    Deliver { serial: u64, frame: SimulatedFrame },
    Publish { version: usize },
    Crash { node: usize, loud: bool },
    Restart { node: usize },
    Reset { draw: u64 },
    Damage { node: usize, draw: u64 },
    Nonsense { node: usize },
}
