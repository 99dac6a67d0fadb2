//! Control: small questions that a node asks the learner, over `/echo/control/5`.

use crate::control::heartbeat::Heartbeat;
use crate::dissemination::{DisseminationMode, NeighbourRole};
use crate::run::charter::Charter;
use crate::run::epoch::Epoch;
use crate::run::version::PolicyVersion;
use crate::snapshot::manifest::Manifest;
use crate::wire::codec;
use crate::wire::codec::CodecError;
use crate::wire::identity::PublicKey;
use crate::wire::signed::Signed;
use crate::wire::time::UnixMillis;
use crate::work::lease::{HeldOrder, Lease, Returned};
use serde::{Deserialize, Serialize};

pub use crate::dissemination::MAX_NEIGHBOURS;

/// Longest encoded request, in bytes.
pub const MAX_REQUEST_BYTES: usize = 16 << 10;
/// Longest encoded response, in bytes: a manifest of the largest snapshot.
pub const MAX_RESPONSE_BYTES: usize = crate::snapshot::manifest::MAX_MANIFEST_BYTES + 1024;
/// Most addresses of a neighbour.
pub const MAX_PEER_ADDRESSES: usize = 4;
/// Most leases in one response.
pub const MAX_LEASES: usize = 64;

/// What a node asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ControlRequest {
    /// The run's signed charter.
    Charter,
    /// I am here; what is new?
    Heartbeat(Heartbeat),
    /// The manifest of this version, or of the newest.
    Manifest(Option<PolicyVersion>),
    /// Work for this many orders, please.
    Lease {
        /// How many orders the node can take; the learner may grant fewer.
        orders: u32,
        /// The last that reached the node since it started. Those after it were leased in an
        /// answer that got lost: they come again.
        last: Option<HeldOrder>,
    },
    /// These orders I will not do: lease them to somebody else.
    Return(Returned),
    /// Whom to receive snapshots from, now.
    Neighbours {
        /// Neighbours that are gone, at most [`MAX_NEIGHBOURS`].
        lost: Vec<PublicKey>,
    },
}

/// What the learner answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ControlResponse {
    /// The charter as the learner signed it.
    Charter(Signed<Charter>),
    /// The answer to a heartbeat.
    News {
        /// The learner's epoch: what nodes saw of another one counts no more.
        epoch: Epoch,
        /// The learner's wall clock. Nothing goes by it; a node whose own is far off says so to its owner.
        wall: UnixMillis,
        /// The newest version published in this epoch.
        newest: Option<PolicyVersion>,
        /// Where to receive snapshots from; `None` when the node has this neighbourhood already.
        neighbourhood: Option<Neighbourhood>,
        /// Whether the run has ended; nodes stop generating.
        ended: bool,
    },
    /// The manifest asked for; `None` when nothing is published yet or it is no longer kept.
    Manifest(Option<Signed<Manifest>>),
    /// Leases, possibly fewer than wanted.
    Leases {
        /// What may be worked on.
        leases: Vec<Signed<Lease>>,
        /// When to ask again, in milliseconds, if this is not enough.
        retry_after_ms: u32,
    },
    /// The orders are taken back, as far as the node held them.
    Returned,
    /// Whom to receive snapshots from; `None` for a stranger: a heartbeat makes it a member.
    Neighbours(Option<Neighbourhood>),
    /// The request could not be served.
    Refused(String),
}

/// A peer and where it listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// The ed25519 key, which also gives its peer id.
    pub key: PublicKey,
    /// Multiaddresses, at most [`MAX_PEER_ADDRESSES`] of them.
    pub addresses: Vec<String>,
}

/// A peer that the node is to pull snapshots from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its key, and where it can be dialled.
    pub peer: Peer,
    /// What it is to the node.
    pub role: NeighbourRole,
}

