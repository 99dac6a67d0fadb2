//! The way to the learner, for attackers: by an address of their own on loopback.

use crate::harness::liar::enter;
use anyhow::bail;
use echo_protocol::net::{AddrProtocol, Host, Multiaddr, PeerId, protocol_names};
use echo_protocol::run::charter::Charter;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Where attackers come from. Honest members are all at 127.0.0.1.
pub(super) const FROM: Ipv4Addr = Ipv4Addr::new(127, 66, 0, 1);
/// Who looks for the learner before anybody attacks.
const SCOUT: [u8; 32] = [0xb0; 32];
/// Where the scout listens: the system chooses the port.
const LISTEN: &str = "/ip4/127.0.0.1/udp/0/quic-v1";
/// The learner's addresses are known within this time.
const FOUND_WITHIN: Duration = Duration::from_secs(20);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Where the learner is, and how attackers get there.
pub(super) struct Way {
    /// Its peer id.
    pub(super) learner: PeerId,
    /// Its TCP socket.
    pub(super) socket: SocketAddr,
    /// An address that leads to the same socket, from [`FROM`].
    pub(super) address: Multiaddr,
    /// The gossip topic of its run.
    pub(super) topic: String,
    _forwarder: JoinSet<()>,
}

impl Way {
    /// Looks for the learner of the signed list at `list` as any node does.
    pub(super) async fn find(list: &Path) -> anyhow::Result<Self> {
        let (host, learner, _events) =
            enter(list, SCOUT, &[LISTEN.to_owned()], "echo-lab scout", false).await?;
        let (run, _) = Charter::open(&learner.charter().await?)?;
        let socket = socket_of(&host, learner.peer()).await?;
        host.shutdown().await;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let near = listener.local_addr()?;
        let address: Multiaddr = format!("/ip4/{}/tcp/{}", near.ip(), near.port()).parse()?;
        let mut forwarder = JoinSet::new();
        forwarder.spawn(forward(listener, socket));
        Ok(Self {
            learner: learner.peer(),
            socket,
            address: address.with(AddrProtocol::P2p(learner.peer())),
            topic: protocol_names::manifest_topic(&run.to_string()),
            _forwarder: forwarder,
        })
    }
}

/// A connection from [`FROM`].
pub(super) async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((FROM, 0)))?;
    socket.connect(to).await
}

async fn socket_of(host: &Host, peer: PeerId) -> anyhow::Result<SocketAddr> {
    let begun = Instant::now();
    loop {
        let known = host.known_addresses(peer).await;
        // Identify may not have come yet.
        let found = host.find_peer(peer).await.unwrap_or_default();
        if let Some(socket) = known.iter().chain(&found).find_map(tcp) {
            return Ok(socket);
        }
        if begun.elapsed() > FOUND_WITHIN {
            bail!("the learner has no address of TCP");
        }
        sleep(PAUSE).await;
    }
}

fn tcp(address: &Multiaddr) -> Option<SocketAddr> {
    let mut parts = address.iter();
    match (parts.next(), parts.next()) {
        (Some(AddrProtocol::Ip4(ip)), Some(AddrProtocol::Tcp(port))) => Some(SocketAddr::from((ip, port))),
        _ => None,
    }
}

/// Passes connections on, each from [`FROM`].
async fn forward(listener: TcpListener, to: SocketAddr) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((near, _)) => drop(open.spawn(pass(near, to))),
                Err(error) => {
                    tracing::debug!(%error, "no connection is taken");
                    sleep(PAUSE).await;
                }
            },
            Some(_) = open.join_next() => {}
        }
    }
}

async fn pass(mut near: TcpStream, to: SocketAddr) {
    match connect(to).await {
        Ok(mut far) => drop(copy_bidirectional(&mut near, &mut far).await),
        Err(error) => tracing::debug!(%error, "the learner takes no connection"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_read_from_an_address_of_tcp_only() {
        let socket = |text: &str| tcp(&text.parse().unwrap());
        assert_eq!(socket("/ip4/127.0.0.1/tcp/7"), Some(SocketAddr::from(([127, 0, 0, 1], 7))));
        assert_eq!(socket("/ip4/127.0.0.1/udp/7/quic-v1"), None);
        assert_eq!(socket("/dns4/localhost/tcp/7"), None);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn attackers_come_from_an_address_of_their_own() {
        let learner = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let near = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = near.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(forward(near, learner.local_addr().unwrap()));
        let _attacker = TcpStream::connect(address).await.unwrap();
        let (_, from) = learner.accept().await.unwrap();
        assert_eq!(from.ip(), FROM);
    }
}
