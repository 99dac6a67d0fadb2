//! The task that owns the swarm.
//!
//! It does one thing at a time and never waits for anything but the next thing to do. The files
//! below it each add one concern to [`HostDriver`]: connections, dials, control messages, gossip,
//! the DHT, and being reached.

mod connections;
mod control;
mod dht;
mod dialling;
mod duplicate_identity;
mod gossip;
mod reachability;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use libp2p::core::transport::ListenerId;
use libp2p::kad::QueryId;
use libp2p::request_response::OutboundRequestId;
use libp2p::swarm::{ConnectionId, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, ping};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::command::{HostCommand, ReplySender};
use super::event::HostEvent;
use super::event_queue::Announcer;
use super::listen::{INTERFACES_WITHIN, LISTEN_TIMEOUT, can_listen, is_wildcard};
use crate::control::heartbeat::Reach;
use crate::net::addresses::book::AddressBook;
use crate::net::addresses::dialable;
use crate::net::behaviour::{EchoBehaviour, EchoBehaviourEvent};
use crate::net::config::{DhtMode, HostConfig};
use crate::net::error::NetError;
use crate::net::reachability::findings::Reachability;
use crate::program::log_throttle::Paced;

/// Connections have this long to say goodbye when the host stops.
const GOODBYE: Duration = Duration::from_secs(2);

/// What goes wrong again and again has one line a minute.
static TROUBLE: Paced = Paced::new(Duration::from_secs(60));

/// The swarm and what is under way in it. Every table has its limit in [`limits`](crate::net::limits).
pub(super) struct HostDriver {
    swarm: Swarm<EchoBehaviour>,
    commands: mpsc::Receiver<HostCommand>,
    announcer: Announcer,
    book: AddressBook,
    /// Every open connection, by libp2p's number.
    links: BTreeMap<ConnectionId, connections::OpenConnection>,
    /// Which processes they lead to.
    twins: duplicate_identity::Twins,
    /// Blocked peers, the one blocked longest ago in front.
    blocked: VecDeque<PeerId>,
    /// Dials for which somebody waits.
    dials: BTreeMap<PeerId, dialling::Dial>,
    /// Own requests, by the id under which libp2p answers.
    requests: BTreeMap<OutboundRequestId, ReplySender<Vec<u8>>>,
    /// Requests of others for whose reply we wait.
    replies: FuturesUnordered<BoxFuture<'static, control::Replied>>,
    /// Gossip messages for whose verdict we wait.
    verdicts: FuturesUnordered<BoxFuture<'static, gossip::JudgedMessage>>,
    /// Peers that handed on bad messages, since when and how many.
    bad_gossip: BTreeMap<PeerId, (Instant, u32)>,
    /// DHT queries for which somebody waits.
    queries: HashMap<QueryId, dht::Query>,
    mode: DhtMode,
    /// Whether it answers the DHT, as far as others can reach it.
    answers_dht: bool,
    reachability: Reachability,
    relays: reachability::Relays,
    /// Tells the handles on which addresses we listen.
    listening: watch::Sender<Vec<Multiaddr>>,
    /// Tells the handles that the routing table has had a peer.
    routable: watch::Sender<bool>,
    /// Tells the handles whether others can connect to us.
    reach: watch::Sender<Reach>,
    /// Tells the handles where others may reach us.
    own: watch::Sender<Vec<Multiaddr>>,
}

/// Where the driver tells the handles how things stand.
pub(super) struct WatchSenders {
    pub(super) listening: watch::Sender<Vec<Multiaddr>>,
    pub(super) routable: watch::Sender<bool>,
    pub(super) reach: watch::Sender<Reach>,
    pub(super) own: watch::Sender<Vec<Multiaddr>>,
}

impl HostDriver {
    pub(super) fn new(
        swarm: Swarm<EchoBehaviour>,
        config: &HostConfig,
        commands: mpsc::Receiver<HostCommand>,
        events: mpsc::Sender<HostEvent>,
        watch_senders: WatchSenders,
    ) -> Self {
        let WatchSenders { listening, routable, reach, own } = watch_senders;
        Self {
            swarm,
            commands,
            announcer: Announcer::new(events),
            book: AddressBook::default(),
            links: BTreeMap::new(),
            twins: duplicate_identity::Twins::default(),
            blocked: VecDeque::new(),
            dials: BTreeMap::new(),
            requests: BTreeMap::new(),
            replies: FuturesUnordered::new(),
            verdicts: FuturesUnordered::new(),
            bad_gossip: BTreeMap::new(),
            queries: HashMap::new(),
            mode: config.mode,
            answers_dht: config.answers_dht(),
            reachability: Reachability::default(),
            relays: reachability::Relays::default(),
            listening,
            routable,
            reach,
            own,
        }
    }

