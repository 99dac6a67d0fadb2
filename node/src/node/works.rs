//! All parts of a node at work for one run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use echo_protocol::charter::Charter;
use echo_protocol::identity::NodeKey;
use echo_protocol::net::snapshots::{Role, Snapshots, SnapshotsConfig};
use echo_protocol::net::{DhtMode, Host, HostConfig, HostEvents, NetError, names};
use echo_protocol::relay::Mode;
use echo_protocol::signed::Signed;
use echo_protocol::store::ChunkStore;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::NodeError;
use super::{AGENT, DELIVER_FOR, IDLE_FOR};
use crate::board::{Board, State};
use crate::config::Settings;
use crate::discovery::Discovery;
use crate::downloads::Downloads;
use crate::gossip;
use crate::hardware;
use crate::install::Images;
use crate::ladder::Ladder;
use crate::learner::Learner;
use crate::ledger::Ledger;
use crate::manifests::Manifests;
use crate::neighbours::Neighbours;
use crate::orders::order_queue;
use crate::outbox::Outbox;
use crate::preflight::Ready;
use crate::returns::returns;
use crate::rollout::{MAX_IN_FLIGHT, Worker};
use crate::session::{Ending, Session};
use crate::status::{Reporter, Screen};
use crate::supply::{self, Leasing};
use crate::uplink::{self, Uplink};
use crate::verifier::Verifier;
use crate::workload::Workload;

/// A stopped host's addresses are free again within this time.
const RELEASED_WITHIN: Duration = Duration::from_secs(5);
/// A node that ends waits so long for the learner to take orders back.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(1);
/// How long a stopped node waits for its worker. What is being computed or judged for longer is given up.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// A worker that has run out of orders for good ends this long before the session at most.
const SESSION_ENDS_WITHIN: Duration = Duration::from_secs(10);
/// The pause between two attempts to listen on them.
const RELEASE_POLL: Duration = Duration::from_millis(100);

