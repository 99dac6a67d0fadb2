//! The network of Echo, and the only code of the house that knows libp2p.
//!
//! A process has one [`Host`]: an identity, its listening sockets, and one task that owns the swarm. Everything else
//! of Echo talks to that task through the clonable handle and hears from it through [`HostEvents`]. This module moves
//! bytes; what they mean is said by the other modules of the crate.
//!
//! | way | for | begin at |
//! |---|---|---|
//! | request and response | control: leases, submissions, heartbeats | [`Host::request`] |
//! | gossip | announcements of snapshots, validated before they are forwarded | [`Host::publish`] |
//! | streams | chunks and trajectories, with back-pressure | [`Host::open_stream`], [`read_frame`] |
//! | the DHT | finding peers by identity and by key | [`Host::find_peer`], [`Host::providers`] |
//!
//! Transports are TCP with TLS and yamux first and QUIC second. Volunteers find out whether others can connect to them; those to whom
//! nobody can are reached through relays, which carry requests but no streams. Every queue and message has a limit: those of the
//! wire stand in [`names`] and [`frame`], those of connections in [`limits`], those of the host in [`host`].

mod address_book;
mod addresses;
mod allowance;
mod behaviour;
pub mod config;
mod control_codec;
mod delayed;
mod dht;
mod dial_back;
pub mod error;
pub mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod host;
mod identify;
mod instance;
pub mod limits;
mod moderated;
pub mod names;
mod pacing;
pub mod peer;
mod probe;
mod punch;
mod reachability;
pub mod snapshots;
pub mod streams;
mod swarm;
mod tls;
mod yamux;

pub use addresses::{dialable, outer_ip};
pub use config::{DhtMode, HostConfig};
pub use control_codec::{MAX_CONTROL_REQUEST, MAX_CONTROL_RESPONSE};
pub use error::NetError;
pub use frame::{FrameError, read_frame, read_frame_within, write_frame};
pub use host::{GossipVerdict, Host, HostEvent, HostEvents, Reply, can_listen};
pub use libp2p::multiaddr::Protocol as AddrProtocol;
pub use libp2p::{Multiaddr, PeerId, Stream};
pub use limits::ConnectionLimits;
pub use pacing::Pacing;
pub use streams::IncomingStreams;
pub use swarm::check_resolver;

/// The peer id that belongs to a raw Ed25519 secret.
#[must_use]
pub fn peer_id_of(secret: [u8; 32]) -> PeerId {
    swarm::keypair(secret).public().to_peer_id()
}
