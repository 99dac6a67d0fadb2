//! Dialling others back, so that they learn whether they can be reached.

mod quota;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use either::Either;
use libp2p::autonat::v2::server;
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::behaviour::{ConnectionClosed, ConnectionEstablished, DialFailure};
use libp2p::swarm::{
    CloseConnection, ConnectionDenied, ConnectionId, DialError, FromSwarm, NetworkBehaviour, THandler,
    THandlerInEvent, THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::net::addresses::{believable, is_local, is_relayed, network_of};
use crate::net::peer_id::connections_of;
use quota::Quota;

/// A trial that takes longer has failed. The asker gives its question up after ten seconds, and
/// before the trial it sends up to 100 kB; where packets are dropped silently, as most routers do,
/// this is what says that it cannot be reached.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The server of AutoNAT v2, made harmless.
///
/// It dials nobody but the asker: no names to be resolved, no place in our own network for somebody
/// from afar, and no other network than that where we see the asker, unless of the other version of
/// IP. So it is of no use to look for open ports elsewhere; and as it asks for tens of kilobytes
/// before it dials, it amplifies nothing. The trials of a network within a minute are limited, and
/// so are all at once. An asker who wanted too much is not answered, as its address may be good,
/// and may ask again. A connection that was only a trial is closed when it is over.
pub(in crate::net) struct DialBack {
    server: server::Behaviour,
    /// Whether those that connect from now on may ask.
    open: bool,
    /// The asker's own address, of every connection over which somebody may ask.
    askers: BTreeMap<(PeerId, ConnectionId), Multiaddr>,
    /// The dial that the swarm is about to make, and who asked for it.
    next: Option<(ConnectionId, PeerId)>,
    /// Dials and connections that are trials, in the order in which they began.
    trials: BTreeMap<ConnectionId, Trial>,
    /// Trials that there may be at once.
    max_trials: usize,
    quota: Quota,
    /// When the next trial has taken too long.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// A dial or a connection that shows whether somebody can be reached.
struct Trial {
    peer: PeerId,
    address: Multiaddr,
    until: Instant,
    connected: bool,
    /// The asker has its answer, or will get none.
    over: bool,
}

/// An address that the asker may not name.
#[derive(Debug, thiserror::Error)]
#[error("nobody is dialled back at an address that is not the asker's")]
struct NotTheirs;

/// Too much at once.
#[derive(Debug, thiserror::Error)]
#[error("too many are dialled back")]
struct TooMany;

impl DialBack {
    /// Nobody may ask yet.
    pub(in crate::net) fn new(max_trials: usize) -> Self {
        Self {
            server: server::Behaviour::default(),
            open: false,
            askers: BTreeMap::new(),
            next: None,
            trials: BTreeMap::new(),
            max_trials,
            quota: Quota::default(),
            alarm: None,
        }
    }

    /// Lets those that connect from now on ask, or not.
    pub(in crate::net) fn open(&mut self, open: bool) {
        self.open = open;
    }

    /// The network from which somebody asks who may name this address.
    fn may_name(&self, peer: PeerId, address: &Multiaddr) -> Option<IpAddr> {
        let named = network_of(address)?;
        self.askers.range(connections_of(peer)).find_map(|(_, via)| {
            let network = network_of(via)?;
            let theirs = named == network || named.is_ipv4() != network.is_ipv4();
            (theirs && believable(address, via) && (!is_local(address) || is_local(via))).then_some(network)
        })
    }

    /// Begins a trial, if it may be.
    fn begin(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        addresses: &[Multiaddr],
    ) -> Result<(), ConnectionDenied> {
        let named = addresses.first().and_then(|address| Some((address, self.may_name(peer, address)?)));
        let Some((address, network)) = named else {
            self.fail(id, peer);
            return Err(ConnectionDenied::new(NotTheirs));
        };
        let now = Instant::now();
        if self.trials.len() >= self.max_trials || !self.quota.take(now, network) {
            return Err(ConnectionDenied::new(TooMany));
        }
        let until = now + TRIAL_TIMEOUT;
        let trial = Trial { peer, address: address.clone(), until, connected: false, over: false };
        self.trials.insert(id, trial);
        Ok(())
    }

    /// Tells an asker that it cannot be reached, if it waits still.
    fn fail(&mut self, connection_id: ConnectionId, peer: PeerId) {
        self.server.on_swarm_event(FromSwarm::DialFailure(DialFailure {
            peer_id: Some(peer),
            error: &DialError::Aborted,
            connection_id,
        }));
    }

    /// Leaves an asker without an answer, if it waits still.
    fn forget(&mut self, id: ConnectionId, peer: PeerId) {
        let (nowhere, role, port) = (Multiaddr::empty(), Endpoint::Dialer, PortUse::New);
        // The answer is given by whoever owns the handler, and goes with it.
        drop(self.server.handle_established_outbound_connection(id, peer, &nowhere, role, port));
    }

    /// Ends the trials that have taken too long, and returns when the next one will have.
    fn end_late(&mut self, now: Instant) -> Option<Instant> {
        while let Some((&id, trial)) = self.trials.iter_mut().find(|(_, trial)| !trial.over) {
            if trial.until > now {
                return Some(trial.until);
            }
            trial.over = true;
            let peer = trial.peer;
            self.fail(id, peer);
        }
        None
    }

    /// An asker has its answer.
    fn answered(&mut self, client: PeerId, tested: &Multiaddr) {
        let asked = |trial: &&mut Trial| !trial.over && trial.peer == client && trial.address == *tested;
        if let Some(trial) = self.trials.values_mut().find(asked) {
            trial.over = true;
        }
    }

    /// A connection that has served its purpose.
    fn take_spent(&mut self) -> Option<(ConnectionId, PeerId)> {
        let (&id, trial) = self.trials.iter().find(|(_, trial)| trial.over && trial.connected)?;
        let peer = trial.peer;
        self.trials.remove(&id);
        Some((id, peer))
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
        if !self.open || is_relayed(local) {
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
        if let Some((_, peer)) = self.next.take_if(|(next, _)| *next == id) {
            self.begin(id, peer, addresses)?;
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
        self.server.handle_established_outbound_connection(id, peer, remote, role, port).map(Either::Left)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                ..
            }) => {
                if let Some(trial) = self.trials.get_mut(&connection_id) {
                    trial.connected = true;
                }
                if endpoint.is_listener() && !endpoint.is_relayed() {
                    self.askers.insert((peer_id, connection_id), endpoint.get_remote_address().clone());
                }
            }
            FromSwarm::ConnectionClosed(ConnectionClosed { peer_id, connection_id, .. }) => {
                self.askers.remove(&(peer_id, connection_id));
                self.trials.remove(&connection_id);
            }
            FromSwarm::DialFailure(DialFailure { peer_id, error, connection_id }) => {
                self.trials.remove(&connection_id);
                // Denied here: the address was not tried.
                if let (DialError::Denied { .. }, Some(peer)) = (error, peer_id) {
                    self.forget(connection_id, peer);
                }
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
            let next_end = self.end_late(Instant::now());
            if let Some((id, peer_id)) = self.take_spent() {
                return Poll::Ready(ToSwarm::CloseConnection {
                    peer_id,
                    connection: CloseConnection::One(id),
                });
            }
            match self.server.poll(cx) {
                Poll::Ready(ToSwarm::GenerateEvent(server::Event { client, tested_addr, .. })) => {
                    self.answered(client, &tested_addr);
                    continue;
                }
                Poll::Ready(action) => {
                    if let ToSwarm::Dial { opts } = &action {
                        self.next = opts.get_peer_id().map(|peer| (opts.connection_id(), peer));
                    }
                    return Poll::Ready(action.map_in(Either::Left));
                }
                Poll::Pending => {}
            }
            let Some(until) = next_end else { return Poll::Pending };
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if alarm.deadline() != until {
                alarm.as_mut().reset(until);
            }
            ready!(alarm.as_mut().poll(cx));
        }
    }
}

#[cfg(test)]
mod tests;
