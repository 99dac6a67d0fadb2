//! Starts the parts of a node for one run, waits until one of them ends, and takes all of them down.

use std::sync::Arc;
use std::time::Duration;

use echo_protocol::net::Host;
use echo_protocol::run::charter::Charter;
use echo_protocol::wire::signed::Signed;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::NodeError;
use super::network::Network;
use super::parts::{self, Parts, channels, waiting_orders};
use super::resources::Resources;
use super::{DELIVER_FOR, IDLE_FOR};
use crate::delivery::outbox::Outbox;
use crate::delivery::receipts::Ledger;
use crate::learner_link::session::Ending;
use crate::preflight::Ready;
use crate::rollout::orders::order_queue;
use crate::rollout::returns::returns;
use crate::settings::Settings;
use crate::status::node_state::{NodeActivity, NodeState};
use crate::status::screen::Screen;

/// A node that ends waits so long for the learner to take orders back.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(1);
/// How long a stopped node waits for its worker. What is being computed or judged for longer is given up.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// A worker that has run out of orders for good ends this long before the session at most.
const SESSION_ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The parts of a node, running.
pub(super) struct Supervisor {
    host: Host,
    outbox: Outbox,
    node_state: Arc<NodeState>,
    /// Ends with the run.
    session: JoinHandle<Result<Ending, NodeError>>,
    /// Ends when it is told to, or when finished work cannot be kept.
    worker: JoinHandle<Result<(), NodeError>>,
    stop_worker: CancellationToken,
    /// Ends when the worker has, and what it gave back is with the learner.
    returning: JoinHandle<()>,
    /// Go on until they are aborted.
    services: JoinSet<Result<(), NodeError>>,
}

impl Supervisor {
    /// Starts everything. What an earlier start has installed is installed again from the disk.
    pub(super) async fn start(
        ready: &Ready,
        settings: &Settings,
        screen: &Screen,
        node_state: &Arc<NodeState>,
        charter: &Signed<Charter>,
    ) -> Result<Self, NodeError> {
        let ledger = Ledger::open(&ready.data.receipts(), charter, ready.identity.public())?;
        let resources = &Resources::open(ready, settings, node_state, charter)?;
        let (network, events) = Network::start(ready, settings, resources).await?;
        let (writers, readers) = channels();
        let parts = Parts { ready, settings, resources, network: &network, readers: &readers };

        let (stock, orders) = order_queue(waiting_orders(settings));
        let (returns, returning) = returns();
        let returning = parts.returning(returning);
        let stop_worker = CancellationToken::new();
        let worker = match settings.generates() {
            true => parts.rollout(orders, returns, &stop_worker)?,
            false => parts::idle(stop_worker.clone()),
        };
        let services = [
            Some(parts.gossip(events.host)),
            Some(parts.downloads(events.snapshots, writers.policy, writers.installed)),
            Some(parts.newest_manifest()),
            Some(parts.missed_manifests()),
            settings.verifies().then(|| parts.verifier()),
            settings.generates().then(|| parts.leasing(stock)),
            Some(parts.delivery(ledger)),
            Some(parts.status(screen)),
        ];
        let services: JoinSet<_> = services.into_iter().flatten().collect();
        parts.kept_snapshot().await?;
        let session = parts.session(writers.linked, writers.newest);
        let (host, outbox) = (network.host.clone(), resources.outbox.clone());
        Ok(Self {
            host,
            outbox,
            node_state: node_state.clone(),
            session,
            worker,
            stop_worker,
            returning,
            services,
        })
    }

    /// Works until the session ends by itself, or until `stop` (`None`). Then everything is taken down.
    pub(super) async fn run(mut self, stop: &CancellationToken) -> Result<Option<Ending>, NodeError> {
        let ended = loop {
            tokio::select! {
                () = stop.cancelled() => break Ok(None),
                ended = &mut self.session => break session_end(ended),
                ended = &mut self.worker => break match ended {
                    Ok(Ok(())) => self.session_ending().await,
                    failed => Err(failure(failed, "generating")),
                },
                Some(ended) = self.services.join_next() => match ended {
                    // It had nothing left to listen to, because the session is just ending.
                    Ok(Ok(())) => {}
                    failed => break Err(failure(failed, "a service")),
                },
            }
        };
        self.stop_worker.cancel();
        // The worker first: what it has just finished is to be delivered, too.
        self.worker_ends(stop).await;
        if let Ok(Some(Ending::RunEnded)) = ended {
            self.deliver(stop).await;
        }
        // Whatever is not given back by then goes back when the learner misses the heartbeats.
        if tokio::time::timeout(GIVE_BACK_WITHIN, &mut self.returning).await.is_err() {
            self.returning.abort();
        }
        self.session.abort();
        joined(&mut self.session).await;
        self.services.shutdown().await;
        self.host.shutdown().await;
        self.node_state.set(|facts| {
            facts.learner = false;
            facts.outbox = self.outbox.len();
        });
        ended
    }

    /// How the session ends, now that the worker has ended by itself. Orders end for good only with the
    /// session, so it is about to end.
    async fn session_ending(&mut self) -> Result<Option<Ending>, NodeError> {
        match tokio::time::timeout(SESSION_ENDS_WITHIN, &mut self.session).await {
            Ok(ended) => session_end(ended),
            Err(_) => Err(NodeError::Died { part: "generating" }),
        }
    }

    /// Waits for the worker, which was told to end: until it has, or for a while once the node is to stop.
    async fn worker_ends(&mut self, stop: &CancellationToken) {
        let patience = async {
            stop.cancelled().await;
            tokio::time::sleep(STOP_WITHIN).await;
        };
        tokio::select! {
            () = joined(&mut self.worker) => {}
            () = patience => tracing::info!("stopping without what is just being computed or judged"),
        }
    }

    /// Gives the delivery time to empty the outbox, for as long as the learner takes something.
    async fn deliver(&mut self, stop: &CancellationToken) {
        self.node_state.set(|facts| facts.state = NodeActivity::Delivering);
        let mut changes = self.outbox.changes();
        let deadline = Instant::now() + DELIVER_FOR;
        let delivered = async {
            while !self.outbox.is_empty() && Instant::now() < deadline {
                if !matches!(tokio::time::timeout(IDLE_FOR, changes.changed()).await, Ok(Ok(()))) {
                    break;
                }
            }
        };
        stop.run_until_cancelled(delivered).await;
        if !self.outbox.is_empty() {
            // Nothing is lost that the run could have used.
            tracing::info!(groups = self.outbox.len(), "the run ended before these groups were needed");
        }
    }
}

/// Waits for a task that was told to end. How it ended does not matter any more.
async fn joined<T>(task: &mut JoinHandle<T>) {
    // A task that has already been waited for is finished, and must not be asked again.
    if !task.is_finished() {
        drop(task.await);
    }
}

/// How a session ended.
fn session_end(ended: Result<Result<Ending, NodeError>, JoinError>) -> Result<Option<Ending>, NodeError> {
    match ended {
        Ok(ended) => ended.map(Some),
        Err(_) => Err(NodeError::Died { part: "the session" }),
    }
}

/// Why a part ended that should not have.
fn failure(ended: Result<Result<(), NodeError>, JoinError>, part: &'static str) -> NodeError {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) | Err(_) => NodeError::Died { part },
    }
}

#[cfg(test)]
mod tests;
