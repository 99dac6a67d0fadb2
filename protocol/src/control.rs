//! Control: small questions that a node asks the learner, over `/echo/control/1`.

use crate::charter::Charter;
use crate::codec::{self, CodecError};
use crate::heartbeat::Heartbeat;
use crate::identity::PublicKey;
use crate::lease::Lease;
use crate::manifest::Manifest;
use crate::signed::Signed;
use crate::version::PolicyVersion;
use serde::{Deserialize, Serialize};

/// Longest encoded request, in bytes.
pub const MAX_REQUEST_BYTES: usize = 16 << 10;
/// Longest encoded response, in bytes: a manifest of the largest snapshot.
pub const MAX_RESPONSE_BYTES: usize = crate::manifest::MAX_MANIFEST_BYTES + 1024;
/// Most leases in one response.
pub const MAX_LEASES: usize = 64;

/// What a node asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// The run's signed charter.
    Charter,
    /// I am here; what is new?
    Heartbeat(Heartbeat),
    /// The manifest of this version, or of the newest.
    Manifest(Option<PolicyVersion>),
    /// Work for this many orders, please.
    Lease {
        /// Orders wanted.
        orders: u32,
    },
    /// A parent to receive snapshots from.
    Parent {
        /// The parent that is gone or serves rotten bytes, if any.
        lost: Option<PublicKey>,
    },
}

/// What the learner answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// The charter.
    Charter(Signed<Charter>),
    /// The answer to a heartbeat.
    News {
        /// The newest published version.
        newest: Option<PolicyVersion>,
        /// Where to receive snapshots from.
        parent: Option<Peer>,
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
    /// Whom to receive snapshots from; `None`: nobody has a free place now, ask again.
    Parent(Option<Peer>),
    /// The request could not be served.
    Refused(String),
}

/// A peer and where it listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its key.
    pub key: PublicKey,
    /// Multiaddresses.
    pub addresses: Vec<String>,
}

impl Request {
    /// The encoded request.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        codec::encode(self, MAX_REQUEST_BYTES)
    }

    /// Decodes a request.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        codec::decode(bytes, MAX_REQUEST_BYTES)
    }
}

impl Response {
    /// The encoded response.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        codec::encode(self, MAX_RESPONSE_BYTES)
    }

    /// Decodes a response.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        codec::decode(bytes, MAX_RESPONSE_BYTES)
    }
}
