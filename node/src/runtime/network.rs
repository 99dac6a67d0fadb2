//! This node's end of the network for one run.

use std::sync::Arc;
use std::time::Duration;

use echo_protocol::dissemination::DisseminationMode;
use echo_protocol::net::snapshots::{SnapshotEvent, SnapshotRole, Snapshots, SnapshotsConfig};
use echo_protocol::net::{DhtMode, Host, HostConfig, HostEvents, NetError, protocol_names};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::AGENT;
use super::error::NodeError;
use super::resources::Resources;
use crate::learner_link::client::LearnerClient;
use crate::learner_link::neighbours::CurrentNeighbours;
use crate::preflight::Ready;
use crate::settings::Settings;
use crate::snapshots::manifests::Manifests;

/// A stopped host's addresses are free again within this time.
const RELEASED_WITHIN: Duration = Duration::from_secs(5);
/// The pause between two attempts to listen on them.
const RELEASE_POLL: Duration = Duration::from_millis(100);

/// The host, the snapshot service on it, and what asks the learner over it.
pub(super) struct Network {
    pub(super) host: Host,
    pub(super) snapshots: Snapshots,
    pub(super) neighbours: CurrentNeighbours,
    pub(super) manifests: Arc<Manifests>,
    pub(super) learner: LearnerClient,
    /// Notified when the learner's connection ends.
    pub(super) learner_gone: Arc<Notify>,
}

/// What comes in over the network without being asked for.
pub(super) struct Events {
    /// Gossip, requests and connections.
    pub(super) host: HostEvents,
    /// Snapshots on their way here.
    pub(super) snapshots: mpsc::Receiver<SnapshotEvent>,
}

impl Network {
    /// Listens, and begins to serve snapshots. Nobody is dialled yet.
    pub(super) async fn start(
        ready: &Ready,
        settings: &Settings,
        resources: &Resources,
    ) -> Result<(Self, Events), NodeError> {
        let Resources { node_state, workload, store, key, .. } = resources;
        let (host, host_events) = start_host(HostConfig {
            listen: ready.listen.clone(),
            mode: DhtMode::Auto,
            topics: vec![protocol_names::manifest_topic(&workload.run.to_string())],
            max_upload: settings.max_upload.map(|rate| rate.0),
            max_download: settings.max_download.map(|rate| rate.0),
            ..HostConfig::client(key.secret(), AGENT)
        })
        .await?;
        // Before anybody knows us: an uplink is for the run first.
        host.keep(vec![ready.learner]).await?;
        let role = if settings.relays() { SnapshotRole::Relay } else { SnapshotRole::Leaf };
        let config = SnapshotsConfig {
            // As the learner says with the first neighbours.
            learner: Some(ready.target.learner),
            ..SnapshotsConfig::new(key.public(), role, DisseminationMode::Echo)
        };
        let (snapshots, snapshot_events) = Snapshots::start(host.clone(), store.clone(), config)?;
        let network = Self {
            neighbours: CurrentNeighbours::new(
                host.clone(),
                ready.learner,
                snapshots.clone(),
                node_state.clone(),
            ),
            manifests: Arc::new(Manifests::new(workload.clone(), snapshots.clone())),
            learner: LearnerClient::new(host.clone(), ready.learner),
            learner_gone: Arc::new(Notify::new()),
            host,
            snapshots,
        };
        Ok((network, Events { host: host_events, snapshots: snapshot_events }))
    }
}

/// Starts a host where an earlier one of this process may just have stopped: QUIC lets go of its
/// socket a moment later.
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
