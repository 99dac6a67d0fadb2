//! What a trajectory earns, whatever its node says: task rules, and the reward computed again.

use echo_protocol::work::submission::RefuseReason;
use echo_protocol::work::trajectory::Trajectory;

use crate::rollout::assignment::Assignment;
use crate::rollout::replay::{ReplayError, TextDecoder, replay};
use crate::task::Verdict;

/// How far a claimed reward may be from the one that the response earns.
pub const REWARD_TOLERANCE: f32 = 1e-6;

/// Why a trajectory has no verdict.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// It breaks the rules, or the task failed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Its reward is made up.
    #[error("claims reward {claimed}, earns {earned}")]
    Reward {
        /// What its node says.
        claimed: f32,
        /// The reward that the replayed episode gives.
        earned: f32,
    },
    /// The task's own reward is outside [0, 1], so the task has failed.
    #[error("task {task} gave the reward {reward}, outside [0, 1]")]
    NoReward {
        /// The name of the task that failed.
        task: &'static str,
        /// The figure that the task gave, which may be NaN.
        reward: f32,
    },
}

impl JudgeError {
    /// Why the trajectory is refused; `None` when it is not its fault.
    pub fn reason(&self) -> Option<RefuseReason> {
        match self {
            Self::Replay(ReplayError::Rules(_)) => Some(RefuseReason::TaskRules),
            Self::Reward { .. } => Some(RefuseReason::Reward),
            Self::Replay(ReplayError::Task(_)) | Self::NoReward { .. } => None,
        }
    }
}

/// Plays the episode of a trajectory again, whose form was checked, and compares its
/// reward; `limit` is the longest response in tokens. Pure and possibly slow: call it
/// where blocking is allowed.
///
/// # Errors
/// [`JudgeError::Replay`] for broken rules or a failed task, [`JudgeError::Reward`] for a false
/// claim of a task that runs no programs, and [`JudgeError::NoReward`] for a failed task.
pub fn judge(
    assignment: &Assignment<'_>,
    trajectory: &Trajectory,
    limit: usize,
    decoder: &dyn TextDecoder,
) -> Result<Verdict, JudgeError> {
    let verdict = replay(assignment.play(), trajectory, limit, decoder)?.verdict;
    let (claimed, earned) = (trajectory.reward, verdict.reward);
    if !(0.0..=1.0).contains(&earned) {
        return Err(JudgeError::NoReward { task: assignment.task().name(), reward: earned });
    }
    if (claimed - earned).abs() > REWARD_TOLERANCE && !assignment.task().runs_programs() {
        return Err(JudgeError::Reward { claimed, earned });
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Prompt, Response, Task, TaskError, TaskSeed};

    /// A task whose judging fails, or gives always the same.
    #[derive(Debug)]
    struct Broken {
        reward: Option<f32>,
        runs_programs: bool,
    }

    impl Task for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }
        fn prompt(&self, _: TaskSeed) -> Prompt {
            Prompt { text: String::new() }
        }
        fn reward(&self, _: TaskSeed, _: &Response<'_>) -> Result<Verdict, TaskError> {
            let reward =
                self.reward.ok_or_else(|| TaskError::internal("broken", "the judge's disk is full"))?;
            Ok(Verdict { reward, ..Verdict::right() })
        }
        fn runs_programs(&self) -> bool {
            self.runs_programs
        }
        fn solution(&self, _: TaskSeed) -> String {
            String::new()
        }
        fn longest_prompt(&self) -> usize {
            0
        }
        fn longest_response(&self) -> usize {
            0
        }
    }

    /// A decoder whose every text is empty.
    struct Deaf;

    impl TextDecoder for Deaf {
        fn decode(&self, _: &[u32]) -> Result<String, String> {
            Ok(String::new())
        }
        fn is_end(&self, id: u32) -> bool {
            id == 0
        }
        fn vocabulary(&self) -> u32 {
            1
        }
    }

    fn judged(reward: Option<f32>, runs_programs: bool, claimed: f32) -> Result<Verdict, JudgeError> {
        let broken = Broken { reward, runs_programs };
        let assignment = Assignment::new(&broken, TaskSeed([0; 32]));
        let trajectory = Trajectory {
            response: vec![0],
            turns: Vec::new(),
            logprobs: vec![-1.0],
            versions: Vec::new(),
            reward: claimed,
            stopped: true,
            omega: Default::default(),
            raw_logprobs: Vec::new(),
        };
        judge(&assignment, &trajectory, 4, &Deaf)
    }

    #[test]
    fn a_failure_to_judge_is_neither_a_refusal_nor_a_reward() {
        for broken in [None, Some(f32::NAN), Some(1.5)] {
            let judged = judged(broken, false, 1.0);
            assert!(matches!(&judged, Err(error) if error.reason().is_none()), "{judged:?}");
        }
        assert!(judged(Some(0.5), false, 0.5).is_ok());
    }

    #[test]
    fn a_claim_is_held_against_what_was_earned() {
        for claimed in [0.25, 0.75] {
            let judged = judged(Some(0.5), false, claimed);
            let lied = |error: &JudgeError| error.reason() == Some(RefuseReason::Reward);
            assert!(matches!(&judged, Err(error) if lied(error)), "{judged:?}");
        }
    }

    #[test]
    fn no_claim_about_a_program_is_a_lie_and_what_was_earned_counts() {
        for claimed in [0.0, 0.25, 1.0] {
            assert_eq!(judged(Some(0.5), true, claimed).unwrap().reward, 0.5);
        }
    }
}
