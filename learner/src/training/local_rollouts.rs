//! Orders answered by the learner's own policy: for evaluations, and where there is no network.

use crate::common::workload::{Workload, WorkloadError};
use echo_policy::generation::{
    Backend, Completion, EndedTurn, EngineError, Generation, Policy, SampleRequest,
};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::WorkOrder;
use echo_protocol::work::trajectory::{Trajectory, spans, turns};
use echo_sandbox::rollout::assignment::Assignment;
use echo_sandbox::task::episode::{EpisodeStep, Play};
use echo_sandbox::task::{Response, TaskError, Verdict};
use std::sync::Arc;

/// Why orders are not answered.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The engine refused a request or failed while it generated.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The prompt of an order cannot be made into tokens.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The environment of an episode failed, or its judge.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// A response that came to no end.
    #[error("the generation is over, and an episode is not")]
    NotOver,
}

impl AnswerError {
    /// Whether it is one order's own fault, so that others may be answered without it.
    #[must_use]
    pub fn is_of_order(&self) -> bool {
        match self {
            Self::Task(_) => true,
            Self::Engine(error) => error.is_of_request(),
            Self::Workload(WorkloadError::Tokenizer(error)) => error.is_of_text(),
            Self::Workload(_) | Self::NotOver => false,
        }
    }
}

/// A response to an order: an episode that is over.
#[derive(Debug, Clone)]
pub struct LocalAnswer {
    /// Tokens, log-probs and versions that the engine gave, turn by turn.
    pub completion: Completion,
    /// What it is worth.
    pub verdict: Verdict,
    /// Whether the episode came to its own end; otherwise it was cut.
    pub finished: bool,
}

impl LocalAnswer {
    /// The trajectory that a node would send.
    #[must_use]
    pub fn trajectory(self) -> Trajectory {
        let Self { completion, verdict, finished } = self;
        Trajectory {
            response: completion.tokens,
            turns: turns(completion.turns),
            logprobs: completion.logprobs,
            raw_logprobs: Vec::new(),
            versions: spans(completion.versions.into_iter().map(PolicyVersion)),
            reward: verdict.reward,
            stopped: finished,
            omega: verdict.metadata,
        }
    }
}

/// Answers every order `samples` times, sampled at the run's own settings. A turn that is no text
/// counts as an empty one.
///
/// # Errors
/// [`AnswerError`]; see [`AnswerError::is_of_order`] for those that concern one order alone.
pub fn answers(
    workload: &Workload,
    policy: Arc<Policy>,
    orders: &[WorkOrder],
    samples: u32,
) -> Result<Vec<Vec<LocalAnswer>>, AnswerError> {
    let asked =
        orders.iter().map(|order| Ok((workload.request(order, samples)?, workload.assignment(order))));
    answers_to(workload, policy, asked.collect::<Result<_, WorkloadError>>()?)
}

/// Answers every assignment as its request says, on the policy's device.
pub(crate) fn answers_to<'w, B: Backend>(
    workload: &'w Workload,
    policy: Arc<Policy<B>>,
    asked: Vec<(SampleRequest, Assignment<'w>)>,
) -> Result<Vec<Vec<LocalAnswer>>, AnswerError> {
    let (mut requests, mut episodes) = (Vec::new(), Vec::new());
    for (request, assignment) in asked {
        let of_request = (0..request.samples).map(|_| Episode::begin(workload, assignment));
        episodes.push(of_request.collect::<Vec<Episode<'w>>>());
        requests.push(request);
    }
    let mut generation = Generation::start(policy, requests)?;
    while !generation.is_finished() {
        generation.step()?;
        generation.converse(|turn| episodes[turn.ticket.0 as usize][turn.sample].hear(turn))?;
    }
    let completions = generation.into_completions();
    let of_order = |(episodes, completions): (Vec<Episode<'_>>, Vec<Completion>)| {
        let each = episodes.into_iter().zip(completions);
        each.map(|(episode, completion)| episode.answer(completion)).collect::<Result<Vec<_>, _>>()
    };
    episodes.into_iter().zip(completions).map(of_order).collect()
}

/// What was written, turn by turn.
pub(crate) fn texts(workload: &Workload, completion: &Completion) -> Vec<String> {
    let mut rest = completion.tokens.as_slice();
    let turns = completion.turns.iter().map(|tokens| {
        let (turn, behind) = rest.split_at((*tokens as usize).min(rest.len()));
        rest = behind;
        workload.text(turn)
    });
    turns.collect()
}

/// An episode on its way.
pub(crate) struct Episode<'w> {
    workload: &'w Workload,
    play: Play<'w>,
    /// Its verdict, and whether it came to its own end.
    end: Option<(Verdict, bool)>,
}

impl<'w> Episode<'w> {
    /// The episode that an assignment's prompt opens.
    pub(crate) fn begin(workload: &'w Workload, assignment: Assignment<'w>) -> Self {
        Self { workload, play: assignment.play(), end: None }
    }

