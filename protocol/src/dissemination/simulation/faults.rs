//! What goes wrong in a simulated network, drawn from its seed.

use super::event::{PeerKind, SimulationEvent};
use crate::wire::rng::Draws;

/// Faults happen before this instant, in microseconds. Liars stay: the others must complete in spite of them.
pub(super) const FAULTS_UNTIL: u64 = 15_000_000;

/// What a peer besides the source is.
pub(super) fn kind(draws: &mut Draws) -> PeerKind {
    match draws.below(16) {
        0 => PeerKind::Rotten,
        1 => PeerKind::Silent,
        2 => PeerKind::Nonsense,
        _ => PeerKind::Honest,
    }
}

/// When what goes wrong, in microseconds.
pub(super) fn plan(nodes: usize, draws: &mut Draws) -> Vec<(u64, SimulationEvent)> {
    let mut plan = Vec::new();
    for _ in 0..draws.below(nodes as u64) {
        let node = 1 + draws.below(nodes as u64) as usize;
        let at = draws.below(FAULTS_UNTIL / 2);
        let loud = draws.below(2) == 0;
        plan.push((at, SimulationEvent::Crash { node, loud }));
        if draws.below(4) > 0 {
            plan.push((at + 100_000 + draws.below(FAULTS_UNTIL / 2), SimulationEvent::Restart { node }));
        }
    }
    for _ in 0..draws.below(8) {
        plan.push((draws.below(FAULTS_UNTIL), SimulationEvent::Reset { draw: draws.next_u64() }));
    }
    for _ in 0..draws.below(3) {
        let node = 1 + draws.below(nodes as u64) as usize;
        plan.push((draws.below(FAULTS_UNTIL), SimulationEvent::Damage { node, draw: draws.next_u64() }));
    }
    plan
}
