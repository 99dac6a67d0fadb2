//! The parts of a node that work for one run, each with the function that starts it.

use std::sync::Arc;

use echo_protocol::net::HostEvents;
use echo_protocol::net::snapshots::SnapshotEvent;
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::error::NodeError;
use super::network::Network;
use super::resources::Resources;
use crate::delivery::receipts::Ledger;
use crate::delivery::sender;
use crate::delivery::sender::Delivery;
use crate::learner_link::client::Newest;
use crate::learner_link::discovery::Discovery;
use crate::learner_link::session::{Ending, Session};
use crate::preflight::Ready;
use crate::rollout::leasing::Leasing;
use crate::rollout::orders::{OrderSource, OrderStock};
use crate::rollout::pauses::Pauses;
use crate::rollout::returns::{Returning, Returns};
use crate::rollout::worker::{MAX_IN_FLIGHT, RolloutWorker};
use crate::settings::Settings;
use crate::snapshots::downloads::SnapshotDownloads;
use crate::snapshots::gossip;
use crate::snapshots::install::Installed;
use crate::snapshots::manifest_fetch;
use crate::snapshots::manifests::Manifests;
use crate::status::node_state::NodeActivity;
use crate::status::reporter::StatusReporter;
use crate::status::screen::Screen;
use crate::verifier::Verifier;

/// A part that goes on until it is aborted. One that ends by itself has failed, or has nothing
/// left to listen to.
pub(super) type Service = BoxFuture<'static, Result<(), NodeError>>;

/// What the node generates with, or checks others with.
type Policy = Option<Arc<Installed>>;
/// The installed version and its epoch.
type Version = Option<(Epoch, PolicyVersion)>;

/// The values that parts pass to each other, where they are written. Each has one writer.
pub(super) struct Writers {
    /// Written by downloads, after each installation.
    pub(super) policy: watch::Sender<Policy>,
    /// Written by downloads, after the node's state, which heartbeats read.
    pub(super) installed: watch::Sender<Version>,
    /// Whether the learner answers: written by the session.
    pub(super) linked: watch::Sender<bool>,
    /// What the learner says is newest: written by the session.
    pub(super) newest: watch::Sender<Option<Newest>>,
}

/// The same values, where they are read.
pub(super) struct Readers {
    policy: watch::Receiver<Policy>,
    installed: watch::Receiver<Version>,
    linked: watch::Receiver<bool>,
    newest: watch::Receiver<Option<Newest>>,
}

/// Both ends of what parts pass to each other. Nothing is written yet.
pub(super) fn channels() -> (Writers, Readers) {
    let (policy, of_policy) = watch::channel(None);
    let (installed, of_installed) = watch::channel(None);
    let (linked, of_linked) = watch::channel(false);
    let (newest, of_newest) = watch::channel(None);
    let readers =
        Readers { policy: of_policy, installed: of_installed, linked: of_linked, newest: of_newest };
    (Writers { policy, installed, linked, newest }, readers)
}

/// How many of the orders that a node may hold wait: half, rounded up. The others are being worked on.
pub(super) fn waiting_orders(settings: &Settings) -> usize {
    settings.max_orders.div_ceil(2) as usize
}

/// Generates nothing, until told to stop.
pub(super) fn idle(stop: CancellationToken) -> JoinHandle<Result<(), NodeError>> {
    tokio::spawn(async move {
        stop.cancelled().await;
        Ok(())
    })
}

/// What the parts are made of.
pub(super) struct Parts<'a> {
    pub(super) ready: &'a Ready,
    pub(super) settings: &'a Settings,
    pub(super) resources: &'a Resources,
    pub(super) network: &'a Network,
    pub(super) readers: &'a Readers,
}

