//! Trajectories as the policy read them: the prompt, its turns, and what it heard between them.

use crate::common::workload::{Workload, WorkloadError};
use crate::training::batch::Sequence;
use echo_protocol::work::order::WorkOrder;
use echo_protocol::work::trajectory::Trajectory;
use echo_sandbox::rollout::replay::{ReplayError, heard};

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

/// The sequences of trajectories of `order`, which were admitted, in one group with the tag 0. The error
/// names the response that cannot be read.
pub(crate) fn of_order(
    workload: &Workload,
    order: &WorkOrder,
    trajectories: &[Trajectory],
) -> Result<Vec<Sequence>, SequenceError> {
    let (prompt, assignment) = (workload.prompt(order)?, workload.assignment(order));
    let limit = workload.charter.sampling.max_new_tokens as usize;
    let encode = |text: &str| Ok::<_, SequenceError>(workload.heard(text)?);
    let sequence = |trajectory: &Trajectory| -> Result<Sequence, SequenceError> {
        let heard = heard(assignment.play(), trajectory, limit, workload, encode)?;
        Ok(Sequence { prompt: prompt.clone(), response: trajectory.response.clone(), heard, group: 0 })
    };
    trajectories.iter().map(sequence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use echo_protocol::work::order::Purpose;
    use echo_sandbox::task::Response;
    use echo_sandbox::task::episode::EpisodeStep;
    use echo_sandbox::tasks::holdem::turns::response_mask;

    /// What opens a message where ECHO-2's mask is computed: a token that no text has.
    const START: u32 = 1;

    #[test]
    fn an_episode_of_holdem_has_the_papers_mask() {
        let (workload, _) = testing::holdem();
        let mut several = 0;
        for counter in 0..20 {
            let order = workload.order(Purpose::Train, counter);
            // The conversation as messages: the system's, which is empty here, then states
            // and actions in turn.
            let mut x = [vec![START, START], workload.prompt(&order).unwrap()].concat();
            let (mut response, mut turns) = (Vec::new(), Vec::new());
            let mut play = workload.assignment(&order).play();
            let verdict = loop {
                let text = play.suggestion();
                let said = [workload.encode(&text).unwrap(), vec![workload.end()]].concat();
                x.extend([START].iter().chain(&said));
                turns.push(said.len() as u32);
                response.extend(said);
                match play.turn(&Response { text: &text, finished: true }, usize::MAX).unwrap() {
                    EpisodeStep::Heard(state) => {
                        x.push(START);
                        x.extend(workload.encode(&state).unwrap());
                    }
                    EpisodeStep::Over { verdict, .. } => break verdict,
                }
            };
            several += usize::from(turns.len() > 1);
            let trajectory = Trajectory {
                turns: echo_protocol::work::trajectory::turns(turns),
                logprobs: vec![-1.0; response.len()],
                versions: Vec::new(),
                reward: verdict.reward,
                stopped: true,
                omega: verdict.metadata,
                response,
                raw_logprobs: Vec::new(),
            };
            let sequence = of_order(&workload, &order, &[trajectory]).unwrap().remove(0);
            let masked = x.iter().copied().zip(response_mask(&x, START));
            let expected: Vec<(u32, bool)> = masked.filter(|(token, _)| *token != START).collect();
            assert_eq!(sequence.tokens().collect::<Vec<_>>(), expected);
        }
        assert!(several > 5, "{several} of 20 episodes have several turns");
    }
}
