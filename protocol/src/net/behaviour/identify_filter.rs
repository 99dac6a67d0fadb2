//! Identify, which keeps to itself where it thinks that others reach us.

use std::task::{Context, Poll};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent,
    ToSwarm,
};
use libp2p::{Multiaddr, PeerId, identify};

/// Identify without its proposals of own addresses.
///
/// It proposes every address at which some peer says that it sees us, the port included where
/// it finds no better. Our dials leave from ports of their own, at which nobody answers:
/// tests of such proposals fail and say nothing. And a peer could make it propose without
/// end. [`Reachability`](crate::net::reachability::findings::Reachability) proposes instead.
pub(in crate::net) struct Identify(pub(in crate::net) identify::Behaviour);

impl NetworkBehaviour for Identify {
    type ConnectionHandler = THandler<identify::Behaviour>;
    type ToSwarm = identify::Event;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.0.handle_established_inbound_connection(id, peer, local, remote)
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.0.handle_established_outbound_connection(id, peer, remote, role, port)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        self.0.on_swarm_event(event);
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, id: ConnectionId, event: THandlerOutEvent<Self>) {
        self.0.on_connection_handler_event(peer, id, event);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<identify::Event, THandlerInEvent<Self>>> {
        loop {
            match self.0.poll(cx) {
                Poll::Ready(ToSwarm::NewExternalAddrCandidate(_)) => {}
                other => return other,
            }
        }
    }
}
