//! Over which of a peer's connections streams run.

use std::collections::BTreeMap;
use std::task::{Context, Poll};

use either::Either;
use libp2p::core::transport::PortUse;
use libp2p::core::{ConnectedPoint, Endpoint};
use libp2p::swarm::behaviour::{ConnectionClosed, ConnectionEstablished};
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent,
    ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};
use libp2p_stream::Control;

use crate::net::addresses::is_relayed;
use crate::net::peer_id::connections_of;

/// libp2p-stream, with a choice of its own where that takes a random connection.
///
/// Streams never run through a relay: such connections neither open nor accept any. Of the direct
/// ones all accept, but only the oldest opens: the younger ones may be trials of whether somebody
/// can be reached, which are closed again soon.
#[derive(Default)]
pub(in crate::net) struct Lines {
    streams: libp2p_stream::Behaviour,
    /// Connections that run through no relay, with their ends.
    direct: BTreeMap<(PeerId, ConnectionId), ConnectedPoint>,
    /// The one of each peer that libp2p-stream knows of, and opens streams on.
    told: BTreeMap<PeerId, ConnectionId>,
}

impl Lines {
    /// A handle that opens and accepts streams.
    pub(in crate::net) fn control(&self) -> Control {
        self.streams.new_control()
    }

    /// Whether a connection with this peer runs through no relay.
    pub(in crate::net) fn reach(&self, peer: &PeerId) -> bool {
        self.told.contains_key(peer)
    }

    /// Tells libp2p-stream of a connection with this peer, if there is one.
    fn tell(&mut self, peer_id: PeerId) {
        if let Some(((_, connection_id), endpoint)) = self.direct.range(connections_of(peer_id)).next() {
            self.told.insert(peer_id, *connection_id);
            self.streams.on_swarm_event(FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id,
                connection_id: *connection_id,
                endpoint,
                failed_addresses: &[],
                other_established: 0,
            }));
        }
    }
}

impl NetworkBehaviour for Lines {
    type ConnectionHandler = Either<THandler<libp2p_stream::Behaviour>, dummy::ConnectionHandler>;
    type ToSwarm = ();

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        if is_relayed(local) {
            return Ok(Either::Right(dummy::ConnectionHandler));
        }
        self.streams.handle_established_inbound_connection(id, peer, local, remote).map(Either::Left)
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        if is_relayed(remote) {
            return Ok(Either::Right(dummy::ConnectionHandler));
        }
        self.streams.handle_established_outbound_connection(id, peer, remote, role, port).map(Either::Left)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                ..
            }) if !endpoint.is_relayed() => {
                self.direct.insert((peer_id, connection_id), endpoint.clone());
                if !self.reach(&peer_id) {
                    self.tell(peer_id);
                }
            }
            FromSwarm::ConnectionClosed(closed @ ConnectionClosed { peer_id, connection_id, .. }) => {
                self.direct.remove(&(peer_id, connection_id));
                if self.told.get(&peer_id) == Some(&connection_id) {
                    self.told.remove(&peer_id);
                    self.streams.on_swarm_event(FromSwarm::ConnectionClosed(closed));
                    self.tell(peer_id);
                }
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {
            Either::Left(never) | Either::Right(never) => match never {},
        }
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<(), THandlerInEvent<Self>>> {
        // All that libp2p-stream would say here is whom to dial, and the host dials by itself.
        Poll::Pending
    }
}
