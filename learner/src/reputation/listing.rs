//! What the learner tells its operator about peers: `peers.json`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use echo_protocol::net::peer_id::peer_of_key;
use echo_protocol::program::atomic_file;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use serde::{Deserialize, Serialize};

use crate::reputation::decisions::JournalEntry;
use crate::reputation::{NetworkPrefix, NetworkRecord, PeerRecord, Record};

/// Most peers in the list: those that would be forgotten last.
pub const MAX_LISTED: usize = 4096;
/// Longest list, in bytes.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// All that is known, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// When it was written.
    pub at: UnixMillis,
    /// Peers, at most [`MAX_LISTED`].
    pub peers: Vec<ListedPeer>,
    /// Peers that are remembered and not listed.
    pub further: usize,
    /// Networks from which somebody was suspended, and those about which the operator has decided.
    pub networks: Vec<ListedNetwork>,
    /// Bytes of the operator's journal that the learner had followed.
    #[serde(default)]
    pub decided: u64,
    /// What the operator has decided since: nothing in the file, filled in by who reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noted: Vec<JournalEntry>,
}

/// A peer as `peers list` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedPeer {
    /// Its public key, by which the operator names it.
    pub key: PublicKey,
    /// The same as the network names it.
    pub peer_id: Option<String>,
    /// The share of its groups that is looked at again.
    pub recheck_share: f64,
    /// Why it is not heard, if so.
    pub silence: Option<String>,
    /// What it delivered and lied about, as the record has it.
    pub record: PeerRecord,
}

/// A network as `peers list` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedNetwork {
    /// An IPv4 /24 or an IPv6 /48.
    pub network: NetworkPrefix,
    /// Suspensions and bans of the network itself.
    pub record: NetworkRecord,
}

impl Listing {
    /// What `record` knows at `now`.
    pub fn of(now: UnixMillis, record: &Record) -> Self {
        let peers = record.by_worth().take(MAX_LISTED).map(|(key, kept)| ListedPeer {
            key: *key,
            peer_id: peer_of_key(key).map(|peer| peer.to_string()),
            recheck_share: record.recheck_share(now, key),
            silence: record.hear(now, key).err().map(|silence| silence.to_string()),
            record: kept.clone(),
        });
        let peers: Vec<ListedPeer> = peers.collect();
        let networks = record.networks().iter();
        Self {
            at: now,
            further: record.peers().len() - peers.len(),
            peers,
            networks: networks
                .map(|(network, kept)| ListedNetwork { network: *network, record: kept.clone() })
                .collect(),
            decided: record.decided(),
            noted: Vec::new(),
        }
    }

    /// Reads a list; an empty one where none was written yet.
    ///
    /// # Errors
    /// When it cannot be read, or is no listing.
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(MAX_LIST_BYTES).read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Replaces the list. It is not flushed: the learner writes it again.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        atomic_file::replace(path, &serde_json::to_vec(self)?, false)
    }
}
