//! The one swarm builder of the house.

use std::time::Duration;

use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::Boxed;
use libp2p::core::transport::dummy::DummyTransport;
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::{PeerId, Swarm, SwarmBuilder, Transport, dns, quic, relay, tcp};
use std::io;

use super::behaviour::EchoBehaviour;
use super::config::{DhtMode, HostConfig};
use super::error::NetError;
use super::transport::delayed_dial::Delayed;
use super::transport::pending_handshakes::Gated;
use super::transport::rate_limit::{PacedMuxer, Pacing};
use super::transport::read_coalescing::Moderated;
use super::transport::tls::Tls;
use super::transport::yamux::Yamux;

/// Unread bytes that a peer may have in flight towards us on one QUIC stream: 1 Gbit/s over 64 ms.
const QUIC_STREAM_WINDOW: u32 = 8 * 1024 * 1024;
/// The same for all streams of a connection together.
const QUIC_CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// The same at a hub, which hears groups and questions of thousands of peers: 128 Mbit/s over 64 ms.
const HUB_STREAM_WINDOW: u32 = 1024 * 1024;
/// The same for all streams of a connection together. What is not read is memory that a stranger holds.
const HUB_CONNECTION_WINDOW: u32 = 2 * 1024 * 1024;
/// Streams over TCP that may be open between a hub and one peer: each may leave 256 KiB unread.
const HUB_STREAMS: usize = 256;
/// Streams that a peer may have open towards us on one connection.
const MAX_STREAMS_PER_CONNECTION: u16 = 512;
/// A QUIC connection that is silent for this long is dead, in milliseconds.
const QUIC_SILENCE_MS: u32 = 15_000;
/// Between two packets that show we are alive; a third of [`QUIC_SILENCE_MS`], so that two may be lost.
const QUIC_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Inbound streams of a connection that have not yet agreed on a protocol. What goes beyond is dropped.
const MAX_NEGOTIATING_STREAMS: usize = 256;

/// A connection on which nothing happened for this long is closed. Peers that work together talk
/// every few seconds; the others are acquaintances of the DHT.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// QUIC is dialled this much later than TCP: several round trips of a slow link, as TCP needs about
/// five to be ready.
const TCP_HEAD_START: Duration = Duration::from_secs(1);

/// A circuit through a relay is dialled this much later than TCP: it is for peers that
/// cannot be reached directly.
const DIRECT_HEAD_START: Duration = Duration::from_secs(2);

/// A dial that takes longer has failed.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// What the resolver says of a name where the system names no server to ask.
pub(super) const NO_RESOLVER: &str = "no connections available";

/// The libp2p key pair of a raw Ed25519 secret.
pub(super) fn keypair(secret: [u8; 32]) -> Keypair {
    Keypair::ed25519_from_bytes(secret).expect("every 32 bytes are an Ed25519 secret")
}

/// Builds a swarm that speaks TCP with TLS and yamux, and QUIC, all of it under `pacing`, and
/// circuits through relays over these.
///
/// Dials follow "happy eyeballs" (RFC 8305): all addresses of a peer are tried, TCP with a head
/// start. TCP is preferred because bulk data cost a fraction of the processor time there
/// (docs/results.md): the kernel cuts and joins segments by the dozen.
pub(super) fn build_swarm(config: &HostConfig, pacing: &Pacing) -> Result<Swarm<EchoBehaviour>, NetError> {
    let key = keypair(config.secret);
    let (circuits, circuit_parts) = circuit_transport(&key)?;
    let behaviour = EchoBehaviour::new(&key, config, circuit_parts)?;
    let is_hub = config.mode == DhtMode::Server;
    let tcp = tcp_transport(&key, pacing.clone(), is_hub)?;
    let quic = Delayed { inner: quic_transport(&key, pacing.clone(), is_hub), by: TCP_HEAD_START };
    let direct = tcp.or_transport(quic).map(|either, _| either.into_inner());
    let circuits = Delayed { inner: circuits, by: DIRECT_HEAD_START };
    let every = direct.or_transport(circuits).map(|either, _| either.into_inner());
    let gated = Gated::new(every.boxed(), config.limits.pending_incoming);
    let resolving = resolving(gated, check_resolver())?;
    let builder = SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_other_transport(|_| resolving)
        .unwrap_or_else(|never| match never {})
        .with_behaviour(|_| behaviour)
        .unwrap_or_else(|never| match never {});
    Ok(builder
        .with_swarm_config(|swarm| {
            swarm
                .with_idle_connection_timeout(IDLE_TIMEOUT)
                .with_max_negotiating_inbound_streams(MAX_NEGOTIATING_STREAMS)
        })
        .with_connection_timeout(DIAL_TIMEOUT)
        .build())
}

/// Whether the system names a DNS resolver, without which names in addresses lead nowhere.
///
/// # Errors
/// Why there is none.
pub fn check_resolver() -> io::Result<()> {
    dns::tokio::Transport::system(DummyTransport::<()>::new()).map(drop)
}

