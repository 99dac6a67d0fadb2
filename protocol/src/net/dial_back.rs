//! Dialling others back, so that they learn whether they can be reached.

use std::collections::BTreeMap;
use std::task::{Context, Poll, ready};

use either::Either;
use libp2p::autonat::v2::server;
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::behaviour::{ConnectionClosed, ConnectionEstablished, DialFailure};
use libp2p::swarm::{
    CloseConnection, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};

use super::addresses::{believable, is_local};

/// The server of AutoNAT v2, which asks for tens of kilobytes before it dials, so that it amplifies nothing. Here it dials no address
/// that the asker may not name: neither a name to be resolved nor, for somebody from afar, a place in our own network. And a connection
/// that was only a trial is closed when it is over.
#[derive(Default)]
pub(super) struct DialBack {
    server: server::Behaviour,
    /// Whether those that connect from now on may ask.
    open: bool,
    /// The asker's own address, of every connection over which somebody may ask.
    askers: BTreeMap<(PeerId, ConnectionId), Multiaddr>,
    /// The dial that the swarm is about to make, and who asked for it.
    next: Option<(ConnectionId, PeerId)>,
    /// Dials and connections that are trials: of whom, and of which address.
    trials: BTreeMap<ConnectionId, (PeerId, Multiaddr)>,
}

/// An address that the asker may not name.
#[derive(Debug, thiserror::Error)]
#[error("nobody is dialled back at an address that is not the asker's")]
struct NotTheirs;

impl DialBack {
    /// Lets those that connect from now on ask, or not.
    pub(super) fn open(&mut self, open: bool) {
        self.open = open;
    }

    fn may_name(&self, peer: PeerId, address: &Multiaddr) -> bool {
        let all = (peer, ConnectionId::new_unchecked(0))..=(peer, ConnectionId::new_unchecked(usize::MAX));
        self.askers
            .range(all)
            .any(|(_, via)| believable(address, via) && (!is_local(address) || is_local(via)))
    }
}

impl NetworkBehaviour for DialBack {
    type ConnectionHandler = Either<THandler<server::Behaviour>, dummy::ConnectionHandler>;
    type ToSwarm = server::Event;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        if !self.open {
            return Ok(Either::Right(dummy::ConnectionHandler));
        }
        self.server.handle_established_inbound_connection(id, peer, local, remote).map(Either::Left)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        id: ConnectionId,
        _: Option<PeerId>,
        addresses: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        let Some((_, peer)) = self.next.take_if(|(next, _)| *next == id) else { return Ok(Vec::new()) };
        let Some(address) = addresses.first().filter(|address| self.may_name(peer, address)) else {
            return Err(ConnectionDenied::new(NotTheirs));
        };
        self.trials.insert(id, (peer, address.clone()));
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
        self.server.handle_established_outbound_connection(id, peer, remote, role, port).map(Either::Left)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                ..
            }) if endpoint.is_listener() && !endpoint.is_relayed() => {
                self.askers.insert((peer_id, connection_id), endpoint.get_remote_address().clone());
            }
            FromSwarm::ConnectionClosed(ConnectionClosed { peer_id, connection_id, .. }) => {
                self.askers.remove(&(peer_id, connection_id));
                self.trials.remove(&connection_id);
            }
            FromSwarm::DialFailure(DialFailure { connection_id, .. }) => {
                self.trials.remove(&connection_id);
            }
            _ => {}
        }
        self.server.on_swarm_event(event);
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, id: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {
            Either::Left(event) => self.server.on_connection_handler_event(peer, id, event),
            Either::Right(never) => match never {},
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<server::Event, THandlerInEvent<Self>>> {
        loop {
            match ready!(self.server.poll(cx)) {
                ToSwarm::GenerateEvent(server::Event { client: peer_id, tested_addr, .. }) => {
                    let trial = (peer_id, tested_addr);
                    if let Some((id, _)) = self.trials.iter().find(|(_, other)| **other == trial) {
                        let connection = CloseConnection::One(*id);
                        return Poll::Ready(ToSwarm::CloseConnection { peer_id, connection });
                    }
                }
                action => {
                    if let ToSwarm::Dial { opts } = &action {
                        self.next = opts.get_peer_id().map(|peer| (opts.connection_id(), peer));
                    }
                    return Poll::Ready(action.map_in(Either::Left));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_names_neither_our_network_nor_names() {
        let (mut dial_back, far, near) = (DialBack::default(), PeerId::random(), PeerId::random());
        let id = ConnectionId::new_unchecked(7);
        let address = |text: &str| text.parse::<Multiaddr>().unwrap();
        dial_back.askers.insert((far, id), address("/ip4/203.0.113.7/tcp/50123"));
        dial_back.askers.insert((near, id), address("/ip4/192.168.1.9/tcp/50123"));
        for (named, by_far, by_near) in [
            ("/ip4/203.0.113.7/tcp/4160", true, true),
            ("/ip4/198.51.100.1/udp/4160/quic-v1", true, true),
            ("/ip4/192.168.1.1/tcp/80", false, true),
            ("/ip4/127.0.0.1/tcp/80", false, false),
            ("/dns4/example.org/tcp/4160", false, false),
        ] {
            let named = address(named);
            assert_eq!(dial_back.may_name(far, &named), by_far, "{named}");
            assert_eq!(dial_back.may_name(near, &named), by_near, "{named}");
            assert!(!dial_back.may_name(PeerId::random(), &named));
        }
    }
}
