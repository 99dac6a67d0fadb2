//! Which addresses a host keeps, dials and believes.

use std::net::IpAddr;

use libp2p::multiaddr::{Multiaddr, Protocol};

/// Whether an address has a form that a host can dial: `/ip4|ip6|dns|dns4|dns6/…` then `/udp/PORT/quic-v1` or
/// `/tcp/PORT`, and perhaps `/p2p/PEER` at the end. The port is not 0 and the IP names one computer (it is neither
/// unspecified nor multicast nor broadcast). Loopback and private networks are fine.
#[must_use]
pub fn dialable(address: &Multiaddr) -> bool {
    let parts: Vec<Protocol<'_>> = address.iter().take(5).collect();
    let transport = match parts.last() {
        Some(Protocol::P2p(_)) => &parts[..parts.len() - 1],
        _ => &parts[..],
    };
    let (host, port) = match transport {
        [host, Protocol::Udp(port), Protocol::QuicV1] | [host, Protocol::Tcp(port)] => (host, *port),
        _ => return false,
    };
    let reachable = match host {
        Protocol::Dns(name) | Protocol::Dns4(name) | Protocol::Dns6(name) => !name.is_empty(),
        _ => ip_of(host).is_some_and(names_one_computer),
    };
    port != 0 && reachable
}

/// Whether to believe an address that a stranger tells, when the connection with that stranger runs through `via`.
///
/// On top of [`dialable`]: no names (a stranger shall not choose what we resolve), and loopback or link-local
/// addresses only from a peer that reached us over such an address, as peers on one machine do.
pub(super) fn believable(address: &Multiaddr, via: &Multiaddr) -> bool {
    let Some(told) = first_ip(address) else { return false };
    let seen = first_ip(via);
    dialable(address)
        && (!told.is_loopback() || seen.is_some_and(|seen| seen.is_loopback()))
        && (!is_link_local(told) || seen.is_some_and(is_link_local))
}

/// The address without a `/p2p/…` at its end, the form in which addresses are kept and compared.
pub(super) fn without_peer(mut address: Multiaddr) -> Multiaddr {
    if matches!(address.iter().last(), Some(Protocol::P2p(_))) {
        address.pop();
    }
    address
}

/// The IP with which an address begins.
fn first_ip(address: &Multiaddr) -> Option<IpAddr> {
    address.iter().next().as_ref().and_then(ip_of)
}

fn ip_of(part: &Protocol<'_>) -> Option<IpAddr> {
    match part {
        Protocol::Ip4(ip) => Some(IpAddr::V4(*ip)),
        Protocol::Ip6(ip) => Some(ip.to_canonical()),
        _ => None,
    }
}

fn names_one_computer(ip: IpAddr) -> bool {
    let reserved = match ip {
        IpAddr::V4(ip) => ip.is_broadcast() || ip.octets()[0] == 0,
        IpAddr::V6(_) => false,
    };
    !ip.is_unspecified() && !ip.is_multicast() && !reserved
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    #[test]
    fn sensible_addresses_pass() {
        for good in [
            "/ip4/127.0.0.1/tcp/4001",
            "/ip4/192.168.1.4/udp/4001/quic-v1",
            "/ip6/2001:db8::1/udp/4001/quic-v1",
            "/dns4/boot.example.org/tcp/4001",
            "/ip4/1.2.3.4/tcp/1/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN",
        ] {
            assert!(dialable(&addr(good)), "{good}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            "/ip4/127.0.0.1/tcp/0",
            "/ip4/0.0.0.0/tcp/1",
            "/ip4/0.1.2.3/tcp/1",
            "/ip6/::/tcp/1",
            "/ip4/255.255.255.255/tcp/1",
            "/ip4/224.0.0.1/udp/1/quic-v1",
            "/ip6/ff02::1/udp/1/quic-v1",
            "/ip4/1.2.3.4/udp/1",
            "/ip4/1.2.3.4",
            "/tcp/1",
            "/ip4/1.2.3.4/tcp/1/ws",
            "/ip4/1.2.3.4/tcp/1/tcp/1/tcp/1/tcp/1",
            "/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN",
            "/memory/7",
        ] {
            assert!(!dialable(&addr(bad)), "{bad}");
        }
        assert!(!dialable(&Multiaddr::empty()));
    }

    #[test]
    fn a_stranger_from_afar_cannot_point_at_our_own_machine_or_have_names_resolved() {
        let (near, far) = (addr("/ip4/127.0.0.1/tcp/9"), addr("/ip4/5.6.7.8/udp/9/quic-v1"));
        assert!(believable(&addr("/ip4/127.0.0.1/tcp/1"), &near));
        assert!(!believable(&addr("/ip4/127.0.0.1/tcp/1"), &far));
        assert!(!believable(&addr("/ip6/::ffff:127.0.0.1/tcp/1"), &far));
        assert!(!believable(&addr("/ip4/169.254.1.1/tcp/1"), &far));
        assert!(believable(&addr("/ip4/10.0.0.1/tcp/1"), &far));
        assert!(!believable(&addr("/dns4/example.org/tcp/1"), &near));
    }
}
