//! When the learner is killed.

use super::KillStudy;
use super::learner_process::{Kill, When};
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::rng::Draws;

/// Instants between which a draw decides.
const GRAIN: u64 = 1 << 20;
/// One kill of so many, and at least one, strikes at the end of the run.
const PER_END: u32 = 10;

/// Kills in the order in which they are made.
#[derive(Debug)]
pub(super) struct KillPlan(Vec<Kill>);

impl KillPlan {
    /// Instants that are spread over the run. Every second one is aimed at what is short, and would
    /// rarely be met by chance: start-up, the writing of a checkpoint, a publication. Behind these
    /// come the last checkpoint, which is not written again once it is, and then the end, which a
    /// learner that is killed there comes to again and again.
    pub(super) fn draw(study: KillStudy, period: u64) -> Self {
        let seed = format!("echo kill study {}", study.seed);
        let mut draws = Draws::new(*ContentId::of(seed.as_bytes()).as_bytes());
        let end = study.kills.div_ceil(PER_END);
        let last_checkpoint = (study.kills - end).min(1);
        // So late that there is something to kill still.
        let last = study.updates.saturating_sub(2 * period);
        let during = study.kills - end - last_checkpoint;
        let mut updates: Vec<u64> = (0..during).map(|_| draws.below(last.max(1))).collect();
        updates.sort_unstable();
        let mut instants: Vec<(u64, When)> =
            updates.into_iter().map(|at| (at, during_the_run(&mut draws))).collect();
        instants.extend((0..last_checkpoint).map(|_| (study.updates, When::Checkpoint)));
        instants.extend((0..end).map(|_| (study.updates, When::End)));
        let kill = |(at, when)| Kill { at, when, share: draws.below(GRAIN) as f64 / GRAIN as f64 };
        Self(instants.into_iter().map(kill).collect())
    }

    pub(super) fn kills(&self) -> impl Iterator<Item = Kill> {
        self.0.iter().copied()
    }

    /// How many kills have been made when the plan is half over; at least one.
    pub(super) fn middle(&self) -> usize {
        self.0.len().div_ceil(2).max(1)
    }
}

fn during_the_run(draws: &mut Draws) -> When {
    match draws.below(6) {
        0 => When::StartUp,
        1 => When::Checkpoint,
        2 => When::Publication,
        _ => When::Anytime,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_spread_and_a_seed_gives_the_same_ones() {
        let draw = |seed| KillPlan::draw(KillStudy { kills: 50, updates: 200, seed }, 2).0;
        let kills = draw(3);
        assert_eq!(kills, draw(3));
        assert_ne!(kills, draw(4));
        assert!(kills.len() == 50 && kills.is_sorted_by_key(|kill| kill.at));
        assert!(kills[..44].iter().all(|kill| kill.at < 196));
        for quarter in [0..50, 50..100, 100..150, 150..196] {
            assert!(kills.iter().any(|kill| quarter.contains(&kill.at)), "{quarter:?}");
        }
        for when in [When::StartUp, When::Checkpoint, When::Publication, When::Anytime] {
            assert!(kills[..44].iter().any(|kill| kill.when == when), "{when:?}");
        }
    }

    #[test]
    fn the_middle_is_behind_a_kill() {
        let middle = |kills| KillPlan::draw(KillStudy { kills, updates: 20, seed: 1 }, 2).middle();
        assert_eq!([0, 1, 2, 5, 50].map(middle), [1, 1, 1, 3, 25]);
    }

    #[test]
    fn the_end_is_struck_behind_the_last_checkpoint() {
        let last = |kills: u32| {
            let plan = KillPlan::draw(KillStudy { kills, updates: 20, seed: 1 }, 2).0;
            assert_eq!(plan.len(), kills as usize);
            let at_end = plan.into_iter().filter(|kill| kill.at == 20);
            at_end.map(|kill| kill.when).collect::<Vec<_>>()
        };
        assert!(last(0).is_empty());
        assert_eq!(last(1), [When::End]);
        assert_eq!(last(2), [When::Checkpoint, When::End]);
        assert_eq!(last(11), [When::Checkpoint, When::End, When::End]);
    }
}
