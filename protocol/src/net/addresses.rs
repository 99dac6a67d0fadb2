//! Which addresses a host keeps, dials and believes.
//!
//! Anybody can claim any address. An address is kept only if it can be dialled and is believable, given
//! the address of the one that names it. `book` keeps those that passed, a few for each source.
//!
//! ```text
//! named by a peer, the DHT or an operator ──> dialable? ──> believable? ──> book ──> dials
//! ```

pub(crate) mod book;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libp2p::PeerId;
use libp2p::multiaddr::{Multiaddr, Protocol};

/// Whether an address has a form that a host can dial: `/ip4|ip6|dns|dns4|dns6/…` then
/// `/udp/PORT/quic-v1` or `/tcp/PORT`, and perhaps `/p2p/PEER` at the end. The port is not 0 and
/// the IP names one computer (it is neither unspecified nor multicast nor broadcast). Loopback and
/// private networks are fine. The way to a peer behind a relay is the relay's address with its
/// `/p2p/RELAY`, then `/p2p-circuit`, and perhaps `/p2p/PEER`.
#[must_use]
pub fn dialable(address: &Multiaddr) -> bool {
    let parts: Vec<Protocol<'_>> = address.iter().take(MAX_PARTS + 1).collect();
    match parts.as_slice() {
        [socket @ .., Protocol::P2p(_), Protocol::P2pCircuit]
        | [socket @ .., Protocol::P2p(_), Protocol::P2pCircuit, Protocol::P2p(_)]
        | [socket @ .., Protocol::P2p(_)]
        | socket => names_a_socket(socket),
    }
}

/// Parts of the longest address that can be dialled: QUIC to a relay, and a circuit from there to a peer.
const MAX_PARTS: usize = 6;

fn names_a_socket(parts: &[Protocol<'_>]) -> bool {
    let (host, port) = match parts {
        [host, Protocol::Udp(port), Protocol::QuicV1] | [host, Protocol::Tcp(port)] => (host, *port),
        _ => return false,
    };
    let reachable = match host {
        // An address that came in bytes may have a name that reads like further parts.
        Protocol::Dns(name) | Protocol::Dns4(name) | Protocol::Dns6(name) => {
            !name.is_empty() && !name.contains('/')
        }
        _ => ip_of(host).is_some_and(names_one_computer),
    };
    port != 0 && reachable
}

/// Whether to believe an address that a stranger tells, when the connection with that
/// stranger runs through `via`.
///
/// On top of [`dialable`]: no names (a stranger shall not choose what we resolve), and loopback or link-local
/// addresses only from a peer that reached us over such an address, as peers on one machine do.
pub(super) fn believable(address: &Multiaddr, via: &Multiaddr) -> bool {
    let Some(claimed) = first_ip(address) else { return false };
    let seen = first_ip(via);
    dialable(address)
        && (!claimed.is_loopback() || seen.is_some_and(|seen| seen.is_loopback()))
        && (!is_link_local(claimed) || seen.is_some_and(is_link_local))
}

/// Whether to believe an address that strangers tell, when it is not known which of those with whom
/// connections run through `vias`. None of them needs to be connected still.
pub(super) fn believable_from_any<'a>(
    address: &Multiaddr,
    vias: impl IntoIterator<Item = &'a Multiaddr>,
) -> bool {
    believable(address, &Multiaddr::empty()) || vias.into_iter().any(|via| believable(address, via))
}

/// Whether a peer that is connected through `via` may give out `address` as its own: at the IP from which it
/// is connected, and never a name. Peers of one machine are at all of its local addresses.
#[must_use]
pub fn shares_ip(address: &Multiaddr, via: &Multiaddr) -> bool {
    let (Some(claimed), Some(seen)) = (first_ip(address), first_ip(via)) else { return false };
    let same = claimed == seen || (seen.is_loopback() && is_local(address));
    dialable(address) && same && is_relayed(address) == is_relayed(via)
}

/// The relay of an address that leads through one, and the address at which it reaches the relay. `None` for
/// a name too.
#[must_use]
pub fn relay_of(address: &Multiaddr) -> Option<(PeerId, Multiaddr)> {
    let parts: Vec<Protocol<'_>> = address.iter().collect();
    let relay = parts.windows(2).find_map(|pair| match pair {
        [Protocol::P2p(relay), Protocol::P2pCircuit] => Some(*relay),
        _ => None,
    })?;
    first_ip(address).filter(|_| dialable(address))?;
    let at = address.iter().take_while(|part| !matches!(part, Protocol::P2p(_))).collect();
    Some((relay, at))
}

/// The IP with which an address begins, if it is no name.
#[must_use]
pub fn ip_of_address(address: &Multiaddr) -> Option<IpAddr> {
    first_ip(address)
}

/// Whether a connection at this address runs through a relay.
pub(super) fn is_relayed(address: &Multiaddr) -> bool {
    address.iter().any(|part| part == Protocol::P2pCircuit)
}

/// Whether an address means something only within one computer or one network: others may have the same.
pub(super) fn is_local(address: &Multiaddr) -> bool {
    first_ip(address).is_some_and(|ip| match ip {
        // 100.64.0.0/10 lies behind the NAT of a provider.
        IpAddr::V4(v4) => {
            ip.is_loopback()
                || is_link_local(ip)
                || v4.is_private()
                || (v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64)
        }
        IpAddr::V6(v6) => ip.is_loopback() || is_link_local(ip) || v6.is_unique_local(),
    })
}

