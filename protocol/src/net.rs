//! The network of Echo, and the only code of the workspace that knows libp2p.
//!
//! A process has one [`Host`]: an identity, its listening sockets, and one task that owns the
//! swarm. Everything else talks to that task through the clonable handle and hears from it
//! through [`HostEvents`]. This folder moves bytes; the other folders say what they mean. It may
//! import all of them.
//!
//! | way | for | begin at |
//! |---|---|---|
//! | request and response | control: leases, submissions, heartbeats | [`Host::request`] |
//! | gossip | announcements of snapshots, validated before they are forwarded | [`Host::publish`] |
//! | streams | chunks and trajectories, with back-pressure | [`Host::open_stream`], [`read_frame`] |
//! | the DHT | finding peers by identity and by key | [`Host::find_peer`], [`Host::providers`] |
//!
//! ```text
//! snapshots ──> host ── command ──> host::driver ──> swarm ──> behaviour ──> streams, reachability
//!                ^                       │             └─────> transport ──> sockets
//!                └────── HostEvents <────┘
//! ```
//!
//! TCP with TLS and yamux is dialled first, QUIC second. A volunteer's host finds out whether others can
//! connect to it. If nobody can, it is reached through circuit relays, which carry requests but no
//! streams. Every queue and message has a limit: those of the wire are in `protocol_names` and
//! `streams::frame`, all others in `limits`.

mod addresses;
mod behaviour;
pub mod config;
pub mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod host;
pub mod limits;
pub mod peer_id;
pub mod protocol_names;
mod reachability;
pub mod snapshots;
pub mod streams;
mod swarm;
mod transport;

pub use addresses::{dialable, ip_of_address, outer_ip, relay_of, shares_ip};
pub use behaviour::control_codec::{MAX_CONTROL_REQUEST, MAX_CONTROL_RESPONSE};
pub use config::{DhtMode, HostConfig};
pub use error::NetError;
pub use host::{GossipVerdict, Host, HostEvent, HostEvents, Responder, can_listen};
pub use libp2p::multiaddr::Protocol as AddrProtocol;
pub use libp2p::{Multiaddr, PeerId, Stream};
pub use limits::ConnectionLimits;
pub use streams::IncomingStreams;
pub use streams::frame::{
    FrameError, ScreenedFrame, read_frame, read_frame_within, read_screened_frame, write_frame,
};
pub use swarm::check_resolver;
pub use transport::rate_limit::Pacing;

/// The peer id that belongs to a raw Ed25519 secret.
#[must_use]
pub fn peer_id_of(secret: [u8; 32]) -> PeerId {
    swarm::keypair(secret).public().to_peer_id()
}
