//! Orders that are generated together, and the groups that they become.

use echo_policy::engine::{Completion, SampleRequest};
use echo_policy::tokenizer::Tokenizer;
use echo_protocol::identity::NodeKey;
use echo_protocol::order::OrderCounter;
use echo_protocol::signed::Signed;
use echo_protocol::trajectory::{Trajectory, TrajectoryGroup, spans};
use echo_protocol::version::PolicyVersion;

use crate::orders::LeasedOrder;
use crate::workload::{Workload, WorkloadError};

/// Orders with their requests.
#[derive(Debug, Default)]
pub(super) struct Batch {
    orders: Vec<LeasedOrder>,
    requests: Vec<SampleRequest>,
}

impl Batch {
    pub(super) fn add(
        &mut self,
        order: LeasedOrder,
        workload: &Workload,
        tokenizer: &Tokenizer,
    ) -> Result<(), WorkloadError> {
        self.requests.push(workload.request(order.counter, tokenizer)?);
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

    /// Judges and signs. An order that cannot be judged makes no group at all: a failure of ours must never become a reward.
    pub(super) fn groups(
        &self,
        workload: &Workload,
        key: &NodeKey,
        tokenizer: &Tokenizer,
        completions: Vec<Vec<Completion>>,
    ) -> Vec<(OrderCounter, Vec<u8>)> {
        let mut groups = Vec::with_capacity(self.orders.len());
        for (order, completions) in self.orders.iter().zip(completions) {
            let trajectories: Result<Vec<_>, _> = completions
                .into_iter()
                .map(|completion| trajectory(workload, order, tokenizer, completion))
                .collect();
            let signed = trajectories.map_err(|e| e.to_string()).and_then(|trajectories| {
                let group = TrajectoryGroup {
                    run: workload.run,
                    lease: order.lease,
                    counter: order.counter,
                    node: key.public(),
                    trajectories,
                };
                Signed::sign(&group, key).map_err(|e| e.to_string())
            });
            match signed {
                Ok(signed) => groups.push((order.counter, signed.to_bytes())),
                Err(error) => {
                    tracing::error!(order = %order.counter, error, "no group was made; the order will be leased again");
                }
            }
        }
        groups
    }
}

fn trajectory(
    workload: &Workload,
    order: &LeasedOrder,
    tokenizer: &Tokenizer,
    completion: Completion,
) -> Result<Trajectory, WorkloadError> {
    let worth = workload.judge(order.counter, tokenizer, &completion.tokens, completion.stopped)?;
    Ok(Trajectory {
        response: completion.tokens,
        logprobs: completion.logprobs,
        versions: spans(completion.versions.into_iter().map(PolicyVersion)),
        reward: worth.reward,
        stopped: completion.stopped,
        omega: worth.omega,
    })
}
