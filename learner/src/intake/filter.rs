//! Which admitted groups are worth a place in a batch: DAPO's dynamic sampling, and RLAX's
//! filter by pass rate.
//!
//! What it refuses is acknowledged, never waits, and is dropped on the record with a reason of
//! its own. It looks at nothing but the group, so a group has the same fate after any restart;
//! and as a dropped group leaves room for another order at once, the learner does not starve
//! while some groups pass.

pub mod options;

use crate::intake::group::Admitted;
use crate::intake::outcome::DropReason;
use echo_protocol::work::trajectory::TrajectoryGroup;

/// A filter; the default lets everything pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Filter {
    /// Refuse groups whose rewards are all equal: their advantages are zero.
    pub no_signal: bool,
    /// EchoClip learns from whatever a group got right: then such a group is refused only when
    /// nothing of it is right.
    pub echo_clip: bool,
    /// Refuse groups whose share of right responses is below the first or above the second.
    pub pass_rate: Option<[f64; 2]>,
}

/// Whether all rewards of a group are the same, so that they say nothing about its responses.
pub fn same_rewards(group: &TrajectoryGroup) -> bool {
    group.trajectories.windows(2).all(|pair| pair[0].reward == pair[1].reward)
}

impl Filter {
    /// Why a group is not trained on; `None` when it passes.
    #[must_use]
    pub fn reason(&self, admitted: &Admitted) -> Option<DropReason> {
        let right = admitted.correct.iter().filter(|correct| **correct).count();
        let echoes = self.echo_clip && right > 0;
        if self.no_signal && same_rewards(&admitted.group) && !echoes {
            return Some(DropReason::NoSignal);
        }
        let share = right as f64 / admitted.correct.len().max(1) as f64;
        let passes = self.pass_rate.is_none_or(|[low, high]| (low..=high).contains(&share));
        (!passes).then_some(DropReason::PassRate)
    }
}

/// Notices a filter that lets nothing through.
#[derive(Clone, Copy, Debug)]
pub struct Starvation {
    /// Groups dropped by the filter when the wait began.
    before: u64,
    /// Groups dropped since then at which the next warning is due.
    due: u64,
}

/// Batches' worth of groups that the filter may drop while the learner waits for one batch, before
/// it is worth a warning.
const PATIENCE_BATCHES: u64 = 8;

impl Starvation {
    /// A wait for a batch of `groups` begins, after the filter has dropped `dropped` groups in all.
    #[must_use]
    pub fn new(dropped: u64, groups: usize) -> Self {
        Self { before: dropped, due: (groups.max(1) as u64).saturating_mul(PATIENCE_BATCHES) }
    }

    /// How many groups were dropped in this wait, when that is worth a warning: at eight batches'
    /// worth, sixteen, thirty-two, ...
    pub fn look(&mut self, dropped: u64) -> Option<u64> {
        let since = dropped.saturating_sub(self.before);
        if since < self.due {
            return None;
        }
        while self.due <= since {
            self.due = self.due.saturating_mul(2);
        }
        Some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::run::charter::RunId;
    use echo_protocol::wire::codec;
    use echo_protocol::wire::content_id::ContentId;
    use echo_protocol::wire::identity::PublicKey;
    use echo_protocol::work::lease::LeaseId;
    use echo_protocol::work::order::OrderCounter;
    use echo_protocol::work::trajectory::Trajectory;

    /// A group with these rewards; a response is right when its reward is 1.
    fn admitted(rewards: &[f32]) -> Admitted {
        let trajectory = |&reward: &f32| Trajectory {
            response: vec![1],
            turns: Vec::new(),
            logprobs: vec![-0.1],
            versions: Vec::new(),
            reward,
            stopped: true,
            omega: Default::default(),
            raw_logprobs: Vec::new(),
        };
        let name = codec::encode(&PublicKey::from_bytes([1; 32]), 64).unwrap();
        let run: RunId = codec::decode(&name, 64).unwrap();
        let group = TrajectoryGroup {
            run,
            lease: LeaseId(0),
            counter: OrderCounter(0),
            node: PublicKey::from_bytes([2; 32]),
            trajectories: rewards.iter().map(trajectory).collect(),
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        };
        Admitted {
            id: ContentId::of(b""),
            group,
            correct: rewards.iter().map(|reward| *reward == 1.0).collect(),
        }
    }

    #[test]
    fn equal_rewards_carry_no_signal_unless_something_is_echoed() {
        let dynamic = Filter { no_signal: true, ..Filter::default() };
        let of = |rewards: &[f32]| dynamic.reason(&admitted(rewards));
        assert_eq!(of(&[0.0, 0.0, 0.0]), Some(DropReason::NoSignal));
        assert_eq!(of(&[1.0, 1.0]), Some(DropReason::NoSignal));
        assert_eq!(of(&[0.0, 0.1, 0.0]), None, "partial rewards differ");
        let echo = Filter { echo_clip: true, ..dynamic };
        assert_eq!(echo.reason(&admitted(&[1.0, 1.0])), None);
        assert_eq!(echo.reason(&admitted(&[0.0, 0.0])), Some(DropReason::NoSignal));
        assert_eq!(Filter::default().reason(&admitted(&[0.0, 0.0])), None, "off");
    }

    #[test]
    fn the_pass_rate_is_a_closed_interval() {
        let filter = Filter { pass_rate: Some([0.25, 0.75]), ..Filter::default() };
        let of = |rewards: &[f32]| filter.reason(&admitted(rewards));
        assert_eq!(of(&[1.0, 0.0, 0.0, 0.0]), None);
        assert_eq!(of(&[1.0, 1.0, 1.0, 0.0]), None);
        assert_eq!(of(&[1.0, 1.0, 1.0, 1.0]), Some(DropReason::PassRate));
        assert_eq!(of(&[0.5, 0.0, 0.0, 0.0]), Some(DropReason::PassRate), "none is right");
        let both = Filter { no_signal: true, ..filter };
        assert_eq!(
            both.reason(&admitted(&[0.0, 0.0])),
            Some(DropReason::NoSignal),
            "named by the stronger reason"
        );
    }

    #[test]
    fn starvation_is_told_ever_more_rarely() {
        let mut wait = Starvation::new(100, 2);
        let warned: Vec<u64> = (100..=200).filter_map(|dropped| wait.look(dropped)).collect();
        assert_eq!(warned, [16, 32, 64]);
    }
}
