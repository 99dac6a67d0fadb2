//! Trajectories as the policy read them: the prompt, its turns, and what it heard between them.

use crate::batch::{Heard, Sequence};
use crate::replay::{ReplayError, replay};
use crate::workload::{Workload, WorkloadError};
use echo_protocol::order::WorkOrder;
use echo_protocol::trajectory::Trajectory;
use echo_sandbox::assignment::Assignment;

/// Why a trajectory is no sequence.
#[derive(Debug, thiserror::Error)]
pub enum SequenceError {
    /// It does not come to the end that it had when it was admitted.
    #[error("an admitted trajectory cannot be played again: {0}")]
    Replay(#[from] ReplayError),
    /// The prompt, or what was heard, has no tokens.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// The sequences of trajectories of `order`, which were admitted, in one group with the tag 0.
///
/// # Errors
/// [`SequenceError`]
pub(crate) fn of_order(
    workload: &Workload,
    order: &WorkOrder,
    trajectories: &[Trajectory],
) -> Result<Vec<Sequence>, SequenceError> {
    let (prompt, assignment) = (workload.prompt(order)?, workload.assignment(order));
    let sequence = |trajectory: &Trajectory| -> Result<Sequence, SequenceError> {
        let heard = heard(workload, &assignment, trajectory)?;
        Ok(Sequence { prompt: prompt.clone(), response: trajectory.response.clone(), heard, group: 0 })
    };
    trajectories.iter().map(sequence).collect()
}

/// What the policy heard between the turns of a trajectory: its environment says it again.
fn heard(
    workload: &Workload,
    assignment: &Assignment<'_>,
    trajectory: &Trajectory,
) -> Result<Vec<Heard>, SequenceError> {
    if trajectory.turns.is_empty() {
        return Ok(Vec::new());
    }
    let limit = workload.charter.sampling.max_new_tokens as usize;
    let replayed = replay(assignment.play(), trajectory, limit, workload)?;
    let between = trajectory.turn_ranges().zip(&replayed.heard);
    between.map(|(turn, text)| Ok(Heard { after: turn.end, tokens: workload.encode(text)? })).collect()
}
