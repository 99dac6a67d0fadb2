//! Orders that are generated together, and the groups that they become.

use echo_policy::engine::{Completion, Generation, SampleRequest};
use echo_policy::error::EngineError;
use echo_policy::tokenizer::Tokenizer;
use echo_protocol::identity::NodeKey;
use echo_protocol::order::OrderCounter;
use echo_protocol::precision::{Caches, PrecisionName};
use echo_protocol::signed::Signed;
use echo_protocol::trajectory::TrajectoryGroup;

use super::BatchError;
use super::given_up::GivenUp;
use super::sample::Sample;
use crate::install::Installed;
use crate::orders::LeasedOrder;
use crate::workload::{Workload, WorkloadError};

/// Orders with their requests, and the episodes of their samples.
#[derive(Default)]
pub(super) struct Batch<'w> {
    orders: Vec<LeasedOrder>,
    requests: Vec<SampleRequest>,
    samples: Vec<Vec<Sample<'w>>>,
}

impl<'w> Batch<'w> {
    /// Adds an order. One that fails leaves the batch as it was.
    pub(super) fn add(
        &mut self,
        order: LeasedOrder,
        workload: &'w Workload,
        installed: &Installed,
    ) -> Result<(), BatchError> {
        let request = workload.request(order.counter, &installed.tokenizer)?;
        // The engine accepts all requests or none. Nothing is computed here.
        Generation::start(installed.policy.clone(), vec![request.clone()])?;
        let samples = (0..request.samples).map(|_| workload.play(order.counter).map(Sample::new));
        self.samples.push(samples.collect::<Result<_, WorkloadError>>()?);
        self.requests.push(request);
        self.orders.push(order);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// What the engine is asked, in the order of the orders.
    pub(super) fn requests(&self) -> Vec<SampleRequest> {
        self.requests.clone()
    }

    /// Tells the episodes which turns have ended since the last call, and the policy what they answer.
    pub(super) fn listen(
        &mut self,
        generation: &mut Generation,
        tokenizer: &Tokenizer,
    ) -> Result<(), EngineError> {
        generation
            .converse(|turn| Ok(self.samples[turn.ticket.0 as usize][turn.sample].hear(turn, tokenizer)))
    }

    /// Signs what the episodes came to. An order that could not be judged makes no group at all: a failure of ours must never become
    /// a reward.
    pub(super) fn groups(
        self,
        workload: &Workload,
        key: &NodeKey,
        completions: Vec<Vec<Completion>>,
        given_up: &mut GivenUp,
    ) -> Vec<(OrderCounter, Vec<u8>)> {
        let mut groups = Vec::with_capacity(self.orders.len());
        for ((order, samples), completions) in self.orders.into_iter().zip(self.samples).zip(completions) {
            let completions = completions.into_iter().map(|mut completion| {
                if workload.form().is_raw {
                    completion.raw_logprobs.clear();
                }
                completion
            });
            let each = samples.into_iter().zip(completions);
            let trajectories: Result<Vec<_>, _> =
                each.map(|(sample, completion)| sample.trajectory(completion)).collect();
            let signed = trajectories.map_err(|e| e.to_string()).and_then(|trajectories| {
                let group = TrajectoryGroup {
                    run: workload.run,
                    lease: order.lease,
                    counter: order.counter,
                    node: key.public(),
                    trajectories,
                    // What the engine does on processors.
                    precision: PrecisionName::default(),
                    caches: Caches::Recomputed,
                };
                Signed::sign(&group, key).map_err(|e| e.to_string())
            });
            match signed {
                Ok(signed) => groups.push((order.counter, signed.to_bytes())),
                Err(error) => given_up.note(order.counter, &error),
            }
        }
        groups
    }
}
