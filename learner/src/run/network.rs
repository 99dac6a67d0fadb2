//! The learner's end of the network: where it listens, what it serves, and whom it asks to be found.

use crate::config::RunConfig;
use crate::founding::Founded;
use crate::storage::run_dir::RunDir;
use anyhow::Context;
use echo_protocol::net::snapshots::{SnapshotEvent, SnapshotRole, Snapshots, SnapshotsConfig};
use echo_protocol::net::{
    ConnectionLimits, DhtMode, Host, HostConfig, HostEvents, Multiaddr, protocol_names,
};
use echo_protocol::program::clock;
use echo_protocol::program::keyfile;
use echo_protocol::run::peer_list;
use echo_protocol::run::peer_list::{PeerList, Trust};
use echo_protocol::store::ChunkStore;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What a run file without a peer list comes to.
pub const NO_LIST: &str = "[network] peers is not set: only nodes that know this learner's address will find it. docs/guides/keeper.md says how \
                           a list is made";

/// The host and the source of snapshots, started, with what they report.
pub(crate) struct Network {
    /// Listens where the run file says.
    pub(crate) host: Host,
    /// What the host reports, for the service.
    pub(crate) events: HostEvents,
    /// Chunks of published snapshots, in the run directory.
    pub(crate) chunks: Arc<ChunkStore>,
    /// The learner's end of all broadcasts, over the same chunks.
    pub(crate) snapshots: Snapshots,
    /// What broadcasts report, for the service.
    pub(crate) snapshot_events: mpsc::Receiver<SnapshotEvent>,
}

/// Starts the host, opens the chunk store, and starts the source of snapshots, in this order.
/// Fails when an address cannot be listened on, or the chunk store cannot be opened.
pub(crate) async fn start(founded: &Founded) -> anyhow::Result<Network> {
    let (host, events) = host(founded).await?;
    let chunks = Arc::new(ChunkStore::open(&founded.dir.chunks())?);
    let (snapshots, snapshot_events) =
        Snapshots::start(host.clone(), chunks.clone(), snapshots_config(founded))?;
    Ok(Network { host, events, chunks, snapshots, snapshot_events })
}

/// Listens where the run file says.
async fn host(founded: &Founded) -> anyhow::Result<(Host, HostEvents)> {
    let network = &founded.config.network;
    let config = HostConfig {
        secret: founded.key.secret(),
        listen: multiaddresses(&network.listen)?,
        mode: DhtMode::Server,
        agent: concat!("echo-learner/", env!("CARGO_PKG_VERSION")).to_owned(),
        topics: vec![protocol_names::manifest_topic(&founded.workload.run.to_string())],
        limits: ConnectionLimits::hub(),
        external: multiaddresses(&network.external)?,
        max_upload: network.max_upload.map(|rate| rate.0),
        max_download: network.max_download.map(|rate| rate.0),
    };
    let (host, events) = Host::start(config).await?;
    for address in host.listen_addrs() {
        tracing::info!("listening on {address}/p2p/{}", host.peer_id());
    }
    Ok((host, events))
}

/// The learner's end of all broadcasts.
fn snapshots_config(founded: &Founded) -> SnapshotsConfig {
    let config = &founded.config;
    SnapshotsConfig {
        keep_versions: config.snapshot.keep_versions,
        ..SnapshotsConfig::new(founded.key.public(), SnapshotRole::Source, config.network.dissemination)
    }
}

/// Bootstrap peers of the signed list; says so where the run file names none.
pub(crate) fn bootstraps(config: &RunConfig) -> anyhow::Result<Vec<Multiaddr>> {
    if config.network.peers.is_none() {
        tracing::warn!("{NO_LIST}");
    }
    listed_peers(config)
}

/// Bootstrap peers of the signed list, if the run file names one. Warns where the list has no
/// run of this learner.
///
/// # Errors
/// When the list cannot be read, is not signed as it has to be, or has expired.
pub fn listed_peers(config: &RunConfig) -> anyhow::Result<Vec<Multiaddr>> {
    if let Some(warning) = unlisted(config)? {
        tracing::warn!("{warning}");
    }
    peers_of_list(config)
}

/// Bootstrap peers of the signed list, if the run file names one.
///
/// # Errors
/// As for [`listed_peers`].
pub fn peers_of_list(config: &RunConfig) -> anyhow::Result<Vec<Multiaddr>> {
    peer_list(config)?.map_or_else(|| Ok(Vec::new()), |(_, list)| multiaddresses(&list.peers))
}

/// What to do where the signed list has no run of this learner.
///
/// # Errors
/// As for [`listed_peers`].
pub fn unlisted(config: &RunConfig) -> anyhow::Result<Option<String>> {
    let Some((path, list)) = peer_list(config)? else { return Ok(None) };
    let (file, version) = (path.display(), list.version);
    Ok(match keyfile::load(&RunDir::new(&config.run.dir).identity())? {
        Some(key) if list.lists(&key.public()) => None,
        Some(key) => Some(format!(
            "[network] peers: {file} (version {version}) has no run of this learner, {}: who joins by it does not come here. Add the key to the \
             list's [[runs]], raise its version and sign it again",
            key.public()
        )),
        // Founding makes the key, which no list can name before.
        None => Some(format!(
            "[network] peers: {file} (version {version}) has no run of this learner, which has no key yet: `echo-learner identity {}` makes \
             it. Add it to the list's [[runs]], raise its version and sign it again",
            config.run.dir.display()
        )),
    })
}

/// The signed list and its path, if the run file names one.
pub(crate) fn peer_list(config: &RunConfig) -> anyhow::Result<Option<(&Path, PeerList)>> {
    let Some(path) = config.network.peers.as_deref() else { return Ok(None) };
    let text = peer_list::read_file(path).with_context(|| format!("peer list {}", path.display()))?;
    let mut trust = Trust { keeper: config.network.list_key.clone(), ..Trust::default() };
    let list = peer_list::open(&text, clock::wall(), &mut trust);
    Ok(Some((path, list.with_context(|| path.display().to_string())?)))
}

fn multiaddresses(texts: &[String]) -> anyhow::Result<Vec<Multiaddr>> {
    texts.iter().map(|text| text.parse().with_context(|| format!("{text:?} is no multiaddress"))).collect()
}
