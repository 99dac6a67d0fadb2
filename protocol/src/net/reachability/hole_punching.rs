//! Punching holes, without dialling whatever a peer names.

use std::task::{Context, Poll};
use std::time::Duration;

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::behaviour::NewExternalAddrCandidate;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent,
    ToSwarm,
};
use libp2p::{Multiaddr, PeerId, dcutr};
use tokio::time::Instant;

use crate::net::addresses::{dialable, is_local, is_relayed, network_of};
use crate::net::reachability::fixed_window::Allowance;

/// Outcomes of agreements on a punch that are heard within a [`MINUTE`]. The learner plans no edge
/// that needs one, so they are rare; DCUtR keeps a few bytes of each.
const MAX_PUNCHES: u32 = 6;
/// After this counting begins anew.
const MINUTE: Duration = Duration::from_secs(60);
/// Addresses that a peer may name for one punch: as many as DCUtR names itself.
const MAX_ADDRESSES: usize = 20;

/// DCUtR, made harmless. By itself it dials all addresses that the other side of a circuit
/// names, as often as that wishes: names to be resolved, the neighbours in our house, or
/// somebody who shall be flooded.
pub(in crate::net) struct Punch {
    dcutr: dcutr::Behaviour,
    /// Outcomes that may be heard.
    hearing: Allowance,
    /// Somebody sees us at an address that means the same everywhere.
    far: bool,
    /// The dial that the swarm is about to make.
    next: Option<ConnectionId>,
}

/// What nobody may make us dial.
#[derive(Debug, thiserror::Error)]
#[error("a peer named addresses for a punch that are not to be dialled")]
struct NotDialled;

impl Punch {
    pub(in crate::net) fn new(me: PeerId) -> Self {
        let hearing = Allowance::new(MAX_PUNCHES, MINUTE);
        Self { dcutr: dcutr::Behaviour::new(me), hearing, far: false, next: None }
    }

    fn may_dial(&self, addresses: &[Multiaddr]) -> bool {
        let good = |address: &Multiaddr| {
            let near = is_local(address) && self.far;
            dialable(address) && network_of(address).is_some() && !is_relayed(address) && !near
        };
        addresses.len() <= MAX_ADDRESSES && addresses.iter().all(good)
    }
}

impl NetworkBehaviour for Punch {
    type ConnectionHandler = THandler<dcutr::Behaviour>;
    type ToSwarm = dcutr::Event;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.dcutr.handle_established_inbound_connection(id, peer, local, remote)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        id: ConnectionId,
        _: Option<PeerId>,
        addresses: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        if self.next.take_if(|next| *next == id).is_some() && !self.may_dial(addresses) {
            return Err(ConnectionDenied::new(NotDialled));
        }
        Ok(Vec::new())
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.dcutr.handle_established_outbound_connection(id, peer, remote, role, port)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        if let FromSwarm::NewExternalAddrCandidate(NewExternalAddrCandidate { addr }) = event {
            self.far |= !is_local(addr);
        }
        self.dcutr.on_swarm_event(event);
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, id: ConnectionId, event: THandlerOutEvent<Self>) {
        if self.hearing.take(Instant::now()) {
            self.dcutr.on_connection_handler_event(peer, id, event);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<dcutr::Event, THandlerInEvent<Self>>> {
        let polled = self.dcutr.poll(cx);
        if let Poll::Ready(ToSwarm::Dial { opts }) = &polled {
            self.next = Some(opts.connection_id());
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<Multiaddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_peer_that_is_seen_in_the_world_punches_no_holes_into_its_own_house() {
        let mut punch = Punch::new(PeerId::random());
        let far = addresses(&["/ip4/203.0.113.7/tcp/50123", "/ip6/2001:db8::1/udp/4160/quic-v1"]);
        let near = addresses(&["/ip4/203.0.113.7/tcp/50123", "/ip4/192.168.1.1/tcp/80"]);
        assert!(punch.may_dial(&far) && punch.may_dial(&near));
        let seen = NewExternalAddrCandidate { addr: &far[0] };
        punch.on_swarm_event(FromSwarm::NewExternalAddrCandidate(seen));
        assert!(punch.may_dial(&far) && !punch.may_dial(&near));
    }

    #[test]
    fn neither_names_nor_relays_nor_crowds_are_dialled() {
        let punch = Punch::new(PeerId::random());
        let relay = "/ip4/198.51.100.1/tcp/4160/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN";
        assert!(punch.may_dial(&addresses(&[relay])));
        assert!(!punch.may_dial(&addresses(&[&format!("{relay}/p2p-circuit")])));
        assert!(!punch.may_dial(&addresses(&["/dns4/example.org/tcp/4160"])));
        assert!(!punch.may_dial(&addresses(&["/ip4/203.0.113.7/tcp/50123"; MAX_ADDRESSES + 1])));
    }

    #[test]
    fn punches_are_few() {
        let (mut punch, begun) = (Punch::new(PeerId::random()), Instant::now());
        let heard = (0..100).filter(|_| punch.hearing.take(begun)).count();
        assert_eq!(heard, MAX_PUNCHES as usize);
    }
}