    /// Binds all addresses, and returns when each is bound. At those of `external` our operator says
    /// that others reach us.
    pub(super) async fn listen(
        &mut self,
        addrs: Vec<Multiaddr>,
        external: Vec<Multiaddr>,
    ) -> Result<(), NetError> {
        self.begin_reaching(external.into_iter().filter(dialable).collect(), addrs.is_empty());
        let deadline = Instant::now() + LISTEN_TIMEOUT;
        let has_wildcard = addrs.iter().any(is_wildcard);
        let mut unbound: Vec<(ListenerId, Multiaddr)> = Vec::new();
        for addr in addrs {
            can_listen(&addr)?;
            let listener = self.swarm.listen_on(addr.clone());
            let listener = listener
                .map_err(|error| NetError::Listen { addr: addr.clone(), cause: error.to_string() })?;
            unbound.push((listener, addr));
        }
        while let Some((_, waiting)) = unbound.first() {
            let Ok(event) = timeout_at(deadline, self.swarm.select_next_some()).await else {
                return Err(NetError::ListenTimeout { addr: waiting.clone(), after: LISTEN_TIMEOUT });
            };
            match &event {
                SwarmEvent::NewListenAddr { listener_id, .. } => unbound.retain(|(id, _)| id != listener_id),
                SwarmEvent::ListenerClosed { listener_id, reason, .. } => {
                    if let Some((_, addr)) = unbound.iter().find(|(id, _)| id == listener_id) {
                        let cause = match reason {
                            Ok(()) => "the listener closed at once".to_owned(),
                            Err(error) => error.to_string(),
                        };
                        return Err(NetError::Listen { addr: addr.clone(), cause });
                    }
                }
                _ => {}
            }
            self.on_swarm_event(event);
        }
        if has_wildcard {
            let until = Instant::now() + INTERFACES_WITHIN;
            while let Ok(event) = timeout_at(until, self.swarm.select_next_some()).await {
                self.on_swarm_event(event);
            }
        }
        Ok(())
    }

