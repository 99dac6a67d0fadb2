//! Task rules, and the reward computed again.

use echo_protocol::order::{Purpose, WorkOrder};
use echo_protocol::submission::RefuseReason;
use echo_sandbox::assignment::Assignment;
use echo_sandbox::task::{Task, Verdict};

use super::{Admission, Admitted, Checked, Refusal, Rejection};
use crate::replay::{ReplayError, replay};

/// How far a claimed reward may be from the one that the response earns.
pub const REWARD_TOLERANCE: f32 = 1e-6;

impl Admission {
    /// Plays every episode of a group again, with the policy's turns. Pure and possibly slow: call it where blocking is allowed.
    ///
    /// # Errors
    /// [`RefuseReason::TaskRules`] or [`RefuseReason::Reward`]; [`Rejection::Retry`] when a task could not judge.
    pub fn judge(&self, checked: Checked) -> Result<Admitted, Rejection> {
        let Checked { id, mut group } = checked;
        let counter = group.counter;
        let order = WorkOrder::derive(&self.run, Purpose::Train, counter);
        let assignment = Assignment::of(&self.tasks, &order);
        let mut correct = Vec::with_capacity(group.trajectories.len());
        for (position, trajectory) in group.trajectories.iter_mut().enumerate() {
            let refuse = |reason, what: String| {
                Rejection::from(Refusal::new(reason, format!("trajectory {position}: {what}")).of(counter))
            };
            let limit = self.form.max_new_tokens as usize;
            let verdict = match replay(assignment.play(), trajectory, limit, self.decoder.as_ref()) {
                Ok(replayed) => sound(&assignment, replayed.verdict)?,
                Err(ReplayError::Rules(what)) => return Err(refuse(RefuseReason::TaskRules, what)),
                Err(ReplayError::Task(error)) => return Err(Rejection::retry(&error)),
            };
            if is_lie(assignment.task(), &verdict, trajectory.reward) {
                let what = format!("claims reward {}, earns {}", trajectory.reward, verdict.reward);
                return Err(refuse(RefuseReason::Reward, what));
            }
            trajectory.reward = verdict.reward;
            trajectory.omega = verdict.metadata;
            correct.push(verdict.correct);
        }
        Ok(Admitted { id, group, correct })
    }
}

/// Whether no honest node could have come to the reward that is claimed.
fn is_lie(task: &dyn Task, verdict: &Verdict, claimed: f32) -> bool {
    (claimed - verdict.reward).abs() > REWARD_TOLERANCE && !task.may_differ(verdict, claimed)
}

/// A task whose rewards are none has failed.
fn sound(assignment: &Assignment<'_>, verdict: Verdict) -> Result<Verdict, Rejection> {
    if (0.0..=1.0).contains(&verdict.reward) {
        return Ok(verdict);
    }
    let (task, reward) = (assignment.task().name(), verdict.reward);
    Err(Rejection::Retry(format!("task {task} gave the reward {reward}, outside [0, 1]")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_sandbox::episode::Step;
    use echo_sandbox::task::{Prompt, Response, TaskError, TaskSeed};

    /// A task whose judging fails, or gives what no reward is.
    #[derive(Debug)]
    struct Broken(Option<f32>);

    impl Task for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }
        fn prompt(&self, _: TaskSeed) -> Prompt {
            Prompt { text: String::new() }
        }
        fn reward(&self, _: TaskSeed, _: &Response<'_>) -> Result<Verdict, TaskError> {
            let reward = self.0.ok_or_else(|| TaskError::internal("broken", "the judge's disk is full"))?;
            Ok(Verdict { reward, ..Verdict::right() })
        }
        fn may_differ(&self, verdict: &Verdict, claimed: f32) -> bool {
            claimed < verdict.reward
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

    #[test]
    fn a_claim_that_speed_explains_is_no_lie() {
        let lies = |claimed| is_lie(&Broken(None), &Verdict { reward: 0.5, ..Verdict::right() }, claimed);
        assert!(lies(0.6) && !lies(0.5 + REWARD_TOLERANCE / 2.0));
        // Only a slower machine, of which this task knows, comes to less.
        assert!(!lies(0.4));
    }

    #[test]
    fn a_failure_to_judge_is_neither_a_refusal_nor_a_reward() {
        let judged = |broken: &Broken| -> Result<Verdict, Rejection> {
            let assignment = Assignment::new(broken, TaskSeed([0; 32]));
            let response = Response { text: "", finished: true };
            let step = assignment.play().turn(&response, 0).map_err(|error| Rejection::retry(&error))?;
            let Step::Over { verdict, .. } = step else { panic!("{step:?}") };
            sound(&assignment, verdict)
        };
        for broken in [None, Some(f32::NAN), Some(1.5)] {
            let judged = judged(&Broken(broken));
            assert!(matches!(judged, Err(Rejection::Retry(_))), "{judged:?}");
        }
        assert!(judged(&Broken(Some(0.5))).is_ok());
    }
}
