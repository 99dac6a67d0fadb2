//! What `echo-learner publish` says, for people and for programs.

use crate::publishing::snapshots::PublicationRow;
use crate::server::SharedState;
use echo_protocol::net::Host;
use echo_protocol::program::output;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use serde::Serialize;

/// Something that happened. Every one carries `at_ms`, milliseconds since the Unix epoch
/// on the learner's clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum RehearsalEvent {
    /// The host listens: nodes can join, at these addresses.
    Serving { at_ms: u64, run: String, key: String, peer_id: String, addresses: Vec<String> },
    /// A node is here.
    Joined { at_ms: u64, node: String, nodes: usize },
    /// A node has been silent for too long.
    Gone { at_ms: u64, node: String, nodes: usize },
    /// A version is about to be announced: T_bcast begins.
    Published {
        at_ms: u64,
        version: u64,
        bytes: u64,
        chunks: usize,
        /// What a node fetches that has the version before, and what it took to make that.
        #[serde(flatten)]
        row: PublicationRow,
    },
    /// A node tells of an installed version, `ms` after its publication.
    Installed { at_ms: u64, node: String, version: u64, ms: u64 },
    /// How far the newest version has come, once a second.
    Progress { at_ms: u64, version: Option<u64>, installed: usize, nodes: usize, sent_bytes: u64 },
    /// A peer served bytes that do not match their names, or broke the chunk protocol; so say this many.
    Rotten { at_ms: u64, peer: String, reporters: usize },
    /// Every living node has installed the newest version: T_bcast to 90 % and to all of them.
    Complete { at_ms: u64, version: u64, nodes: usize, t_bcast_90_ms: u64, t_bcast_ms: u64 },
    /// The broadcasts are over; `complete`: every living node has the last version.
    Ended { at_ms: u64, reason: &'static str, complete: bool, sent_bytes: u64 },
}

impl RehearsalEvent {
    pub(super) fn serving(shared: &SharedState, host: &Host) -> Self {
        Self::Serving {
            at_ms: echo_protocol::program::clock::now().0,
            run: shared.workload.run.to_string(),
            key: shared.key.public().to_string(),
            peer_id: host.peer_id().to_string(),
            addresses: host.listen_addrs().iter().map(ToString::to_string).collect(),
        }
    }

    pub(super) fn published(at: UnixMillis, manifest: &Manifest, row: PublicationRow) -> Self {
        Self::Published {
            at_ms: at.0,
            version: manifest.version.0,
            bytes: manifest.total_bytes,
            chunks: manifest.chunks.len(),
            row,
        }
    }

    fn line(&self) -> String {
        let short = |node: &str| node.chars().take(8).collect::<String>();
        let seconds = |ms: u64| ms as f64 / 1000.0;
        match self {
            Self::Serving { peer_id, addresses, .. } => {
                format!("serving as {peer_id} on {}", addresses.join(", "))
            }
            Self::Joined { node, nodes, .. } => format!("{} joined, {nodes} here", short(node)),
            Self::Gone { node, nodes, .. } => format!("{} is gone, {nodes} here", short(node)),
            Self::Published { version, bytes, chunks, .. } => {
                format!("published v{version}: {bytes} bytes in {chunks} chunks")
            }
            Self::Installed { node, version, ms, .. } => {
                format!("{} installed v{version} after {:.2} s", short(node), seconds(*ms))
            }
            Self::Progress { installed, nodes, sent_bytes, .. } => {
                format!("{installed} of {nodes} nodes have it, {:.1} MB sent", *sent_bytes as f64 / 1e6)
            }
            Self::Rotten { peer, reporters, .. } => {
                format!("{} serves rotten bytes, say {reporters}", short(peer))
            }
            Self::Complete { version, nodes, t_bcast_90_ms, t_bcast_ms, .. } => format!(
                "v{version} is on all {nodes} nodes: {:.2} s to 90 %, {:.2} s to all",
                seconds(*t_bcast_90_ms),
                seconds(*t_bcast_ms)
            ),
            Self::Ended { reason, .. } => format!("ended: {reason}"),
        }
    }
}

/// A node's key as events carry it.
pub(super) fn name(node: &PublicKey) -> String {
    node.to_string()
}

/// Writes events to standard output.
#[derive(Clone, Copy)]
pub(super) struct RehearsalReporter {
    json: bool,
}

impl RehearsalReporter {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(super) fn tell(&self, event: &RehearsalEvent) {
        match serde_json::to_string(event) {
            Ok(json) if self.json => output::line(&json),
            _ => output::line(&event.line()),
        }
    }
}
