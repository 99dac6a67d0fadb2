//! What a host is started with.

use std::fmt;

use libp2p::Multiaddr;

use super::limits::ConnectionLimits;

/// How a host takes part in the DHT, and in being reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DhtMode {
    /// Answers queries and is listed: for hosts that others can reach, which is for their operators
    /// to see to. It tells others whether they can be reached, and relays for those that cannot.
    Server,
    /// Finds out whether others can connect to it. While that is not refuted it answers queries and
    /// is listed; afterwards it only asks, and takes a place at a relay. For volunteers. One that may send
    /// less than [`DHT_UPLOAD`] only asks.
    Auto,
    /// Only asks: for hosts behind NAT, which would fill routing tables with addresses that nobody can dial.
    Client,
}

/// The least cap on what is sent, in bytes a second, with which a volunteer answers the DHT: 2 Mbit/s. An
/// answer names 20 peers in some 4 kB. Where 10,000 nodes refresh their tables every two minutes, each is
/// asked less than once a second, which is a hundredth of this cap and a tenth of 30 kB/s. And whoever is
/// listed is asked by every newcomer nearby.
pub const DHT_UPLOAD: u64 = 250_000;

/// What a host is started with.
#[derive(Clone)]
pub struct HostConfig {
    /// The Ed25519 secret that is this host's identity.
    pub secret: [u8; 32],
    /// Addresses to listen on. Port 0 lets the system choose. Empty for a host that only dials.
    pub listen: Vec<Multiaddr>,
    /// How the host takes part in the DHT.
    pub mode: DhtMode,
    /// Program and version, shown to peers.
    pub agent: String,
    /// Gossip topics to take part in, at most [`MAX_TOPICS`](super::limits::MAX_TOPICS). No
    /// others are let in.
    pub topics: Vec<String>,
    /// How many connections to keep.
    pub limits: ConnectionLimits,
    /// Addresses at which others reach us, where they differ from those listened on (a forwarded port).
    pub external: Vec<Multiaddr>,
    /// The most that all connections together send, in bytes per second on the wire; `None` is no
    /// cap. Can be changed later through [`Host::pacing`](super::Host::pacing).
    pub max_upload: Option<u64>,
    /// The same for what they receive.
    pub max_download: Option<u64>,
}

impl HostConfig {
    /// Whether it answers the DHT, as long as others can reach it.
    #[must_use]
    pub fn answers_dht(&self) -> bool {
        match self.mode {
            DhtMode::Server => true,
            DhtMode::Auto => self.max_upload.is_none_or(|cap| cap >= DHT_UPLOAD),
            DhtMode::Client => false,
        }
    }

    /// A host that only dials and asks, takes part in no gossip, keeps the connections of a
    /// volunteer, and has no caps. Others say in what they differ.
    #[must_use]
    pub fn client(secret: [u8; 32], agent: impl Into<String>) -> Self {
        Self {
            secret,
            listen: Vec::new(),
            mode: DhtMode::Client,
            agent: agent.into(),
            topics: Vec::new(),
            limits: ConnectionLimits::volunteer(),
            external: Vec::new(),
            max_upload: None,
            max_download: None,
        }
    }
}

impl fmt::Debug for HostConfig {
    /// Everything but the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostConfig")
            .field("listen", &self.listen)
            .field("mode", &self.mode)
            .field("agent", &self.agent)
            .field("topics", &self.topics)
            .field("limits", &self.limits)
            .field("external", &self.external)
            .field("max_upload", &self.max_upload)
            .field("max_download", &self.max_download)
            .finish_non_exhaustive()
    }
}
