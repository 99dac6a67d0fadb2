//! Binding the addresses on which a host listens.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;

use crate::net::error::NetError;

/// The system has this long to bind all addresses.
pub(super) const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A listener on all interfaces hears of their addresses within this time. The first one alone would
/// be what a host is given out as.
pub(super) const INTERFACES_WITHIN: Duration = Duration::from_millis(300);

/// Whether this is a listener on all interfaces.
pub(super) fn is_wildcard(addr: &Multiaddr) -> bool {
    match addr.iter().next() {
        Some(Protocol::Ip4(ip)) => ip.is_unspecified(),
        Some(Protocol::Ip6(ip)) => ip.is_unspecified(),
        _ => false,
    }
}

/// Binds the address for a moment, to say clearly why it cannot be bound.
///
/// libp2p sets `SO_REUSEPORT` on its TCP listeners, with which a second process would silently take
/// half of the connections of the first.
///
/// # Errors
/// [`NetError::AddressInUse`] or [`NetError::Listen`], which name the address.
pub fn can_listen(addr: &Multiaddr) -> Result<(), NetError> {
    let parts: Vec<Protocol<'_>> = addr.iter().take(4).collect();
    let bound = match parts.as_slice() {
        [host, Protocol::Tcp(port)] => socket(host, *port).map(|at| TcpListener::bind(at).map(drop)),
        [host, Protocol::Udp(port), Protocol::QuicV1] => {
            socket(host, *port).map(|at| UdpSocket::bind(at).map(drop))
        }
        _ => None,
    };
    match bound {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) if error.kind() == io::ErrorKind::AddrInUse => {
            Err(NetError::AddressInUse { addr: addr.clone() })
        }
        Some(Err(error)) => Err(NetError::Listen { addr: addr.clone(), cause: error.to_string() }),
        None => Err(NetError::Listen {
            addr: addr.clone(),
            cause: "it must be /ip4/… or /ip6/… with /udp/PORT/quic-v1 or /tcp/PORT".to_owned(),
        }),
    }
}

fn socket(host: &Protocol<'_>, port: u16) -> Option<SocketAddr> {
    let ip: IpAddr = match host {
        Protocol::Ip4(ip) => (*ip).into(),
        Protocol::Ip6(ip) => (*ip).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}