impl Parts<'_> {
    /// Gives orders back to the learner, until nothing gives any more.
    pub(super) fn returning(&self, returning: Returning) -> JoinHandle<()> {
        tokio::spawn(returning.run(self.network.learner.clone(), self.readers.linked.clone()))
    }

    /// Generates on a thread of its own, until stopped.
    pub(super) fn rollout(
        &self,
        orders: OrderSource,
        returns: Returns,
        stop: &CancellationToken,
    ) -> Result<JoinHandle<Result<(), NodeError>>, NodeError> {
        let held = self.settings.max_orders as usize;
        let worker = RolloutWorker {
            workload: self.resources.workload.clone(),
            key: self.resources.key.clone(),
            orders,
            in_flight: held.saturating_sub(waiting_orders(self.settings)).clamp(1, MAX_IN_FLIGHT),
            policy: self.readers.policy.clone(),
            fallback: self.resources.fallback.clone(),
            outbox: self.resources.outbox.clone(),
            node_state: self.resources.node_state.clone(),
            returns,
            stop: stop.clone(),
        };
        let ended = worker.spawn()?;
        Ok(tokio::spawn(async move {
            match ended.await {
                Ok(ended) => ended.map_err(NodeError::from),
                Err(_) => Err(NodeError::Died { part: "generating" }),
            }
        }))
    }

    /// Judges what other peers say without being asked.
    pub(super) fn gossip(&self, events: HostEvents) -> Service {
        let (manifests, gone) = (self.network.manifests.clone(), self.network.learner_gone.clone());
        let listening = gossip::listen(events, self.ready.learner, manifests, gone);
        Box::pin(async move { Ok(listening.await?) })
    }

    /// Receives snapshots and installs them.
    pub(super) fn downloads(
        &self,
        events: mpsc::Receiver<SnapshotEvent>,
        policy: watch::Sender<Policy>,
        installed: watch::Sender<Version>,
    ) -> Service {
        let (generates, verifies) = (self.settings.generates(), self.settings.verifies());
        let downloads = SnapshotDownloads {
            workload: self.resources.workload.clone(),
            store: self.resources.store.clone(),
            images: self.resources.images.clone(),
            fallback: self.resources.fallback.clone(),
            snapshots: self.network.snapshots.clone(),
            manifests: self.network.manifests.clone(),
            learner: self.network.learner.clone(),
            neighbours: self.network.neighbours.clone(),
            node_state: self.resources.node_state.clone(),
            kept: self.ready.data.installed(),
            policy: (generates || verifies).then_some(policy),
            instead: match (generates, verifies) {
                (true, _) => None,
                (false, true) => Some(NodeActivity::Verifying),
                (false, false) => Some(NodeActivity::Relaying),
            },
            installed,
        };
        Box::pin(async move { Ok(downloads.run(events).await?) })
    }

    /// Asks for the newest manifest where gossip did not bring it.
    pub(super) fn newest_manifest(&self) -> Service {
        let (learner, manifests) = (self.network.learner.clone(), self.network.manifests.clone());
        let fetching = manifest_fetch::fetch_manifests(learner, manifests, self.readers.newest.clone());
        Box::pin(async move { Ok(fetching.await?) })
    }

    /// Asks for manifests of older versions, for the sake of their deltas.
    pub(super) fn missed_manifests(&self) -> Service {
        let (learner, manifests) = (self.network.learner.clone(), self.network.manifests.clone());
        let fetching = manifest_fetch::fetch_missed(learner, manifests);
        Box::pin(async move { Ok(fetching.await?) })
    }

    /// Checks the groups of others.
    pub(super) fn verifier(&self) -> Service {
        let verifier = Verifier {
            host: self.network.host.clone(),
            learner: self.ready.learner,
            workload: self.resources.workload.clone(),
            key: self.resources.key.clone(),
            policy: self.readers.policy.clone(),
            node_state: self.resources.node_state.clone(),
        };
        Box::pin(async move {
            verifier.run().await;
            Ok(())
        })
    }

    /// Asks for leases, so that orders keep coming.
    pub(super) fn leasing(&self, stock: OrderStock) -> Service {
        let leasing = Leasing {
            learner: self.network.learner.clone(),
            workload: self.resources.workload.clone(),
            me: self.resources.key.public(),
            stock,
            outbox: self.resources.outbox.clone(),
            linked: self.readers.linked.clone(),
            policy: self.readers.policy.clone(),
            newest: self.readers.newest.clone(),
            pauses: Pauses::of(self.settings),
            node_state: self.resources.node_state.clone(),
            epoch: None,
            refused: None,
        };
        Box::pin(async move {
            leasing.run().await;
            Ok(())
        })
    }

    /// Delivers finished groups, and keeps what the learner answers in `ledger`.
    pub(super) fn delivery(&self, ledger: Ledger) -> Service {
        let delivery = Delivery {
            host: self.network.host.clone(),
            learner: self.ready.learner,
            outbox: self.resources.outbox.clone(),
            node_state: self.resources.node_state.clone(),
            ledger: Mutex::new(ledger),
            complaints: sender::complaints(),
        };
        Box::pin(async move { match delivery.run().await? {} })
    }

    /// Tells the owner what the node is doing.
    pub(super) fn status(&self, screen: &Screen) -> Service {
        let reporter = StatusReporter {
            node_state: self.resources.node_state.clone(),
            host: self.network.host.clone(),
            path: self.ready.data.status(),
            every: self.settings.status_every(),
            screen: screen.clone(),
        };
        Box::pin(async move {
            reporter.run().await;
            Ok(())
        })
    }

    /// Takes up the snapshot that an earlier start has installed, where the run still knows it.
    pub(super) async fn kept_snapshot(&self) -> Result<(), NodeError> {
        if let Some(kept) = Manifests::kept(&self.ready.data.installed())
            && let Err(error) = self.network.manifests.offer(kept).await?
        {
            tracing::info!(%error, "the snapshot of last time is of no use now");
        }
        Ok(())
    }

    /// Finds the learner and talks to it, until the run ends.
    pub(super) fn session(
        &self,
        linked: watch::Sender<bool>,
        newest: watch::Sender<Option<Newest>>,
    ) -> JoinHandle<Result<Ending, NodeError>> {
        let host = self.network.host.clone();
        let (bootstraps, known) = (&self.ready.bootstraps, self.ready.data.known_peers());
        let session = Session {
            discovery: Discovery::new(host.clone(), self.ready.learner, bootstraps, known),
            host,
            learner: self.network.learner.clone(),
            run: self.resources.workload.run,
            snapshots: self.network.snapshots.clone(),
            neighbours: self.network.neighbours.clone(),
            node_state: self.resources.node_state.clone(),
            installed: self.readers.installed.clone(),
            relays: self.settings.relays(),
            max_upload: self.settings.max_upload,
            offer: self.settings.offer(),
            linked,
            newest,
            clock_ahead_ms: None,
            learner_gone: self.network.learner_gone.clone(),
        };
        tokio::spawn(async move { Ok(session.run().await?) })
    }
}
