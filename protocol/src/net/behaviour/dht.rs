//! The DHT, which also says what was told of peers that did not answer.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::task::{Context, Poll};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::kad::{self, store::MemoryStore};
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent,
    ToSwarm,
};
use libp2p::{Multiaddr, PeerId};

/// Addresses of a peer that are kept while it is looked for.
const MAX_ADDRESSES: usize = 64;

type Kad = kad::Behaviour<MemoryStore>;

/// Kademlia that keeps the addresses told of those that somebody looks for.
///
/// The result of a query lists only those that answered it. A peer that has moved does not: the query dials
/// it where it was, fails, and leaves it out together with its new address, of which others told.
pub(in crate::net) struct Dht {
    kad: Kad,
    sought: BTreeMap<PeerId, Sought>,
}

#[derive(Default)]
struct Sought {
    /// How many look for it.
    by: usize,
    addresses: Vec<Multiaddr>,
}

impl Dht {
    pub(in crate::net) fn new(kad: Kad) -> Self {
        Self { kad, sought: BTreeMap::new() }
    }

    /// Keeps what is told of `peer` until [`Dht::take_addresses`] is asked as often.
    pub(in crate::net) fn seek(&mut self, peer: PeerId) {
        self.sought.entry(peer).or_default().by += 1;
    }

    /// The addresses told of `peer` since it is looked for.
    pub(in crate::net) fn take_addresses(&mut self, peer: &PeerId) -> Vec<Multiaddr> {
        let Some(sought) = self.sought.get_mut(peer) else { return Vec::new() };
        sought.by -= 1;
        if sought.by > 0 {
            return sought.addresses.clone();
        }
        self.sought.remove(peer).map(|sought| sought.addresses).unwrap_or_default()
    }

    /// The addresses told of `peer` by now, while it is looked for.
    pub(in crate::net) fn addresses_so_far(&mut self, peer: &PeerId) -> Vec<Multiaddr> {
        self.note();
        self.sought.get(peer).map(|sought| sought.addresses.clone()).unwrap_or_default()
    }

    fn note(&mut self) {
        for (peer, sought) in &mut self.sought {
            // What Kademlia would add to a dial: the addresses in its table, and those that its
            // queries have been told.
            let (id, role) = (ConnectionId::new_unchecked(0), Endpoint::Dialer);
            let known = self.kad.handle_pending_outbound_connection(id, Some(*peer), &[], role);
            for address in known.unwrap_or_default() {
                if sought.addresses.len() < MAX_ADDRESSES && !sought.addresses.contains(&address) {
                    sought.addresses.push(address);
                }
            }
        }
    }
}

impl Deref for Dht {
    type Target = Kad;

    fn deref(&self) -> &Kad {
        &self.kad
    }
}

impl DerefMut for Dht {
    fn deref_mut(&mut self) -> &mut Kad {
        &mut self.kad
    }
}

impl NetworkBehaviour for Dht {
    type ConnectionHandler = THandler<Kad>;
    type ToSwarm = kad::Event;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.kad.handle_established_inbound_connection(id, peer, local, remote)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: Option<PeerId>,
        addresses: &[Multiaddr],
        role: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        self.kad.handle_pending_outbound_connection(id, peer, addresses, role)
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.kad.handle_established_outbound_connection(id, peer, remote, role, port)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        self.kad.on_swarm_event(event);
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, id: ConnectionId, event: THandlerOutEvent<Self>) {
        self.kad.on_connection_handler_event(peer, id, event);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<kad::Event, THandlerInEvent<Self>>> {
        // A query that ends takes with it what it was told.
        self.note();
        self.kad.poll(cx)
    }
}
