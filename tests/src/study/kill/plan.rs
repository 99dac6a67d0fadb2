//! When the learner is killed.

use super::KillStudy;
use super::life::{Kill, When};
use echo_protocol::content::ContentId;
use echo_protocol::draw::Draws;

/// Instants between which a draw decides.
const GRAIN: u64 = 1 << 20;

/// Kills in the order in which they are made.
#[derive(Debug)]
pub(super) struct Plan(Vec<Kill>);

impl Plan {
    /// Instants that are spread over the run. Every second one is aimed at what is short, and would rarely be met by chance: start-up,
    /// the writing of a checkpoint, a publication.
    pub(super) fn draw(study: KillStudy, period: u64) -> Self {
        let seed = format!("echo kill study {}", study.seed);
        let mut draws = Draws::new(*ContentId::of(seed.as_bytes()).as_bytes());
        // So late that there is something to kill still.
        let last = study.updates.saturating_sub(2 * period);
        let mut updates: Vec<u64> = (0..study.kills).map(|_| draws.below(last.max(1))).collect();
        updates.sort_unstable();
        let kill = |at| {
            let when = match draws.below(6) {
                0 => When::StartUp,
                1 => When::Checkpoint,
                2 => When::Publication,
                _ => When::Anytime,
            };
            Kill { at, when, share: draws.below(GRAIN) as f64 / GRAIN as f64 }
        };
        Self(updates.into_iter().map(kill).collect())
    }

    pub(super) fn kills(&self) -> impl Iterator<Item = Kill> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_spread_and_a_seed_gives_the_same_ones() {
        let draw = |seed| Plan::draw(KillStudy { kills: 50, updates: 200, seed }, 2).0;
        let kills = draw(3);
        assert_eq!(kills, draw(3));
        assert_ne!(kills, draw(4));
        assert!(kills.is_sorted_by_key(|kill| kill.at) && kills.iter().all(|kill| kill.at < 196));
        for quarter in [0..50, 50..100, 100..150, 150..196] {
            assert!(kills.iter().any(|kill| quarter.contains(&kill.at)), "{quarter:?}");
        }
        for when in [When::StartUp, When::Checkpoint, When::Publication, When::Anytime] {
            assert!(kills.iter().any(|kill| kill.when == when), "{when:?}");
        }
    }
}
