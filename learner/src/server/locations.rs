//! Which addresses of a node are handed on to others.
//!
//! A heartbeat may name any address, and other nodes dial what they are told: a fleet could be pointed at
//! somebody's machine, or at their own. So a node's addresses are those of the IP from which it is connected,
//! and those at a relay that the learner knows to be there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use echo_protocol::net::peer_id::peer_of_key;
use echo_protocol::net::{Multiaddr, PeerId, ip_of_address, relay_of, shares_ip};
use echo_protocol::wire::identity::PublicKey;
use parking_lot::Mutex;

/// From where peers are connected. Bounded by the host's connections.
#[derive(Debug, Default)]
pub(super) struct Locations(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    peers: BTreeMap<PeerId, Multiaddr>,
    /// The learner itself, which relays too, and where it listens.
    own: Option<(PeerId, BTreeSet<IpAddr>)>,
}

impl Locations {
    /// Notes where the learner is.
    pub(super) fn own(&self, me: PeerId, addresses: &[Multiaddr]) {
        let ips = addresses.iter().filter_map(ip_of_address).collect();
        self.0.lock().own = Some((me, ips));
    }

    /// Notes from where a peer is connected.
    pub(super) fn connected(&self, peer: PeerId, via: Multiaddr) {
        self.0.lock().peers.insert(peer, via);
    }

    /// Notes that a peer is not connected any more.
    pub(super) fn disconnected(&self, peer: &PeerId) {
        self.0.lock().peers.remove(peer);
    }

    /// Those of a node's addresses that are its own.
    pub(super) fn believed(&self, node: &PublicKey, addresses: Vec<String>) -> Vec<String> {
        let known = self.0.lock();
        let via = peer_of_key(node).and_then(|peer| known.peers.get(&peer));
        let is_own = |text: &String| {
            let Ok(address) = text.parse::<Multiaddr>() else { return false };
            via.is_some_and(|via| shares_ip(&address, via)) || known.is_relayed(&address)
        };
        addresses.into_iter().filter(is_own).collect()
    }
}

impl Known {
    /// Whether an address leads through a relay that is where it says.
    fn is_relayed(&self, address: &Multiaddr) -> bool {
        let Some((relay, ip)) = relay_of(address) else { return false };
        match &self.own {
            Some((me, ips)) if *me == relay => ips.contains(&ip),
            _ => self.peers.get(&relay).and_then(ip_of_address) == Some(ip),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::identity::NodeKey;

    fn addr(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_heartbeat_points_nobody_at_others() {
        let node = NodeKey::from_secret([1; 32]).public();
        let [me, relay, stranger] =
            [2, 3, 4].map(|seed| peer_of_key(&NodeKey::from_secret([seed; 32]).public()).unwrap());
        let locations = Locations::default();
        let through = |ip: &str, peer: PeerId| format!("/ip4/{ip}/tcp/1/p2p/{peer}/p2p-circuit");
        let claimed = vec![
            "/ip4/203.0.113.7/tcp/4160".to_owned(),
            "/ip4/192.0.2.1/tcp/80".to_owned(),
            "/dns4/localhost/tcp/22".to_owned(),
            "/ip4/127.0.0.1/tcp/22".to_owned(),
            "no address".to_owned(),
            through("198.51.100.1", relay),
            through("192.0.2.1", relay),
            through("198.51.100.2", me),
            through("192.0.2.1", me),
            through("198.51.100.1", stranger),
        ];
        assert!(locations.believed(&node, claimed.clone()).is_empty(), "nobody knows where it is");
        locations.connected(peer_of_key(&node).unwrap(), addr("/ip4/203.0.113.7/tcp/50123"));
        locations.connected(relay, addr("/ip4/198.51.100.1/udp/4001/quic-v1"));
        locations.own(me, &[addr("/ip4/198.51.100.2/tcp/4001")]);
        let believed = [&claimed[0], &claimed[5], &claimed[7]].map(String::clone);
        assert_eq!(locations.believed(&node, claimed.clone()), believed);
        locations.disconnected(&relay);
        assert_eq!(locations.believed(&node, claimed.clone()).len(), 2);
    }
}
