//! What an honest node makes of an order.

use crate::harness::liar::{Liar, LiarOrder};
use anyhow::Context as _;
use echo_policy::generation::{Completion, Generation, Policy, SampleRequest, score};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::{Purpose, WorkOrder};
use echo_protocol::work::trajectory::{Trajectory, TrajectoryGroup, spans};
use echo_sandbox::task::Response;
use std::sync::Arc;

/// An order, and the group that an honest node makes of it under a policy.
#[derive(Clone)]
pub(super) struct Truth {
    /// The leased order that was worked on.
    pub(super) order: LiarOrder,
    /// The policy that every token was drawn from.
    pub(super) policy: Arc<Policy>,
    /// The group, unsigned. It names the member whose order it is.
    pub(super) group: TrajectoryGroup,
}

impl Truth {
    /// Generates and judges as nodes do. Computes for some milliseconds.
    pub(super) fn of(member: &Liar, order: LiarOrder, policy: Arc<Policy>) -> anyhow::Result<Self> {
        let drawn = draw(member, order, &policy, |_| ())?;
        let work = work(member, order);
        let trajectories = drawn.into_iter().map(|completion| {
            let Completion { tokens, logprobs, stopped, .. } = completion;
            trajectory(member, &work, &policy, tokens, logprobs, stopped)
        });
        let trajectories = trajectories.collect::<anyhow::Result<_>>()?;
        Ok(Self { order, policy, group: TrajectoryGroup { trajectories, ..member.empty_group(order) } })
    }
}

/// The order as node and learner derive it: task, prompt and seed.
pub(super) fn work(member: &Liar, order: LiarOrder) -> WorkOrder {
    member.workload().order(Purpose::Train, order.counter.0)
}

/// Responses to an order, after `change` of what the engine is asked for.
pub(super) fn draw(
    member: &Liar,
    order: LiarOrder,
    policy: &Arc<Policy>,
    change: impl FnOnce(&mut SampleRequest),
) -> anyhow::Result<Vec<Completion>> {
    let workload = member.workload();
    let mut request = workload.request(&work(member, order), workload.charter.group_size)?;
    change(&mut request);
    let mut drawn = Generation::start(policy.clone(), vec![request])?.run()?;
    drawn.pop().context("one request has one answer")
}

/// A response with the reward that it earns.
pub(super) fn trajectory(
    member: &Liar,
    work: &WorkOrder,
    policy: &Policy,
    response: Vec<u32>,
    logprobs: Vec<f32>,
    stopped: bool,
) -> anyhow::Result<Trajectory> {
    let workload = member.workload();
    let text = workload.text(&response);
    let verdict = workload.assignment(work).reward(&Response { text: &text, finished: stopped })?;
    let version = PolicyVersion(policy.version());
    Ok(Trajectory {
        turns: Vec::new(),
        logprobs,
        versions: spans(response.iter().map(|_| version)),
        reward: verdict.reward,
        stopped,
        omega: verdict.metadata,
        response,
        raw_logprobs: Vec::new(),
    })
}

/// A response that nobody drew, with the log-probabilities that the policy has for it.
pub(super) fn undrawn(
    member: &Liar,
    work: &WorkOrder,
    policy: &Policy,
    response: Vec<u32>,
    stopped: bool,
) -> anyhow::Result<Trajectory> {
    let prompt = member.workload().prompt(work)?;
    let scores = score(policy, &[[prompt.as_slice(), &response].concat()])?.pop();
    let scores = scores.context("one sequence has one row of scores")?;
    let logprobs = scores.get(prompt.len() - 1..).context("every token has a score")?.to_vec();
    trajectory(member, work, policy, response, logprobs, stopped)
}
