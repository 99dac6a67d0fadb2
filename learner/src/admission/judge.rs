//! Task rules, and the reward computed again.

use echo_protocol::order::{Purpose, WorkOrder};
use echo_sandbox::assignment::Assignment;
use echo_sandbox::judge::judge;

use super::{Admission, Admitted, Checked, Refusal, Rejection};

impl Admission {
    /// Plays every episode of a group again, with the policy's turns. Pure and possibly slow: call it where blocking is allowed.
    ///
    /// # Errors
    /// [`RefuseReason::TaskRules`](echo_protocol::submission::RefuseReason::TaskRules) or
    /// [`RefuseReason::Reward`](echo_protocol::submission::RefuseReason::Reward); [`Rejection::Retry`] when a task could not judge.
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
