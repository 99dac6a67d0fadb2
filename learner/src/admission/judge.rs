//! Task rules, and the reward computed again.

use echo_protocol::order::{Purpose, WorkOrder};
use echo_protocol::submission::RefuseReason;
use echo_protocol::trajectory::Trajectory;
use echo_sandbox::assignment::Assignment;
use echo_sandbox::task::{Response, Verdict};

use super::{Admission, Admitted, Checked, Refusal, Rejection};

/// How far a claimed reward may be from the one that the response earns.
pub const REWARD_TOLERANCE: f32 = 1e-6;

impl Admission {
    /// Judges every response of a group again. Pure and possibly slow: call it where blocking is allowed.
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
            let text = self.text(trajectory).map_err(|what| refuse(RefuseReason::TaskRules, what))?;
            let verdict = judge_text(&assignment, &text, trajectory.stopped)?;
            if (trajectory.reward - verdict.reward).abs() > REWARD_TOLERANCE {
                let what = format!("claims reward {}, earns {}", trajectory.reward, verdict.reward);
                return Err(refuse(RefuseReason::Reward, what));
            }
            trajectory.reward = verdict.reward;
            trajectory.omega = verdict.metadata;
            correct.push(verdict.correct);
        }
        Ok(Admitted { id, group, correct })
    }

    /// The text of a response that ended as sampling ends: with the one end token, or cut at the longest length.
    fn text(&self, trajectory: &Trajectory) -> Result<String, String> {
        let end = self.decoder.end_id();
        let ids = trajectory.response.as_slice();
        let ids = match (trajectory.stopped, ids.split_last()) {
            (true, Some((last, before))) if *last == end => before,
            (true, _) => return Err("says that it stopped, but does not end with the end token".into()),
            (false, _) if ids.len() != self.form.max_new_tokens as usize => {
                return Err(format!("cut at {} tokens instead of {}", ids.len(), self.form.max_new_tokens));
            }
            (false, _) => ids,
        };
        if ids.contains(&end) {
            return Err("goes on behind the end token".into());
        }
        self.decoder.decode(ids).map_err(|reason| format!("is no text: {reason}"))
    }
}

fn judge_text(assignment: &Assignment<'_>, text: &str, finished: bool) -> Result<Verdict, Rejection> {
    let verdict =
        assignment.reward(&Response { text, finished }).map_err(|error| Rejection::retry(&error))?;
    if (0.0..=1.0).contains(&verdict.reward) {
        return Ok(verdict);
    }
    let (task, reward) = (assignment.task().name(), verdict.reward);
    Err(Rejection::Retry(format!("task {task} gave the reward {reward}, outside [0, 1]")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_sandbox::task::{Prompt, Task, TaskError, TaskSeed};

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
    fn a_failure_to_judge_is_neither_a_refusal_nor_a_reward() {
        for broken in [None, Some(f32::NAN), Some(1.5)] {
            let judged = judge_text(&Assignment::new(&Broken(broken), TaskSeed([0; 32])), "", true);
            assert!(matches!(judged, Err(Rejection::Retry(_))), "{judged:?}");
        }
        let sound = Broken(Some(0.5));
        assert!(judge_text(&Assignment::new(&sound, TaskSeed([0; 32])), "", true).is_ok());
    }
}