    /// Runs until shutdown is asked for or the last handle is gone.
    pub(super) async fn run(mut self) {
        let asked = loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_swarm_event(event),
                command = self.commands.recv() => match command {
                    Some(HostCommand::Shutdown { reply }) => break Some(reply),
                    Some(command) => self.on_command(command),
                    None => break None,
                },
                Some(replied) = self.replies.next(), if !self.replies.is_empty() => self.send_reply(replied),
                Some(judged) = self.verdicts.next(), if !self.verdicts.is_empty() => self.apply_verdict(judged),
                () = self.announcer.catch_up(), if self.announcer.is_behind() => {}
            }
        };
        self.say_goodbye().await;
        drop(self);
        if let Some(reply) = asked {
            answer(reply, ());
        }
    }

    async fn say_goodbye(&mut self) {
        let peers: Vec<PeerId> = self.swarm.connected_peers().copied().collect();
        for peer in peers {
            // Not connected any more is as good.
            self.swarm.disconnect_peer_id(peer).unwrap_or(());
        }
        let deadline = Instant::now() + GOODBYE;
        while self.swarm.connected_peers().next().is_some() {
            if timeout_at(deadline, self.swarm.select_next_some()).await.is_err() {
                tracing::debug!("some connections did not close in time");
                return;
            }
        }
    }

    fn on_command(&mut self, command: HostCommand) {
        match command {
            HostCommand::Dial { peer, addrs, reply } => self.dial(peer, addrs, reply),
            HostCommand::AddAddress { peer, addr, reply } => answer(reply, self.give_address(peer, addr)),
            HostCommand::HearAddress { peer, addr, reply } => answer(reply, self.hear_address(peer, addr)),
            HostCommand::KnownAddresses { peer, reply } => answer(reply, self.book.addresses(&peer)),
            HostCommand::ConnectedPeers { reply } => answer(reply, self.connected_peers()),
            HostCommand::IsDirect { peer, reply } => answer(reply, self.is_direct(&peer)),
            HostCommand::Disconnect { peer, reply } => {
                // Not connected is as good.
                self.swarm.disconnect_peer_id(peer).unwrap_or(());
                answer(reply, ());
            }
            HostCommand::Block { peer, reply } => {
                self.block(peer);
                answer(reply, ());
            }
            HostCommand::Keep { peers, reply } => {
                self.swarm.behaviour_mut().crowding.keep(peers);
                answer(reply, ());
            }
            HostCommand::Unblock { peer, reply } => {
                self.unblock(peer);
                answer(reply, ());
            }
            HostCommand::Request { peer, body, reply } => self.request(peer, body, reply),
            HostCommand::Publish { topic, data, reply } => answer(reply, self.publish(topic, data)),
            HostCommand::FindPeer { peer, reply } => self.find_peer(peer, reply),
            HostCommand::FoundSoFar { peer, reply } => answer(reply, self.found_so_far(peer)),
            HostCommand::Provide { key, reply } => self.provide(key, reply),
            HostCommand::Providers { key, reply } => self.providers(key, reply),
            HostCommand::BootstrapDht { reply } => self.bootstrap_dht(reply),
            HostCommand::Shutdown { reply } => answer(reply, ()),
        }
    }

    fn on_swarm_event(&mut self, event: SwarmEvent<EchoBehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(EchoBehaviourEvent::Control(event)) => self.on_control(event),
            SwarmEvent::Behaviour(EchoBehaviourEvent::Gossip(event)) => self.on_gossip(event),
            SwarmEvent::Behaviour(EchoBehaviourEvent::Kad(event)) => self.on_kad(event),
            SwarmEvent::Behaviour(EchoBehaviourEvent::Identify(event)) => self.on_identify(event),
            SwarmEvent::Behaviour(EchoBehaviourEvent::Ping(event)) => self.on_ping(event),
            SwarmEvent::Behaviour(EchoBehaviourEvent::Probe(event)) => self.on_probed(event),
            SwarmEvent::Behaviour(EchoBehaviourEvent::Punch(event)) => self.on_punched(&event),
            SwarmEvent::ExternalAddrConfirmed { address } => self.on_reached(address),
            SwarmEvent::ExternalAddrExpired { address } => self.on_reached_no_more(&address),
            SwarmEvent::ConnectionEstablished {
                peer_id, connection_id, endpoint, num_established, ..
            } => {
                self.on_connected(peer_id, connection_id, &endpoint, num_established.get());
            }
            SwarmEvent::ConnectionClosed { peer_id, connection_id, cause, num_established, .. } => {
                self.on_closed(peer_id, connection_id, cause, num_established);
            }
            SwarmEvent::OutgoingConnectionError { connection_id, peer_id: Some(peer), error } => {
                self.dial_failed(peer, connection_id, &error);
            }
            SwarmEvent::NewListenAddr { address, .. } => self.on_listening(address),
            SwarmEvent::ExpiredListenAddr { address, .. } => self.on_listening_no_more(&address),
            SwarmEvent::ListenerClosed { listener_id, addresses, reason } => {
                if !self.lost_place(listener_id) {
                    tracing::warn!(?addresses, ?reason, "a listener closed");
                }
                self.tell_addresses();
            }
            SwarmEvent::ListenerError { error, .. } => {
                // It comes at every connection that cannot be taken in.
                if let Some(times) = TROUBLE.due("a listener failed") {
                    tracing::warn!(%error, times, "a listener failed");
                }
            }
            SwarmEvent::IncomingConnectionError { error, .. } => {
                tracing::debug!(%error, "an incoming connection failed");
            }
            _ => {}
        }
    }

    fn on_ping(&mut self, event: ping::Event) {
        match event.result {
            Ok(_) => self.look_for_twin(event.peer, event.connection),
            Err(ping::Failure::Unsupported) => {}
            Err(failure) => {
                tracing::debug!(peer = %event.peer, %failure, "closing a dead connection");
                self.swarm.close_connection(event.connection);
            }
        }
    }
}

/// Answers a caller, who may have given up waiting.
fn answer<T>(caller: oneshot::Sender<T>, value: T) {
    if caller.send(value).is_err() {
        tracing::trace!("a caller did not wait for its answer");
    }
}
