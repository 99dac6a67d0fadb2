//! The record as a checkpoint keeps it.

use echo_protocol::wire::identity::PublicKey;
use serde::{Deserialize, Serialize};

use super::{NetworkPrefix, NetworkRecord, PeerRecord, Record, RecordConfig};

/// Most peers in a checkpoint: those that it would cost most to forget.
pub const MAX_SNAPSHOT_PEERS: usize = 4096;

/// A record at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordSnapshot {
    /// Peers, at most [`MAX_SNAPSHOT_PEERS`].
    pub peers: Vec<(PublicKey, PeerRecord)>,
    /// Networks from which somebody was suspended, or that the operator has decided about.
    pub networks: Vec<(NetworkPrefix, NetworkRecord)>,
}

impl Record {
    /// The record, for a checkpoint.
    pub fn snapshot(&self) -> RecordSnapshot {
        let peers = self.by_worth().take(MAX_SNAPSHOT_PEERS);
        RecordSnapshot {
            peers: peers.map(|(peer, record)| (*peer, record.clone())).collect(),
            networks: self.networks.iter().map(|(network, record)| (*network, record.clone())).collect(),
        }
    }

    /// The record that goes on from `snapshot` when everything written since is lost. Numbers of
    /// receipts go on in their next stretch; the operator's journal is followed from its beginning.
    pub fn after_loss(config: RecordConfig, snapshot: &RecordSnapshot) -> Self {
        let mut record = Self::new(config);
        for (peer, kept) in &snapshot.peers {
            record.changes.peers.insert(*peer);
            record.restore(*peer, kept.clone().after_loss());
        }
        for (network, kept) in &snapshot.networks {
            record.changes.networks.insert(*network);
            record.networks.insert(*network, kept.clone());
        }
        record.bound_networks();
        record
    }
}
