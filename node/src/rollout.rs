//! The worker: a thread that turns leased orders into signed groups.
//!
//! It works in batches of orders, whose samples are generated together, each in the episode that it plays. Between any two tokens it looks
//! whether a newer policy was installed, and goes on under that one, unless the charter wants batches to end as they began; so every token knows
//! the version that produced it. A batch counts as done when its groups are in the outbox, on disk.

mod batch;
mod given_up;
mod sample;

use std::sync::Arc;
use std::thread;

use echo_policy::engine::Generation;
use echo_policy::error::EngineError;
use echo_protocol::charter::Takeover;
use echo_protocol::clock;
use echo_protocol::identity::NodeKey;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::board::{Board, State};
use crate::install::Installed;
use crate::orders::{LeasedOrder, OrderSource};
use crate::outbox::{Outbox, OutboxError};
use crate::workload::{Workload, WorkloadError};
use batch::Batch;
use given_up::GivenUp;

/// Most orders that are generated together: enough rows to keep a processor busy, few enough to be done soon.
pub const MAX_BATCH_ORDERS: usize = 8;

/// Why a batch came to nothing.
#[derive(Debug, thiserror::Error)]
enum BatchError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error(transparent)]
    Outbox(#[from] OutboxError),
}

impl BatchError {
    /// Whether it is one order's own fault: a prompt without tokens, or with too many.
    fn is_of_order(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_of_request(),
            Self::Workload(WorkloadError::Tokenizer(error)) => error.is_of_text(),
            Self::Workload(_) | Self::Outbox(_) => false,
        }
    }
}

/// Everything that the worker needs.
pub struct Worker {
    /// What the run asks for.
    pub workload: Arc<Workload>,
    /// Signs the groups.
    pub key: Arc<NodeKey>,
    /// Orders to work on.
    pub orders: OrderSource,
    /// Most orders that are generated together, 1 to [`MAX_BATCH_ORDERS`].
    pub batch: usize,
    /// The installed policy, replaced as newer ones are installed.
    pub policy: watch::Receiver<Option<Arc<Installed>>>,
    /// Where finished groups go.
    pub outbox: Outbox,
    /// Where the owner sees what happens.
    pub board: Arc<Board>,
    /// Ends the worker; a batch that is being generated is abandoned.
    pub stop: CancellationToken,
}

impl Worker {
    /// Works on a thread of its own until stopped, or until the orders end. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The thread returns [`OutboxError::Database`] when finished work can't be kept: generating more would be pointless.
    pub fn spawn(self) -> std::io::Result<thread::JoinHandle<Result<(), OutboxError>>> {
        let runtime = Handle::current();
        thread::Builder::new().name("rollout".to_owned()).spawn(move || self.run(&runtime))
    }

    fn run(mut self, runtime: &Handle) -> Result<(), OutboxError> {
        let (stop, mut given_up) = (self.stop.clone(), GivenUp::default());
        while let Some(Some((installed, orders))) =
            runtime.block_on(stop.run_until_cancelled(self.next_batch()))
        {
            self.board.set(|facts| facts.state = State::Generating);
            match self.generate(installed, orders, &mut given_up) {
                Ok(()) => {}
                Err(BatchError::Outbox(error)) => return Err(error),
                Err(error) => {
                    tracing::error!(%error, "the batch is abandoned, its orders will be leased again; waiting for a newer policy");
                    self.board.set(|facts| facts.state = State::PolicyUnusable);
                    // The next attempt under the same weights would end in the same way.
                    let newer = async { self.policy.changed().await.is_ok() };
                    if runtime.block_on(stop.run_until_cancelled(newer)) != Some(true) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits for a policy, for room in the outbox and for orders, in this sequence.
    async fn next_batch(&mut self) -> Option<(Arc<Installed>, Vec<LeasedOrder>)> {
        self.policy.wait_for(Option::is_some).await.ok()?;
        let mut changes = self.outbox.changes();
        while !self.outbox.has_room(self.batch) {
            self.board.set(|facts| facts.state = State::OutboxFull);
            changes.changed().await.ok()?;
        }
        if self.orders.is_empty() {
            self.board.set(|facts| facts.state = State::WaitingForWork);
        }
        let orders = self.orders.batch(self.batch).await?;
        let installed = self.policy.borrow_and_update().clone()?;
        Some((installed, orders))
    }

    fn generate(
        &mut self,
        mut installed: Arc<Installed>,
        orders: Vec<LeasedOrder>,
        given_up: &mut GivenUp,
    ) -> Result<(), BatchError> {
        let workload = self.workload.clone();
        let Some(mut batch) = self.prepare(&workload, &installed, orders, given_up)? else { return Ok(()) };
        let mut generation = Generation::start(installed.policy.clone(), batch.requests())?;
        // Tokens there were when a policy took over last: each draws one at least, else policies that come faster than what was said can
        // be computed anew would leave none.
        let mut drawn_before = None;
        loop {
            generation.step()?;
            batch.listen(&mut generation, &installed.tokenizer)?;
            if generation.is_finished() {
                break;
            }
            if self.stop.is_cancelled() {
                return Ok(());
            }
            let drawn = generation.tally().drawn;
            let may = drawn_before.is_none_or(|before| drawn > before);
            if let Some(newer) = may.then(|| self.newer()).flatten() {
                generation.install(newer.policy.clone())?;
                installed = newer;
                drawn_before = Some(drawn);
            }
        }
        let groups = batch.groups(&workload, &self.key, generation.into_completions(), given_up);
        self.outbox.push(&groups)?;
        let trajectories = groups.len() as u64 * u64::from(workload.group_size);
        self.board.generated(clock::now(), trajectories);
        self.board.set(|facts| facts.outbox = self.outbox.len());
        Ok(())
    }

    /// The policy that takes over between two tokens, once.
    fn newer(&mut self) -> Option<Arc<Installed>> {
        let waits = self.workload.takeover() == Takeover::Wait;
        if waits || !self.policy.has_changed().unwrap_or(false) {
            return None;
        }
        self.policy.borrow_and_update().clone()
    }

    /// Leaves out orders whose lease is over, those whose group already waits, and those that cannot be begun.
    fn prepare<'w>(
        &self,
        workload: &'w Workload,
        installed: &Installed,
        orders: Vec<LeasedOrder>,
        given_up: &mut GivenUp,
    ) -> Result<Option<Batch<'w>>, BatchError> {
        let now = clock::now();
        let mut batch = Batch::default();
        for order in orders {
            if order.deadline <= now {
                tracing::debug!(order = %order.counter, "skipped: its lease was over before it was begun");
            } else if !self.outbox.contains(order.counter)? {
                match batch.add(order, workload, installed) {
                    Err(error) if error.is_of_order() => given_up.note(order.counter, &error),
                    added => added?,
                }
            }
        }
        Ok((!batch.is_empty()).then_some(batch))
    }
}

#[cfg(test)]
mod tests;
