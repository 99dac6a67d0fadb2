//! The worker: a thread that turns leased orders into signed groups.
//!
//! Orders come and go while it works: the samples of all that are in flight are generated together,
//! each in the episode that it plays, and when an order is done the next one takes its place.
//! Between any two tokens the worker looks whether a newer policy was installed, and has it take
//! over as the charter says; every token knows the version that produced it. An order counts as
//! done when its group is in the outbox, on disk. Where the device is lost, the worker goes on with
//! the next one of the list, without a token lost.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use echo_policy::generation::{EngineError, GenerationLimits};
use echo_protocol::program::{clock, lab_pace};
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::work::lease::{HeldOrder, ReturnReason};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::delivery::outbox::{Outbox, OutboxError};
use crate::devices::fallback::DeviceFallback;
use crate::rollout::error::RolloutError;
use crate::rollout::given_up::GivenUp;
use crate::rollout::in_flight::OrdersInFlight;
use crate::rollout::orders::{LeasedOrder, OrderSource};
use crate::rollout::returns::Returns;
use crate::snapshots::install::Installed;
use crate::status::node_state::{NodeActivity, NodeState};
use crate::workload::NodeWorkload;

/// Most orders in flight: enough rows to keep a processor busy, few enough that each is done soon.
pub const MAX_IN_FLIGHT: usize = 8;

/// Why a node that ends gives its orders back.
const STOPPED: &str = "the node stops";
/// Why a node whose learner was put back gives its orders back.
const SET_BACK: &str = "the learner went back to an older policy";

/// Everything that the worker needs.
pub struct RolloutWorker {
    /// What the run asks for.
    pub workload: Arc<NodeWorkload>,
    /// Signs the groups: this node's identity.
    pub key: Arc<NodeKey>,
    /// Orders to work on.
    pub orders: OrderSource,
    /// Most orders in flight, 1 to [`MAX_IN_FLIGHT`].
    pub in_flight: usize,
    /// The installed policy, replaced as newer ones are installed.
    pub policy: watch::Receiver<Option<Arc<Installed>>>,
    /// Where policies are loaded again when a device is lost.
    pub fallback: Arc<DeviceFallback>,
    /// Where finished groups go.
    pub outbox: Outbox,
    /// Where the owner sees what happens.
    pub node_state: Arc<NodeState>,
    /// Where orders go that come to nothing.
    pub returns: Returns,
    /// Ends the worker; what is in flight is given back, but for what has been judged.
    pub stop: CancellationToken,
}

impl RolloutWorker {
    /// Works on a thread of its own until stopped, or until the orders end. Must be called
    /// within a tokio runtime.
    ///
    /// The result comes when the thread has ended; where it panicked, the channel is closed. Nobody has to
    /// wait for the thread.
    ///
    /// # Errors
    /// The thread sends [`OutboxError::Database`] when finished work can't be kept, as generating more
    /// would then be pointless.
    pub fn spawn(self) -> std::io::Result<oneshot::Receiver<Result<(), OutboxError>>> {
        let (runtime, (ended, result)) = (Handle::current(), oneshot::channel());
        thread::Builder::new().name("rollout".to_owned()).spawn(move || {
            // A node that stops may have given this thread up.
            let _ = ended.send(self.run(&runtime));
        })?;
        Ok(result)
    }