/// Those from whom a node receives snapshots, and those it has to connect to because they
/// cannot connect to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbourhood {
    /// How blocks are gathered.
    pub mode: DisseminationMode,
    /// Whom to pull from; at most [`MAX_NEIGHBOURS`].
    pub neighbours: Vec<Neighbour>,
    /// Peers that will pull from the node, and that it has to dial because it lies behind a
    /// NAT; at most [`MAX_NEIGHBOURS`].
    pub dial: Vec<Peer>,
    /// Who pulls from the node besides those that it pulls from itself: they have places before
    /// strangers. At most [`MAX_NEIGHBOURS`].
    pub consumers: Vec<PublicKey>,
}

impl Neighbourhood {
    /// Names this neighbourhood in heartbeats, so that it is sent only when it has changed. Never
    /// 0, which is to have none.
    pub fn digest(&self) -> u64 {
        let bytes = codec::encode(self, MAX_RESPONSE_BYTES).unwrap_or_default();
        let hash = *blake3::hash(&bytes).as_bytes();
        let (first, _) = hash.split_first_chunk().unwrap_or((&[0; 8], &[]));
        u64::from_le_bytes(*first).max(1)
    }

    /// The parent, if there is one.
    pub fn parent(&self) -> Option<&Peer> {
        self.neighbours.iter().find(|n| n.role == NeighbourRole::Parent).map(|n| &n.peer)
    }

    /// Cuts what is longer than a limit: what a peer sent is not what an honest learner would.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.neighbours.truncate(MAX_NEIGHBOURS);
        self.dial.truncate(MAX_NEIGHBOURS);
        self.consumers.truncate(MAX_NEIGHBOURS);
        let peers = self.neighbours.iter_mut().map(|n| &mut n.peer).chain(&mut self.dial);
        peers.for_each(|peer| peer.addresses.truncate(MAX_PEER_ADDRESSES));
        self
    }
}

impl ControlRequest {
    /// Encodes the request as CBOR, at most [`MAX_REQUEST_BYTES`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        codec::encode(self, MAX_REQUEST_BYTES)
    }

    /// Decodes a request of at most [`MAX_REQUEST_BYTES`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        codec::decode(bytes, MAX_REQUEST_BYTES)
    }
}

impl ControlResponse {
    /// Encodes the response as CBOR, at most [`MAX_RESPONSE_BYTES`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        codec::encode(self, MAX_RESPONSE_BYTES)
    }

    /// Decodes a response of at most [`MAX_RESPONSE_BYTES`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        codec::decode(bytes, MAX_RESPONSE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::identity::NodeKey;

    fn peer(seed: u8) -> Peer {
        let addresses = vec!["/ip4/10.0.0.1/udp/4001/quic-v1".to_owned(); 6];
        Peer { key: NodeKey::from_secret([seed; 32]).public(), addresses }
    }

    #[test]
    fn a_neighbourhood_is_named_by_all_that_it_says() {
        let neighbours = vec![Neighbour { peer: peer(1), role: NeighbourRole::Parent }];
        let one = Neighbourhood {
            mode: DisseminationMode::Echo,
            neighbours,
            dial: Vec::new(),
            consumers: Vec::new(),
        };
        let mut other = one.clone();
        assert_eq!(one.digest(), other.digest());
        other.neighbours[0].role = NeighbourRole::Mesh;
        assert_ne!(one.digest(), other.digest());
        assert_eq!((one.parent(), other.parent()), (Some(&peer(1)), None));
        let news = ControlResponse::News {
            epoch: Epoch(3),
            wall: UnixMillis(4),
            newest: None,
            neighbourhood: Some(one),
            ended: false,
        };
        assert_eq!(ControlResponse::from_bytes(&news.to_bytes().unwrap()).unwrap(), news);
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let neighbours = vec![Neighbour { peer: peer(1), role: NeighbourRole::Mesh }; 40];
        let long = Neighbourhood {
            mode: DisseminationMode::Echo,
            neighbours,
            dial: vec![peer(2); 40],
            consumers: vec![peer(2).key; 40],
        }
        .bounded();
        assert_eq!((long.neighbours.len(), long.dial.len()), (MAX_NEIGHBOURS, MAX_NEIGHBOURS));
        assert_eq!(long.dial[0].addresses.len(), MAX_PEER_ADDRESSES);
    }
}