/// Resolves names in addresses. A machine without a resolver still dials IP addresses.
fn resolving<T>(transport: T, resolver: io::Result<()>) -> Result<dns::tokio::Transport<T>, NetError> {
    if let Err(cause) = resolver {
        tracing::warn!(
            "this machine has no DNS resolver ({cause}): peers are dialled at IP addresses only. Name one in /etc/resolv.conf to reach \
             those with a name"
        );
        let nobody = dns::ResolverConfig::from_parts(None, Vec::new(), Vec::new());
        return Ok(dns::tokio::Transport::custom(transport, nobody, dns::ResolverOpts::default()));
    }
    let system = dns::tokio::Transport::system(transport);
    system.map_err(|error| NetError::Build { what: "the system's DNS resolver", cause: error.to_string() })
}

/// Circuits, which ride on connections that are paced already.
fn circuit_transport(
    key: &Keypair,
) -> Result<(Boxed<(PeerId, StreamMuxerBox)>, relay::client::Behaviour), NetError> {
    let (transport, behaviour) = relay::client::new(key.public().to_peer_id());
    let transport = transport
        .upgrade(Version::V1Lazy)
        .authenticate(Tls::new(key)?)
        .multiplex(Yamux::new(MAX_STREAMS_PER_CONNECTION.into()))
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)))
        .boxed();
    Ok((transport, behaviour))
}

fn tcp_transport(
    key: &Keypair,
    pacing: Pacing,
    is_hub: bool,
) -> Result<Boxed<(PeerId, StreamMuxerBox)>, NetError> {
    let yamux = match is_hub {
        true => Yamux::hub(HUB_STREAMS, HUB_CONNECTION_WINDOW as usize),
        false => Yamux::new(MAX_STREAMS_PER_CONNECTION.into()),
    };
    Ok(tcp::tokio::Transport::new(tcp::Config::default().nodelay(true))
        .map(|socket, _| Moderated::new(socket))
        .upgrade(Version::V1Lazy)
        .authenticate(Tls::new(key)?)
        .multiplex(yamux)
        .map(move |(peer, muxer), _| {
            (peer, StreamMuxerBox::new(PacedMuxer::tcp(peer, muxer, pacing.clone())))
        })
        .boxed())
}

fn quic_transport(key: &Keypair, pacing: Pacing, is_hub: bool) -> Boxed<(PeerId, StreamMuxerBox)> {
    let mut config = quic::Config::new(key);
    (config.max_stream_data, config.max_connection_data) = match is_hub {
        true => (HUB_STREAM_WINDOW, HUB_CONNECTION_WINDOW),
        false => (QUIC_STREAM_WINDOW, QUIC_CONNECTION_WINDOW),
    };
    config.max_concurrent_stream_limit = MAX_STREAMS_PER_CONNECTION.into();
    config.max_idle_timeout = QUIC_SILENCE_MS;
    config.keep_alive_interval = QUIC_KEEP_ALIVE;
    quic::tokio::Transport::new(config)
        .map(move |(peer, muxer), _| {
            (peer, StreamMuxerBox::new(PacedMuxer::quic(peer, muxer, pacing.clone())))
        })
        .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;
    use libp2p::core::Endpoint;
    use libp2p::core::transport::{DialOpts, ListenerId, PortUse, TransportEvent};

    use crate::net::limits::HUB_INCOMING;
    use crate::net::transport::yamux::unread;

    /// docs/concepts/security.md promises these.
    #[test]
    fn what_strangers_leave_unread_at_a_hub_is_bounded() {
        const { assert!(HUB_CONNECTION_WINDOW as u64 * HUB_INCOMING as u64 <= 24 << 30) };
        const { assert!(HUB_STREAM_WINDOW <= HUB_CONNECTION_WINDOW) };
        assert_eq!(unread(HUB_STREAMS, HUB_CONNECTION_WINDOW as usize), 66 << 20);
        // The library refuses windows that are smaller than those that its streams begin with.
        let _hub = Yamux::hub(HUB_STREAMS, HUB_CONNECTION_WINDOW as usize);
    }

    #[tokio::test]
    async fn without_a_resolver_ip_addresses_are_dialled_and_names_give_an_error() {
        let mut transport =
            resolving(tcp::tokio::Transport::default(), Err(io::ErrorKind::NotFound.into())).unwrap().boxed();
        transport.listen_on(ListenerId::next(), "/ip4/127.0.0.1/tcp/0".parse().unwrap()).unwrap();
        let Some(TransportEvent::NewAddress { listen_addr, .. }) = transport.next().await else { panic!() };
        let how = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
        transport.dial(listen_addr, how).unwrap().await.unwrap();
        let named = transport.dial("/dns4/boot.example.org/tcp/1".parse().unwrap(), how).unwrap().await;
        let error = named.map(drop).unwrap_err().to_string();
        assert!(error.contains(NO_RESOLVER), "{error}");
    }
}