    fn run(mut self, runtime: &Handle) -> Result<(), OutboxError> {
        let workload = self.workload.clone();
        let (stop, mut given_up) = (self.stop.clone(), GivenUp::new(self.returns.clone()));
        loop {
            match self.fly(runtime, &workload, &mut given_up) {
                Ok(()) => return Ok(()),
                Err(RolloutError::Outbox(error)) => return Err(error),
                Err(error) => {
                    tracing::error!(%error, "what was in flight is given back; waiting for a newer policy");
                    self.node_state.set(|facts| facts.state = NodeActivity::PolicyUnusable);
                    // The next attempt under the same weights would end in the same way.
                    let changed = stop.run_until_cancelled(self.policy.changed());
                    if !matches!(runtime.block_on(changed), Some(Ok(()))) {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Works until stopped, or until the orders end. What is not done then goes back.
    fn fly(
        &mut self,
        runtime: &Handle,
        workload: &NodeWorkload,
        given_up: &mut GivenUp,
    ) -> Result<(), RolloutError> {
        let stop = self.stop.clone();
        let Some(Some(newest)) = runtime.block_on(stop.run_until_cancelled(self.first_policy())) else {
            self.drop_orders(Vec::new(), STOPPED);
            return Ok(());
        };
        let mut flight = OrdersInFlight::new(workload, newest.clone(), GenerationLimits::default());
        let ended = self.follow(runtime, workload, newest, &mut flight, given_up);
        let why = ended.as_ref().err().map_or_else(|| STOPPED.to_owned(), ToString::to_string);
        self.drop_orders(flight.abandon(), &why);
        ended
    }

    /// Gives back what is in flight and what waits.
    fn drop_orders(&mut self, mut held: Vec<HeldOrder>, why: &str) {
        held.extend(self.orders.ready(usize::MAX).iter().map(LeasedOrder::held));
        self.returns.give_back(&held, ReturnReason::Dropped, why);
    }

    /// Draws tokens for what is in flight, and takes up orders and policies as they come.
    fn follow<'w>(
        &mut self,
        runtime: &Handle,
        workload: &'w NodeWorkload,
        mut newest: Arc<Installed>,
        flight: &mut OrdersInFlight<'w>,
        given_up: &mut GivenUp,
    ) -> Result<(), RolloutError> {
        let stop = self.stop.clone();
        // When a policy took over last, and the tokens drawn by then. The next one waits until some were
        // drawn since: policies that come faster than caches are computed again would leave no token.
        let mut last: Option<(Instant, u64)> = None;
        loop {
            let came_to = |(since, before): (Instant, u64)| {
                flight.drawn() > before && flight.is_settled(since.elapsed())
            };
            let may = flight.is_empty() || last.is_none_or(came_to);
            // Orders are leased for the newest policy: none begins under another while that waits.
            let waits = !may && self.policy.has_changed().unwrap_or(false);
            let orders = if flight.is_empty() {
                match runtime.block_on(stop.run_until_cancelled(self.wait_for_orders())) {
                    Some(Some(orders)) => orders,
                    _ => return Ok(()),
                }
            } else if !waits && self.has_room(flight) {
                self.orders.ready(self.in_flight - flight.len())
            } else {
                Vec::new()
            };
            if let Some(older) = self.set_back(&newest) {
                // No learner takes what was begun under a policy that it has not come to.
                self.drop_orders(flight.abandon(), SET_BACK);
                *flight = OrdersInFlight::new(workload, older.clone(), GenerationLimits::default());
                (newest, last) = (older, None);
            }
            if let Some(newer) = may.then(|| self.newer(&newest)).flatten() {
                flight.install(newer.clone())?;
                newest = newer;
                last = Some((Instant::now(), flight.drawn()));
            }
            self.begin(orders, flight, &newest, given_up)?;
            if flight.is_empty() {
                continue;
            }
            match flight.step(&newest.tokenizer, || stop.is_cancelled()) {
                Ok(()) => {}
                Err(error @ EngineError::DeviceLost { .. }) => {
                    newest = flight.move_on(&self.fallback, &error)?;
                }
                Err(error @ EngineError::Memory { .. }) => match flight.give_up_oldest() {
                    Some(order) => given_up.note(order, ReturnReason::Dropped, &error),
                    None => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
            self.deliver(runtime, flight, given_up)?;
            if stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Waits for a policy.
    async fn first_policy(&mut self) -> Option<Arc<Installed>> {
        self.policy.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// The installed policy, if it was not looked at before and is not older than the one in use, which
    /// is a case for [`RolloutWorker::set_back`].
    fn newer(&mut self, newest: &Installed) -> Option<Arc<Installed>> {
        let has_changed = !self.is_set_back(newest) && self.policy.has_changed().unwrap_or(false);
        let installed = has_changed.then(|| self.policy.borrow_and_update().clone()).flatten();
        installed.filter(|installed| installed.version() >= newest.version())
    }

    /// The installed policy, if it is older than the one in use: the learner was put back.
    fn set_back(&mut self, newest: &Installed) -> Option<Arc<Installed>> {
        self.is_set_back(newest).then(|| self.policy.borrow_and_update().clone()).flatten()
    }

    fn is_set_back(&self, newest: &Installed) -> bool {
        self.policy.borrow().as_ref().is_some_and(|installed| installed.version() < newest.version())
    }

    /// Waits for room in the outbox, then for orders, while nothing is in flight.
    async fn wait_for_orders(&mut self) -> Option<Vec<LeasedOrder>> {
        let mut changes = self.outbox.changes();
        while !self.outbox.has_room(self.in_flight) {
            self.node_state.set(|facts| facts.state = NodeActivity::OutboxFull);
            changes.changed().await.ok()?;
        }
        if self.orders.is_empty() {
            self.node_state.set(|facts| facts.state = NodeActivity::WaitingForWork);
        }
        let orders = self.orders.batch(self.in_flight).await?;
        self.node_state.set(|facts| facts.state = NodeActivity::Generating);
        Some(orders)
    }

    /// Whether another order may join those in flight.
    fn has_room(&self, flight: &OrdersInFlight<'_>) -> bool {
        flight.len() < self.in_flight && flight.has_room() && self.outbox.has_room(self.in_flight)
    }

    /// Begins orders, but for those whose lease is over, those whose group already waits or is in
    /// flight, and those that cannot be begun.
    fn begin(
        &self,
        orders: Vec<LeasedOrder>,
        flight: &mut OrdersInFlight<'_>,
        installed: &Installed,
        given_up: &mut GivenUp,
    ) -> Result<(), RolloutError> {
        let now = clock::now();
        for order in orders {
            if order.deadline <= now {
                tracing::debug!(order = %order.counter, "given back: its lease was over before it was begun");
                self.returns.give_back(
                    &[order.held()],
                    ReturnReason::Late,
                    "its lease was over before it was begun",
                );
            } else if !(flight.contains(order.counter) || self.outbox.contains(order.counter)?) {
                match flight.begin(order, &installed.tokenizer) {
                    Err(error) if error.is_of_order() => {
                        given_up.note(order.held(), ReturnReason::Undoable, &error);
                    }
                    begun => begun?,
                }
            }
        }
        Ok(())
    }

    /// Puts the groups that are done into the outbox. Whoever held an order last may deliver it
    /// when its lease is over, too.
    fn deliver(
        &self,
        runtime: &Handle,
        flight: &mut OrdersInFlight<'_>,
        given_up: &mut GivenUp,
    ) -> Result<(), RolloutError> {
        let mut groups = Vec::new();
        for (held, group) in flight.landed(&self.key) {
            if let Some(time) = lab_pace::order(held.counter.0) {
                // None where the node stops: then nobody measures it any more.
                let pause = async { self.stop.run_until_cancelled(tokio::time::sleep(time)).await };
                let _ = runtime.block_on(pause);
            }
            match group {
                Ok(group) => groups.push((held.counter, group)),
                // It was not judged any more.
                Err(_) if self.stop.is_cancelled() => {
                    self.returns.give_back(&[held], ReturnReason::Dropped, STOPPED);
                }
                Err(error) => given_up.note(held, ReturnReason::Undoable, &error),
            }
        }
        if groups.is_empty() {
            return Ok(());
        }
        self.outbox.push(&groups)?;
        let trajectories = groups.len() as u64 * u64::from(self.workload.group_size);
        self.node_state.generated(clock::now(), trajectories);
        self.node_state.set(|facts| facts.outbox = self.outbox.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
