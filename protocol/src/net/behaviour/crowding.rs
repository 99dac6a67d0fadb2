//! Open connections of others: no network takes all places, and a full table lets newcomers in.
//!
//! A key costs nothing, so a stranger's connection is worth little, and one of a peer that our own process
//! [keeps](crate::net::Host::keep) is worth much. If no place is left, a stranger's oldest connection goes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::net::IpAddr;
use std::task::{Context, Poll};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::behaviour::{ConnectionClosed, ConnectionEstablished};
use libp2p::swarm::{
    CloseConnection, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};

use crate::net::addresses::{outer_ip, prefix_of};
use crate::net::limits::ConnectionLimits;

/// Why a connection is refused.
#[derive(Debug, thiserror::Error)]
#[error("too many connections {0}")]
struct TooMany(&'static str);

/// Bounds the connections that others have opened.
pub(in crate::net) struct Crowding {
    limits: ConnectionLimits,
    /// Peers whose connections are not closed for others.
    kept: BTreeSet<PeerId>,
    /// By age: the numbers of connections grow.
    open: BTreeMap<ConnectionId, Incoming>,
    closing: VecDeque<(PeerId, ConnectionId)>,
}

struct Incoming {
    peer: PeerId,
    /// `None` within a computer or a network, and through a relay: such addresses say nothing of an owner.
    address: Option<IpAddr>,
}

impl Incoming {
    fn network(&self) -> Option<IpAddr> {
        self.address.map(prefix_of)
    }
}

impl Crowding {
    pub(in crate::net) fn new(limits: ConnectionLimits) -> Self {
        Self { limits, kept: BTreeSet::new(), open: BTreeMap::new(), closing: VecDeque::new() }
    }

    /// Keeps the connections of these peers, and of no others.
    pub(in crate::net) fn keep(&mut self, peers: impl IntoIterator<Item = PeerId>) {
        self.kept = peers.into_iter().collect();
    }

    /// Lets a connection in, for which another one may have to go.
    fn admit(&mut self, peer: &PeerId, address: Option<IpAddr>) -> Result<(), TooMany> {
        if !self.kept.contains(peer) && address.is_some() {
            let network = address.map(prefix_of);
            let (mut of_address, mut of_network) = (0, 0);
            for open in self.open.values() {
                of_address += usize::from(open.address == address);
                of_network += usize::from(open.network() == network);
            }
            if of_address >= self.limits.per_address() {
                return Err(TooMany("from this address"));
            }
            if of_network >= self.limits.per_network() {
                return Err(TooMany("from this network"));
            }
        }
        if self.open.len() < self.limits.incoming as usize {
            return Ok(());
        }
        let id = self.oldest_of_the_crowd().ok_or(TooMany("of peers that are kept"))?;
        if let Some(open) = self.open.remove(&id) {
            self.closing.push_back((open.peer, id));
        }
        Ok(())
    }

    /// The oldest connection of a stranger, from the network with most of them.
    fn oldest_of_the_crowd(&self) -> Option<ConnectionId> {
        let strangers = || self.open.iter().filter(|(_, open)| !self.kept.contains(&open.peer));
        let mut crowds: BTreeMap<Option<IpAddr>, usize> = BTreeMap::new();
        for (_, open) in strangers() {
            *crowds.entry(open.network()).or_default() += 1;
        }
        let most = crowds.values().max();
        strangers().find(|(_, open)| crowds.get(&open.network()) == most).map(|(id, _)| *id)
    }
}

impl NetworkBehaviour for Crowding {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.admit(&peer, outer_ip(remote)).map_err(ConnectionDenied::new)?;
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id: peer,
                connection_id,
                endpoint,
                ..
            }) if endpoint.is_listener() => {
                let address = outer_ip(endpoint.get_remote_address());
                self.open.insert(connection_id, Incoming { peer, address });
            }
            FromSwarm::ConnectionClosed(ConnectionClosed { connection_id, .. }) => {
                self.open.remove(&connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        // The swarm polls after it has let a connection in, so nobody needs to be woken.
        match self.closing.pop_front() {
            Some((peer_id, id)) => {
                Poll::Ready(ToSwarm::CloseConnection { peer_id, connection: CloseConnection::One(id) })
            }
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    fn full(incoming: u32) -> Crowding {
        Crowding::new(ConnectionLimits { incoming, ..ConnectionLimits::hub() })
    }

    fn enter(crowding: &mut Crowding, number: usize, address: Option<IpAddr>) -> Result<PeerId, TooMany> {
        let peer = PeerId::random();
        crowding.admit(&peer, address)?;
        crowding.open.insert(ConnectionId::new_unchecked(number), Incoming { peer, address });
        Ok(peer)
    }

    #[test]
    fn a_full_table_lets_newcomers_in_and_keeps_who_is_kept() {
        let mut crowding = full(3);
        let known = enter(&mut crowding, 0, None).unwrap();
        crowding.keep([known]);
        for number in 1..100 {
            enter(&mut crowding, number, None).unwrap();
        }
        let left = [0, 98, 99].map(ConnectionId::new_unchecked);
        assert_eq!(crowding.open.keys().copied().collect::<Vec<_>>(), left);
        assert_eq!(crowding.closing.len(), 97);
        assert!(crowding.closing.iter().all(|(peer, _)| *peer != known));
        let all: Vec<PeerId> = crowding.open.values().map(|open| open.peer).collect();
        crowding.keep(all);
        assert!(enter(&mut crowding, 100, None).is_err(), "who works is not sent away for a stranger");
    }

    #[test]
    fn one_address_and_one_network_take_a_share() {
        let mut crowding = full(480);
        let taken = (0..100).filter(|n| enter(&mut crowding, *n, ip("203.0.113.9")).is_ok()).count();
        assert_eq!(taken, 30);
        let mut number = 100;
        for last in 10..250 {
            number += 1;
            let _ = enter(&mut crowding, number, ip(&format!("203.0.113.{last}")));
        }
        assert_eq!(crowding.open.len(), 120);
        assert!(enter(&mut crowding, 1_000, ip("198.51.100.1")).is_ok());
        assert!(enter(&mut crowding, 1_001, None).is_ok(), "a network of one's own has no share");
    }
}
