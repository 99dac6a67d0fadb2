//! The one swarm builder of the house.

use std::time::Duration;

use libp2p::identity::Keypair;
use libp2p::{Swarm, SwarmBuilder, noise, tcp, yamux};

use super::behaviour::EchoBehaviour;
use super::host::{HostConfig, NetError};

/// Unread bytes that a peer may have in flight towards us on one QUIC stream: 1 Gbit/s over 64 ms.
const QUIC_STREAM_WINDOW: u32 = 8 * 1024 * 1024;
/// The same for all streams of a connection together.
const QUIC_CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// Streams that a peer may have open towards us on one connection.
const MAX_STREAMS_PER_CONNECTION: u32 = 512;
/// A QUIC connection that is silent for this long is dead, in milliseconds.
const QUIC_SILENCE_MS: u32 = 15_000;
/// Between two packets that show we are alive; a third of [`QUIC_SILENCE_MS`], so that two may be lost.
const QUIC_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Inbound streams of a connection that have not yet agreed on a protocol. What goes beyond is dropped.
const MAX_NEGOTIATING_STREAMS: usize = 256;

/// A connection on which nothing happened for this long is closed. Peers that work together talk every few seconds;
/// the others are acquaintances of the DHT.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A dial that takes longer has failed.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The libp2p key pair of a raw Ed25519 secret.
pub(super) fn keypair(secret: [u8; 32]) -> Keypair {
    Keypair::ed25519_from_bytes(secret).expect("every 32 bytes are an Ed25519 secret")
}

/// Builds a swarm that speaks QUIC, and TCP with Noise and yamux.
///
/// Dials follow "happy eyeballs" (RFC 8305): QUIC gets a head start, TCP follows where QUIC does not answer.
/// yamux tunes its own windows.
pub(super) fn build_swarm(config: &HostConfig) -> Result<Swarm<EchoBehaviour>, NetError> {
    let key = keypair(config.secret);
    let behaviour = EchoBehaviour::new(&key, config)?;
    let builder = SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux_config)
        .map_err(|error| NetError::Build { what: "Noise encryption", cause: error.to_string() })?
        .with_quic_config(|mut quic| {
            quic.max_stream_data = QUIC_STREAM_WINDOW;
            quic.max_connection_data = QUIC_CONNECTION_WINDOW;
            quic.max_concurrent_stream_limit = MAX_STREAMS_PER_CONNECTION;
            quic.max_idle_timeout = QUIC_SILENCE_MS;
            quic.keep_alive_interval = QUIC_KEEP_ALIVE;
            quic
        })
        .with_dns()
        .map_err(|error| NetError::Build { what: "the system's DNS resolver", cause: error.to_string() })?
        .with_behaviour(|_| behaviour)
        .unwrap_or_else(|never| match never {});
    Ok(builder
        .with_swarm_config(|swarm| {
            swarm
                .with_smart_dial()
                .with_idle_connection_timeout(IDLE_TIMEOUT)
                .with_max_negotiating_inbound_streams(MAX_NEGOTIATING_STREAMS)
        })
        .with_connection_timeout(DIAL_TIMEOUT)
        .build())
}

fn yamux_config() -> yamux::Config {
    let mut yamux = yamux::Config::default();
    yamux.set_max_num_streams(MAX_STREAMS_PER_CONNECTION as usize);
    yamux
}
