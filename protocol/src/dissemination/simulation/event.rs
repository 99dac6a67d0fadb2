//! What peers of a simulated network are, and what happens to them.

use super::links::{Control, Frame};
use crate::dissemination::Input;

/// What a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Honest,
    /// Claims everything and serves rotten groups.
    Rotten,
    /// Claims everything and serves nothing.
    Silent,
    /// Claims and asks for what does not exist.
    Nonsense,
}

/// What happens at some instant.
#[derive(Clone, Debug)]
pub(super) enum Event {
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
    Uplink { node: usize, epoch: u64, serial: u64, frame: Frame },
    Arrive { serial: u64, frame: Frame },
    Deliver { serial: u64, frame: Frame },
    Publish { version: usize },
    Crash { node: usize, loud: bool },
    Restart { node: usize },
    Reset { draw: u64 },
    Damage { node: usize, draw: u64 },
    Nonsense { node: usize },
}
