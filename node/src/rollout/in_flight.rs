//! Orders whose samples are being generated, and the groups that they become.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use echo_policy::generation;
use echo_policy::generation::{
    AnyBackend, Backend, Completion, EngineError, Generation, GenerationLimits, Ticket,
};
use echo_policy::text::tokenizer::Tokenizer;
use echo_protocol::run::charter::Takeover;
use echo_protocol::run::precision::{Caches, PrecisionName};
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::work::lease::HeldOrder;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::TrajectoryGroup;

use crate::devices::fallback::DeviceFallback;
use crate::rollout::error::RolloutError;
use crate::rollout::orders::LeasedOrder;
use crate::rollout::sample::RunningSample;
use crate::snapshots::install::Installed;
use crate::workload::{NodeWorkload, NodeWorkloadError};

/// How long a newer policy waits for orders that still go on under the one before the last; then
/// their caches are given up.
const SETTLING: Duration = Duration::from_secs(10);

/// Orders in flight. They come and go; their samples are generated together, each in the
/// episode that it plays.
pub(crate) struct OrdersInFlight<'w> {
    workload: &'w NodeWorkload,
    generation: Generation<AnyBackend>,
    in_use: Arc<Installed>,
    /// Waits to take over.
    next: Option<Arc<Installed>>,
    orders: BTreeMap<Ticket, (LeasedOrder, Vec<RunningSample<'w>>)>,
}

/// An order whose samples have come to their ends, and the group that it became: signed, or why not.
pub(crate) type Landed = (HeldOrder, Result<Vec<u8>, String>);

impl<'w> OrdersInFlight<'w> {
    pub(crate) fn new(
        workload: &'w NodeWorkload,
        installed: Arc<Installed>,
        limits: GenerationLimits,
    ) -> Self {
        let takeover = match workload.takeover() {
            Takeover::Recompute => generation::PolicyTakeover::Recompute,
            Takeover::Keep => generation::PolicyTakeover::Keep,
            Takeover::Wait => generation::PolicyTakeover::Wait,
        };
        let generation = Generation::new(installed.policy.clone(), limits, takeover);
        Self { workload, generation, in_use: installed, next: None, orders: BTreeMap::new() }
    }

    /// Begins an order. One that fails leaves the others as they were.
    pub(crate) fn begin(&mut self, order: LeasedOrder, tokenizer: &Tokenizer) -> Result<(), RolloutError> {
        let (counter, ticket) = (order.counter, Ticket(order.counter.0));
        let request = self.workload.request(counter, tokenizer)?;
        let samples = (0..request.samples).map(|_| self.workload.play(counter).map(RunningSample::new));
        let samples = samples.collect::<Result<_, NodeWorkloadError>>()?;
        self.generation.submit(ticket, request)?;
        self.orders.insert(ticket, (order, samples));
        Ok(())
    }

