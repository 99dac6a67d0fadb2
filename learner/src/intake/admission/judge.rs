//! Task rules, and the reward computed again.

use echo_protocol::work::order::{Purpose, WorkOrder};
use echo_protocol::work::submission::RefuseReason;
use echo_protocol::work::trajectory::TrajectoryGroup;
use echo_sandbox::rollout::assignment::Assignment;
use echo_sandbox::rollout::judge::judge;

use super::{Admission, Admitted, Checked, Refusal, Rejection};

impl Admission {
    /// Whether judging a group runs programs, so that its tokens are to be looked at first.
    ///
    /// # Errors
    /// [`RefuseReason::TaskRules`] for turns that the task has not: to look at a later turn means
    /// to play the earlier ones, and so to run programs.
    pub fn runs_programs(&self, group: &TrajectoryGroup) -> Result<bool, Refusal> {
        let order = WorkOrder::derive(&self.run, Purpose::Train, group.counter);
        let task = Assignment::of(&self.tasks, &order).task();
        let most = task.max_turns();
        let beyond = group.trajectories.iter().position(|trajectory| trajectory.turns.len() > most as usize);
        match beyond {
            Some(position) if task.runs_programs() => {
                let detail = format!("trajectory {position}: has more turns than the {most} of its task");
                Err(Refusal::new(RefuseReason::TaskRules, detail).of(group.counter))
            }
            _ => Ok(task.runs_programs()),
        }
    }

    /// Plays every episode of a group again, with the policy's turns. Pure and possibly slow: call
    /// it where blocking is allowed.
    ///
    /// # Errors
    /// [`RefuseReason::TaskRules`] or [`RefuseReason::Reward`]; [`Rejection::Retry`] when a
    /// task could not judge.
    pub fn judge(&self, checked: Checked) -> Result<Admitted, Rejection> {
        let Checked { id, mut group } = checked;
        let counter = group.counter;
        let order = WorkOrder::derive(&self.run, Purpose::Train, counter);
        let assignment = Assignment::of(&self.tasks, &order);
        let limit = self.form.max_new_tokens as usize;
        let mut correct = Vec::with_capacity(group.trajectories.len());
        for (position, trajectory) in group.trajectories.iter_mut().enumerate() {
            let judged = judge(&assignment, trajectory, limit, self.decoder.as_ref());
            let verdict = judged.map_err(|error| match error.reason() {
                Some(reason) => {
                    Refusal::new(reason, format!("trajectory {position}: {error}")).of(counter).into()
                }
                None => Rejection::retry(&error),
            })?;
            trajectory.reward = verdict.reward;
            trajectory.omega = verdict.metadata;
            correct.push(verdict.correct);
        }
        Ok(Admitted { id, group, correct })
    }
}