/// The parts, running.
pub(super) struct Works {
    host: Host,
    outbox: Outbox,
    board: Arc<Board>,
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

impl Works {
    /// Starts everything. What an earlier start has installed is installed again from the disk.
    pub(super) async fn start(
        ready: &Ready,
        settings: &Settings,
        screen: &Screen,
        board: &Arc<Board>,
        charter: &Signed<Charter>,
    ) -> Result<Self, NodeError> {
        let ledger = Ledger::open(&ready.data.receipts(), charter, ready.identity.public())?;
        let (run, charter) = Charter::open(charter)?;
        let mut workload = Workload::new(run, &charter)?;
        // Who only checks others computes in f32, by which they are judged.
        if settings.generates() {
            workload.check_machine()?;
            workload = workload.computed_in(settings.precision)?;
        }
        // Who only checks others computes on the processor.
        let ladder = match settings.generates() {
            true => Ladder::new(&settings.device, workload.precision(), board.clone())?,
            false => Ladder::cpu(),
        };
        let (workload, ladder) = (Arc::new(workload), Arc::new(ladder));
        let expected = ladder.first().filter(|_| settings.generates()).and_then(|device| {
            let (parameters, response) = (workload.model.parameter_count(), workload.form().max_new_tokens);
            hardware::expected(settings, &device, workload.precision(), parameters, response)
        });
        board.set(|facts| facts.expected_rollouts_per_s = expected);
        // Blocks, and nothing else of the run has begun.
        let outbox = Outbox::open(&ready.data.outbox(), &run, &ready.identity.public())?;
        board.set(|facts| {
            facts.outbox = outbox.len();
            // What an earlier run left here says nothing about this one.
            (facts.version, facts.epoch, facts.installed_at) = (None, None, None);
            (facts.download, facts.parent) = (None, None);
        });
        let store = Arc::new(ChunkStore::open(&ready.data.chunks())?);
        let images = Images::open(&ready.data.images())?;
        let key = Arc::new(NodeKey::from_secret(ready.identity.secret()));
        let (host, events) = start_host(HostConfig {
            listen: ready.listen.clone(),
            mode: DhtMode::Auto,
            topics: vec![names::manifest_topic(&run.to_string())],
            max_upload: settings.max_upload.map(|rate| rate.0),
            max_download: settings.max_download.map(|rate| rate.0),
            ..HostConfig::client(key.secret(), AGENT)
        })
        .await?;
        let role = if settings.relays() { Role::Relay } else { Role::Leaf };
        let config = SnapshotsConfig {
            // As the learner says with the first neighbours.
            learner: Some(ready.target.learner),
            ..SnapshotsConfig::new(key.public(), role, Mode::Echo)
        };
        let (snapshots, snapshot_events) = Snapshots::start(host.clone(), store.clone(), config)?;
        let neighbours = Neighbours::new(host.clone(), snapshots.clone(), board.clone());
        let manifests = Arc::new(Manifests::new(workload.clone(), snapshots.clone()));
        let learner = Learner::new(host.clone(), ready.learner);
        let learner_gone = Arc::new(Notify::new());
        let (policy, generated_with) = watch::channel(None);
        let (done, installed) = watch::channel(None);
        let (linked, is_linked) = watch::channel(false);
        let (newest, told) = watch::channel(None);
        // Of the orders that the node may hold, half are being worked on and half wait.
        let waiting = settings.max_orders.div_ceil(2) as usize;
        let in_flight = (settings.max_orders as usize).saturating_sub(waiting).clamp(1, MAX_IN_FLIGHT);
        let (stock, orders) = order_queue(waiting);
        let (returns, returning) = returns();
        let returning = tokio::spawn(returning.run(learner.clone(), is_linked.clone()));
        let stop_worker = CancellationToken::new();

        let worker = Worker {
            workload: workload.clone(),
            key: key.clone(),
            orders,
            in_flight,
            policy: generated_with.clone(),
            ladder: ladder.clone(),
            outbox: outbox.clone(),
            board: board.clone(),
            returns,
            stop: stop_worker.clone(),
        };
        let worker = if settings.generates() { generate(worker)? } else { idle(stop_worker.clone()) };

        let mut services = JoinSet::new();
        services.spawn({
            let (manifests, gone) = (manifests.clone(), learner_gone.clone());
            let listening = gossip::listen(events, ready.learner, manifests, gone);
            async move { Ok(listening.await?) }
        });
        services.spawn({
            let downloads = Downloads {
                workload: workload.clone(),
                store,
                images,
                ladder,
                snapshots: snapshots.clone(),
                manifests: manifests.clone(),
                learner: learner.clone(),
                neighbours: neighbours.clone(),
                board: board.clone(),
                kept: ready.data.installed(),
                policy: (settings.generates() || settings.verifies()).then_some(policy),
                instead: match (settings.generates(), settings.verifies()) {
                    (true, _) => None,
                    (false, true) => Some(State::Verifying),
                    (false, false) => Some(State::Relaying),
                },
                installed: done,
            };
            downloads.run(snapshot_events)
        });
        services.spawn({
            let fetching = supply::fetch_manifests(learner.clone(), manifests.clone(), told.clone());
            async move { Ok(fetching.await?) }
        });
        services.spawn({
            let fetching = supply::fetch_missed(learner.clone(), manifests.clone());
            async move { Ok(fetching.await?) }
        });
        let verifier = Verifier {
            host: host.clone(),
            learner: ready.learner,
            workload: workload.clone(),
            key: key.clone(),
            policy: generated_with.clone(),
            board: board.clone(),
        };
        if settings.verifies() {
            services.spawn(async move {
                verifier.run().await;
                Ok(())
            });
        }
        let leasing = Leasing {
            learner: learner.clone(),
            workload,
            me: key.public(),
            stock,
            outbox: outbox.clone(),
            linked: is_linked,
            policy: generated_with,
            told,
            epoch: None,
            refused: None,
        };
        if settings.generates() {
            services.spawn(async move {
                leasing.run().await;
                Ok(())
            });
        }
        let uplink = Uplink {
            host: host.clone(),
            learner: ready.learner,
            outbox: outbox.clone(),
            board: board.clone(),
            ledger: Mutex::new(ledger),
            complaints: uplink::complaints(),
        };
        services.spawn(async move { match uplink.run().await? {} });
        let reporter = Reporter {
            board: board.clone(),
            host: host.clone(),
            path: ready.data.status(),
            every: settings.status_every(),
            screen: screen.clone(),
        };
        services.spawn(async move {
            reporter.run().await;
            Ok(())
        });

        if let Some(kept) = Manifests::kept(&ready.data.installed())
            && let Err(error) = manifests.offer(kept).await?
        {
            tracing::info!(%error, "the snapshot of last time is of no use now");
        }
        let session = Session {
            host: host.clone(),
            discovery: Discovery::new(
                host.clone(),
                ready.learner,
                &ready.bootstraps,
                ready.data.known_peers(),
            ),
            learner,
            run,
            snapshots,
            neighbours,
            board: board.clone(),
            installed,
            relays: settings.relays(),
            max_upload: settings.max_upload,
            linked,
            newest,
            clock_ahead_ms: None,
            learner_gone,
        };
        let session = tokio::spawn(async move { Ok(session.run().await?) });
        Ok(Self { host, outbox, board: board.clone(), session, worker, stop_worker, returning, services })
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
        self.board.set(|facts| {
            facts.learner = false;
            facts.outbox = self.outbox.len();
        });
        ended
    }

    /// How the session ends, now that the worker has ended by itself: orders end for good only with the
    /// session.
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

    /// Gives the uplink time to empty the outbox, for as long as the learner takes something.
    async fn deliver(&mut self, stop: &CancellationToken) {
        self.board.set(|facts| facts.state = State::Delivering);
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
            tracing::warn!(
                groups = self.outbox.len(),
                "the learner did not take everything; the rest stays in the outbox"
            );
        }
    }
}

/// Generates on a thread of its own.
fn generate(worker: Worker) -> Result<JoinHandle<Result<(), NodeError>>, NodeError> {
    let ended = worker.spawn()?;
    Ok(tokio::spawn(async move {
        match ended.await {
            Ok(ended) => ended.map_err(NodeError::from),
            Err(_) => Err(NodeError::Died { part: "generating" }),
        }
    }))
}

/// Generates nothing, until told to stop.
fn idle(stop: CancellationToken) -> JoinHandle<Result<(), NodeError>> {
    tokio::spawn(async move {
        stop.cancelled().await;
        Ok(())
    })
}

/// Waits for a task that was told to end. How it ended does not matter any more.
async fn joined<T>(task: &mut JoinHandle<T>) {
    // A task that has already been waited for is finished, and must not be asked again.
    if !task.is_finished() {
        drop(task.await);
    }
}

/// Starts a host where an earlier one of this process may just have stopped: QUIC lets go of its socket a moment later.
pub(super) async fn start_host(config: HostConfig) -> Result<(Host, HostEvents), NetError> {
    let deadline = Instant::now() + RELEASED_WITHIN;
    loop {
        match Host::start(config.clone()).await {
            Err(NetError::AddressInUse { .. }) if Instant::now() < deadline => {
                tokio::time::sleep(RELEASE_POLL).await;
            }
            started => return started,
        }
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