/// The IP from which a peer is connected, if it says something about whose computer that is: `None`
/// within one computer or one network, through a relay, and for names.
#[must_use]
pub fn outer_ip(address: &Multiaddr) -> Option<IpAddr> {
    let ip = first_ip(address)?;
    (!is_relayed(address) && !is_local(address)).then_some(ip)
}

/// The network of which an address is a part, as far as that can be seen from afar: an IPv4 address
/// is one, and of IPv6 64 bits are. `None` for a name.
pub(super) fn network_of(address: &Multiaddr) -> Option<IpAddr> {
    Some(match first_ip(address)? {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        v4 => v4,
    })
}

/// The network of an address as routing sees it, which one owner may hold whole: /24 of IPv4, /48 of IPv6.
pub(super) fn prefix_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() >> 8 << 8).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 80 << 80).into(),
    }
}

/// Where `listening` is reached from outside, when others see us at `seen`: the one's IP and the
/// other's port. `None` if the IPs are of different versions.
pub(super) fn seen_from_outside(seen: &Multiaddr, listening: &Multiaddr) -> Option<Multiaddr> {
    let ip = seen.iter().next()?;
    match (&ip, listening.iter().next()?) {
        (Protocol::Ip4(_), Protocol::Ip4(_)) | (Protocol::Ip6(_), Protocol::Ip6(_)) => {
            listening.replace(0, |_| Some(ip.clone()))
        }
        _ => None,
    }
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
            "/ip4/1.2.3.4/udp/1/quic-v1/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN/p2p-circuit",
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
            "/p2p-circuit",
            "/ip4/1.2.3.4/tcp/1/p2p-circuit",
        ] {
            assert!(!dialable(&addr(bad)), "{bad}");
        }
        assert!(!dialable(&Multiaddr::empty()));
        let hidden = Multiaddr::from(Protocol::Dns4("example.org/tcp/1/ws".into())).with(Protocol::Tcp(1));
        assert!(!dialable(&hidden), "{hidden}");
    }

    #[test]
    fn circuits_and_local_networks_are_told_apart() {
        let relay = "/ip4/10.0.0.1/tcp/1/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN";
        assert!(!is_relayed(&addr(relay)) && is_relayed(&addr(&format!("{relay}/p2p-circuit"))));
        for local in ["/ip4/127.0.0.1", "/ip4/192.168.1.4", "/ip4/100.127.0.1", "/ip6/::1", "/ip6/fd00::1"] {
            assert!(is_local(&addr(local)), "{local}");
        }
        for global in ["/ip4/100.128.0.1", "/ip4/8.8.8.8", "/ip6/2001:db8::1", "/dns4/example.org"] {
            assert!(!is_local(&addr(global)), "{global}");
        }
        assert_eq!(outer_ip(&addr("/ip4/8.8.8.8/tcp/1")), Some("8.8.8.8".parse().unwrap()));
        let through_a_relay = relay.replace("10.0.0.1", "8.8.8.8") + "/p2p-circuit";
        for nobody in [&*through_a_relay, "/ip4/192.168.1.4/tcp/1", "/dns4/example.org/tcp/1"] {
            assert_eq!(outer_ip(&addr(nobody)), None, "{nobody}");
        }
    }

    #[test]
    fn the_port_of_a_listener_is_looked_for_where_others_see_us() {
        let outside = |seen: &str, listening: &str| seen_from_outside(&addr(seen), &addr(listening));
        let seen = "/ip4/203.0.113.7/tcp/50123";
        assert_eq!(outside(seen, "/ip4/10.0.0.2/tcp/4160"), Some(addr("/ip4/203.0.113.7/tcp/4160")));
        let quic = Some(addr("/ip4/203.0.113.7/udp/4161/quic-v1"));
        assert_eq!(outside(seen, "/ip4/0.0.0.0/udp/4161/quic-v1"), quic);
        assert_eq!(outside(seen, "/ip6/::1/tcp/4160"), None);
    }

    #[test]
    fn a_peer_gives_out_addresses_of_its_own_machine_alone() {
        let (near, lan, far) =
            (addr("/ip4/127.0.0.1/tcp/9"), addr("/ip4/10.0.0.7/tcp/9"), addr("/ip4/5.6.7.8/tcp/9"));
        for (address, via, is_own) in [
            ("/ip4/5.6.7.8/udp/4160/quic-v1", &far, true),
            ("/ip4/5.6.7.9/tcp/22", &far, false),
            ("/ip4/127.0.0.1/tcp/22", &far, false),
            ("/dns4/localhost/tcp/22", &far, false),
            ("/dns4/localhost/tcp/22", &near, false),
            ("/ip4/127.0.0.1/tcp/4160", &near, true),
            ("/ip4/10.0.0.7/tcp/4160", &near, true),
            ("/ip4/5.6.7.8/tcp/4160", &near, false),
            ("/ip4/10.0.0.7/tcp/4160", &lan, true),
            ("/ip4/10.0.0.8/tcp/4160", &lan, false),
        ] {
            assert_eq!(shares_ip(&addr(address), via), is_own, "{address} from {via}");
        }
        let relay = "/ip4/8.8.8.8/tcp/1/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN/p2p-circuit";
        assert!(!shares_ip(&addr(relay), &addr("/ip4/8.8.8.8/tcp/9")), "the relay's, not its own");
        assert!(shares_ip(&addr(relay), &addr(relay)));
        assert_eq!(relay_of(&addr(relay)).map(|(_, at)| at), Some(addr("/ip4/8.8.8.8/tcp/1")));
        assert_eq!(relay_of(&addr(&relay.replace("ip4/8.8.8.8", "dns4/localhost"))), None);
        assert_eq!(relay_of(&far), None);
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