    /// How many orders are in flight.
    pub(crate) fn len(&self) -> usize {
        self.orders.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    pub(crate) fn contains(&self, order: OrderCounter) -> bool {
        self.orders.contains_key(&Ticket(order.0))
    }

    /// Whether one more order would be taken up soon, as far as the engine's limits say.
    pub(crate) fn has_room(&self) -> bool {
        self.generation.has_room()
    }

    /// Tokens drawn so far.
    pub(crate) fn drawn(&self) -> u64 {
        self.generation.tally().drawn
    }

    /// Whether yet another policy may take over, when the last one did so long ago: every
    /// order that has tokens has drawn from that, or goes on under the one before for longer
    /// than we wait for.
    pub(crate) fn is_settled(&self, after: Duration) -> bool {
        !self.generation.is_catching_up() && (self.generation.lingering() == 0 || after >= SETTLING)
    }

    /// Has a newer policy take over, as the charter wants it; or the same one on another device, at once.
    pub(crate) fn install(&mut self, installed: Arc<Installed>) -> Result<(), EngineError> {
        self.generation.install(installed.policy.clone())?;
        if installed.version() == self.in_use.version() {
            self.in_use = installed;
        } else {
            self.next = Some(installed);
            self.settle();
        }
        Ok(())
    }

    /// Lets go of the policy before once the next one is in use; the generation has it for as long
    /// as orders draw from it.
    fn settle(&mut self) {
        let in_use = self.generation.policy().version();
        if let Some(next) = self.next.take_if(|next| next.version() == in_use) {
            self.in_use = next;
        }
    }

    /// Goes on where the device in use was lost: its policies are loaded on the next device of the
    /// list, and what was said is computed anew. The newest of them is returned.
    pub(crate) fn move_on(
        &mut self,
        fallback: &DeviceFallback,
        why: &EngineError,
    ) -> Result<Arc<Installed>, EngineError> {
        self.settle();
        fallback.lost(&self.in_use.device, why);
        self.install(Arc::new(self.in_use.reload(fallback)?))?;
        if let Some(next) = self.next.clone().filter(|next| fallback.is_lost(&next.device)) {
            self.install(Arc::new(next.reload(fallback)?))?;
        }
        Ok(self.next.as_ref().unwrap_or(&self.in_use).clone())
    }

    /// Gives up the order that is longest in flight; which it was.
    pub(crate) fn give_up_oldest(&mut self) -> Option<HeldOrder> {
        let ticket = self.generation.oldest()?;
        self.generation.abandon(ticket);
        self.orders.remove(&ticket).map(|(order, _)| order.held())
    }

    /// Lets all orders go; which they were.
    pub(crate) fn abandon(&mut self) -> Vec<HeldOrder> {
        let orders = std::mem::take(&mut self.orders);
        for ticket in orders.keys() {
            self.generation.abandon(*ticket);
        }
        orders.into_values().map(|(order, _)| order.held()).collect()
    }

    /// Draws a token for every sample that is caught up, and tells the episodes which turns have ended.
    /// Judging a turn may take a minute, so none is judged once `stopped`; their orders come to nothing.
    pub(crate) fn step(
        &mut self,
        tokenizer: &Tokenizer,
        mut stopped: impl FnMut() -> bool,
    ) -> Result<(), EngineError> {
        self.generation.step()?;
        self.settle();
        let orders = &mut self.orders;
        self.generation.converse(|turn| {
            let heard = orders.get_mut(&turn.ticket).map(|(_, samples)| &mut samples[turn.sample]);
            Ok(heard.filter(|_| !stopped()).and_then(|sample| sample.hear(turn, tokenizer)))
        })
    }

    /// Hands out the orders that are done. One that could not be judged makes no group at all: a
    /// failure of ours must never become a reward.
    pub(crate) fn landed(&mut self, key: &NodeKey) -> Vec<Landed> {
        let mut landed = Vec::new();
        for (ticket, completions) in self.generation.finished() {
            if let Some((order, samples)) = self.orders.remove(&ticket) {
                landed.push((order.held(), self.group(key, order, samples, completions)));
            }
        }
        landed
    }

    /// The signed group of an order.
    fn group(
        &self,
        key: &NodeKey,
        order: LeasedOrder,
        samples: Vec<RunningSample<'w>>,
        mut completions: Vec<Completion>,
    ) -> Result<Vec<u8>, String> {
        // The samples go in lockstep: the longest has all that happened.
        let longest = completions.iter().max_by_key(|completion| completion.tokens.len());
        let kept = longest.filter(|longest| longest.has_kept_caches());
        let recomputed = kept.map(|longest| longest.recomputed.clone());
        if self.workload.form().is_raw {
            completions.iter_mut().for_each(|completion| completion.raw_logprobs.clear());
        }
        let each = samples.into_iter().zip(completions);
        let trajectories: Result<Vec<_>, NodeWorkloadError> =
            each.map(|(sample, completion)| sample.trajectory(completion)).collect();
        let precision = self.generation.policy().backend().precision().name().to_owned();
        let group = TrajectoryGroup {
            run: self.workload.run,
            lease: order.lease,
            counter: order.counter,
            node: key.public(),
            trajectories: trajectories.map_err(|error| error.to_string())?,
            precision: PrecisionName::try_from(precision).map_err(|error| error.to_string())?,
            caches: if recomputed.is_some() { Caches::Kept } else { Caches::Recomputed },
            recomputed: recomputed.unwrap_or_default(),
        };
        Ok(Signed::sign(&group, key).map_err(|error| error.to_string())?.to_bytes())
    }
}
