//! Which addresses of a node are handed on to others.
//!
//! A heartbeat may name any address, and other nodes dial what they are told: a fleet could be pointed at
//! somebody's machine, or at their own. So a node's addresses are those of the IP from which it is connected,
//! and those at a relay that the learner knows to be there. A relay that is a member is where its own
//! heartbeat says. Of boot nodes, which send none, the IP alone is known.

use std::collections::BTreeMap;

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
    /// What connected members have named of their own addresses, and was believed.
    announced: BTreeMap<PeerId, Vec<Multiaddr>>,
    /// The learner itself, which relays too, and where it is reached.
    own: Option<(PeerId, Vec<Multiaddr>)>,
}

impl Locations {
    /// Notes where the learner is.
    pub(super) fn own(&self, me: PeerId, addresses: &[Multiaddr]) {
        self.0.lock().own = Some((me, addresses.to_vec()));
    }

    /// Notes from where a peer is connected.
    pub(super) fn connected(&self, peer: PeerId, via: Multiaddr) {
        self.0.lock().peers.insert(peer, via);
    }

    /// Notes that a peer is not connected any more.
    pub(super) fn disconnected(&self, peer: &PeerId) {
        let mut known = self.0.lock();
        known.peers.remove(peer);
        known.announced.remove(peer);
    }

    /// Those of a node's addresses that are its own.
    pub(super) fn believed(&self, node: &PublicKey, addresses: Vec<String>) -> Vec<String> {
        let mut known = self.0.lock();
        let connected = peer_of_key(node).and_then(|peer| Some((peer, known.peers.get(&peer)?.clone())));
        let (mut direct, mut believed) = (Vec::new(), Vec::new());
        for text in addresses {
            let Ok(address) = text.parse::<Multiaddr>() else { continue };
            if let Some((relay, at)) = relay_of(&address) {
                if known.is_at(&relay, &at) {
                    believed.push(text);
                }
            } else if connected.as_ref().is_some_and(|(_, via)| shares_ip(&address, via)) {
                direct.push(address);
                believed.push(text);
            }
        }
        if let Some((peer, _)) = connected {
            known.announced.insert(peer, direct);
        }
        believed
    }
}

impl Known {
    /// Whether a relay is at this address. By its IP alone, others could be pointed at any port of any
    /// member's machine.
    fn is_at(&self, relay: &PeerId, at: &Multiaddr) -> bool {
        if let Some((_, addresses)) = self.own.as_ref().filter(|(me, _)| me == relay) {
            return addresses.contains(at);
        }
        match (self.peers.get(relay), self.announced.get(relay)) {
            (None, _) => false,
            (Some(_), Some(announced)) => announced.contains(at),
            (Some(via), None) => ip_of_address(via).is_some_and(|ip| ip_of_address(at) == Some(ip)),
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
        locations.own(me, &[addr("/ip4/198.51.100.2/tcp/1")]);
        let believed = [&claimed[0], &claimed[5], &claimed[7]].map(String::clone);
        assert_eq!(locations.believed(&node, claimed.clone()), believed);
        locations.disconnected(&relay);
        assert_eq!(locations.believed(&node, claimed.clone()).len(), 2);
    }

    #[test]
    fn a_circuit_leads_through_an_address_that_its_relay_has() {
        let [node, member] = [1, 2].map(|seed| NodeKey::from_secret([seed; 32]).public());
        let [at_member, boot, me] =
            [2, 3, 4].map(|seed| peer_of_key(&NodeKey::from_secret([seed; 32]).public()).unwrap());
        let locations = Locations::default();
        locations.own(me, &[addr("/ip4/198.51.100.1/tcp/4001"), addr("/ip4/198.51.100.1/udp/4001/quic-v1")]);
        locations.connected(peer_of_key(&node).unwrap(), addr("/ip4/203.0.113.7/tcp/50123"));
        locations.connected(at_member, addr("/ip4/198.51.100.2/tcp/50124"));
        locations.connected(boot, addr("/ip4/198.51.100.3/tcp/4001"));
        let direct = "/ip4/198.51.100.2/tcp/4160".to_owned();
        assert_eq!(locations.believed(&member, vec![direct.clone()]), [direct]);
        let is_kept = |at: &str, relay: PeerId| {
            let circuit = vec![format!("{at}/p2p/{relay}/p2p-circuit")];
            locations.believed(&node, circuit.clone()) == circuit
        };
        for (at, relay, kept) in [
            ("/ip4/198.51.100.2/tcp/4160", at_member, true),
            ("/ip4/198.51.100.2/tcp/22", at_member, false),
            ("/ip4/198.51.100.2/udp/4160/quic-v1", at_member, false),
            ("/ip4/198.51.100.1/tcp/4001", me, true),
            ("/ip4/198.51.100.1/udp/4001/quic-v1", me, true),
            ("/ip4/198.51.100.1/tcp/22", me, false),
            // A boot node has ports that only its guests know.
            ("/ip4/198.51.100.3/udp/4001/quic-v1", boot, true),
            ("/ip4/198.51.100.2/tcp/4160", boot, false),
        ] {
            assert_eq!(is_kept(at, relay), kept, "{at}");
        }
        // Nor does it help to come through a relay oneself.
        let via = format!("/ip4/198.51.100.2/tcp/4160/p2p/{at_member}/p2p-circuit");
        locations.connected(peer_of_key(&node).unwrap(), addr(&via));
        assert!(!is_kept("/ip4/198.51.100.2/tcp/22", at_member));
        // A member that is gone relays nothing.
        locations.disconnected(&at_member);
        assert!(!is_kept("/ip4/198.51.100.2/tcp/4160", at_member));
    }
}