    /// Plays a turn of the policy, and says what it hears; none where the episode is over.
    pub(crate) fn hear(&mut self, turn: EndedTurn<'_>) -> Result<Option<Vec<u32>>, AnswerError> {
        let text = self.workload.text(turn.tokens);
        match self.play.turn(&Response { text: &text, finished: turn.stopped }, turn.left)? {
            EpisodeStep::Heard(text) => Ok(Some(self.workload.heard(&text)?)),
            EpisodeStep::Over { verdict, finished } => {
                self.end = Some((verdict, finished));
                Ok(None)
            }
        }
    }

    /// What it came to.
    pub(crate) fn answer(self, completion: Completion) -> Result<LocalAnswer, AnswerError> {
        let (verdict, finished) = self.end.ok_or(AnswerError::NotOver)?;
        Ok(LocalAnswer { completion, verdict, finished })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use crate::intake::admission::TextDecoder;
    use crate::training::sequences::of_order;
    use crate::verification::sampling_audit::SamplingAudit;
    use echo_policy::audit::VersionWeights;
    use echo_protocol::work::lease::LeaseId;
    use echo_protocol::work::order::Purpose;
    use echo_protocol::work::trajectory::TrajectoryGroup;
    use echo_sandbox::rollout::replay::replay;

    #[test]
    fn a_policy_that_chats_is_audited_and_trained_on_its_own_words_alone() {
        let home = tempfile::tempdir().unwrap();
        let (workload, weights) = testing::chat(home.path());
        let workload = Arc::new(workload);
        let policy = Arc::new(Policy::load(3, &workload.model, &weights).unwrap());
        let orders: Vec<_> = (0..1000).map(|counter| workload.order(Purpose::Train, counter)).collect();
        let all = answers(&workload, policy, &orders, workload.charter.group_size).unwrap();
        let audit = SamplingAudit::new(workload.clone(), home.path(), usize::MAX);
        audit.publish(VersionWeights::new(3, &workload.model, weights).unwrap());
        let mut several = 0;
        for (order, answers) in orders.iter().zip(all) {
            let trajectories: Vec<_> = answers.into_iter().map(LocalAnswer::trajectory).collect();
            let sequences = of_order(&workload, order, &trajectories).unwrap();
            let asked = format!("<bos>{}>", workload.assignment(order).prompt().text);
            for (sequence, trajectory) in sequences.iter().zip(&trajectories) {
                let own = sequence.tokens().filter(|(_, own)| *own).map(|(token, _)| token);
                assert_eq!(own.collect::<Vec<_>>(), trajectory.response);
                let read: Vec<u32> = sequence.tokens().map(|(token, _)| token).collect();
                let read = workload.tokenizer.decode(&read, false).unwrap();
                assert!(read.starts_with(&asked), "{read}");
                if !trajectory.turns.is_empty() {
                    let between = ["<eos><bos>higher:>", "<eos><bos>lower:>"];
                    assert!(between.iter().any(|between| read.contains(between)), "{read}");
                }
            }
            // All that have several turns, and some others.
            let of_several = trajectories.iter().filter(|trajectory| !trajectory.turns.is_empty()).count();
            several += of_several;
            if of_several > 0 || order.counter.0 < 20 {
                let group = TrajectoryGroup {
                    run: workload.run,
                    lease: LeaseId(0),
                    counter: order.counter,
                    node: workload.charter.learner,
                    trajectories,
                    precision: Default::default(),
                    caches: Default::default(),
                    recomputed: Vec::new(),
                };
                audit.check(&group).unwrap();
            }
        }
        assert!(several > 0);
    }

    #[test]
    fn answers_are_what_admission_makes_of_them() {
        for (workload, weights) in [testing::workload(), testing::two_turns()] {
            let policy = Arc::new(Policy::load(3, &workload.model, &weights).unwrap());
            let orders: Vec<_> = (0..1000).map(|counter| workload.order(Purpose::HeldOut, counter)).collect();
            let answers = answers(&workload, policy, &orders, 4).unwrap();
            let mut several = 0;
            for (order, answers) in orders.iter().zip(answers) {
                assert_eq!(answers.len(), 4);
                for answer in answers {
                    let (verdict, finished) = (answer.verdict.clone(), answer.finished);
                    let trajectory = answer.trajectory();
                    let limit = workload.charter.sampling.max_new_tokens as usize;
                    let decoder: &dyn TextDecoder = &workload;
                    let play = workload.assignment(order).play();
                    let replayed = replay(play, &trajectory, limit, decoder).unwrap();
                    assert_eq!((replayed.verdict, trajectory.stopped), (verdict, finished));
                    assert_eq!(replayed.heard.len(), trajectory.turns.len().saturating_sub(1));
                    several += replayed.heard.len();
                }
            }
            // A random policy says a number, and nothing else, in about one of 400 turns.
            let of_several = workload.mix.tasks().any(|task| task.max_turns() > 1);
            assert_eq!(several > 0, of_several, "{several}");
        }
    }
}
