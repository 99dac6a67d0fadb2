//! The handle to a running network host.
//!
//! One tokio task, the driver, owns the swarm. A [`Host`] sends it commands over a bounded channel
//! and waits for the answers; what peers do arrives in [`HostEvents`], over a bounded channel too.
//! The driver never waits for either side: when the events are not read fast enough, requests are
//! dropped (the requester sees a failure), gossip is ignored (not forwarded, nobody is blamed), and
//! connections and disconnections are reported later.

mod command;
mod driver;
mod event;
mod event_queue;
mod listen;

use std::time::Duration;

use libp2p::{Multiaddr, PeerId, Stream, StreamProtocol};
use libp2p_stream::Control;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

pub use event::{GossipVerdict, HostEvent, HostEvents, Responder};
pub use listen::can_listen;

use super::behaviour::control_codec::MAX_CONTROL_REQUEST;
use super::config::HostConfig;
use super::error::NetError;
use super::limits::{
    COMMAND_QUEUE, ConnectionLimits, DHT_READY_TIMEOUT, EVENT_QUEUE, MAX_DHT_KEY, MAX_REQUEST_TIMEOUT,
};
use super::streams::{IncomingStreams, accept_into_queue, open};
use super::swarm::build_swarm;
use super::transport::rate_limit::Pacing;
use crate::control::heartbeat::Reach;
use crate::program::descriptors;
use command::HostCommand;
use driver::{HostDriver, WatchSenders};

/// Most peers of one network answer the DHT within this time. It is also the pause between two looks at what
/// they said.
const OTHERS_ANSWER_WITHIN: Duration = Duration::from_millis(250);

/// A running host. Clones are handles to the same host, which stops when the last of them is dropped.
#[derive(Clone)]
pub struct Host {
    peer: PeerId,
    commands: mpsc::Sender<HostCommand>,
    listening: watch::Receiver<Vec<Multiaddr>>,
    routable: watch::Receiver<bool>,
    reach: watch::Receiver<Reach>,
    own: watch::Receiver<Vec<Multiaddr>>,
    streams: Control,
    pacing: Pacing,
    runtime: Handle,
}

impl Host {
    /// Builds the swarm, binds every address of `config.listen`, and starts the driver on
    /// the current tokio runtime.
    ///
    /// # Errors
    /// [`NetError::AddressInUse`], [`NetError::Listen`] or [`NetError::ListenTimeout`] for an
    /// address that cannot be bound, [`NetError::TooManyTopics`], and [`NetError::Build`] where
    /// the system lacks something.
    pub async fn start(mut config: HostConfig) -> Result<(Self, HostEvents), NetError> {
        config.limits = within_descriptors(config.limits);
        let pacing = Pacing::new(config.max_upload, config.max_download);
        let swarm = build_swarm(&config, &pacing)?;
        let (command_sender, command_receiver) = mpsc::channel(COMMAND_QUEUE);
        let (event_sender, event_receiver) = mpsc::channel(EVENT_QUEUE);
        let (listening_sender, listening) = watch::channel(Vec::new());
        let (routable_sender, routable) = watch::channel(false);
        let (reach_sender, reach) = watch::channel(Reach::Unknown);
        let (own_sender, own) = watch::channel(Vec::new());
        let host = Self {
            peer: *swarm.local_peer_id(),
            commands: command_sender,
            listening,
            routable,
            reach,
            own,
            streams: swarm.behaviour().streams.control(),
            pacing,
            runtime: Handle::current(),
        };
        let watch_senders = WatchSenders {
            listening: listening_sender,
            routable: routable_sender,
            reach: reach_sender,
            own: own_sender,
        };
        let mut driver = HostDriver::new(swarm, &config, command_receiver, event_sender, watch_senders);
        driver.listen(config.listen, config.external).await?;
        host.runtime.spawn(driver.run());
        Ok((host, HostEvents::new(event_receiver)))
    }

    /// The peer id of this host, made from its key.
    #[must_use]
    pub fn peer_id(&self) -> PeerId {
        self.peer
    }

    /// The addresses on which we listen, with their actual ports.
    #[must_use]
    pub fn listen_addrs(&self) -> Vec<Multiaddr> {
        self.listening.borrow().clone()
    }

    /// Whether others can connect to us. A host in [`DhtMode::Auto`](super::DhtMode::Auto) finds it
    /// out within seconds of connecting to one that dials it back. One in
    /// [`DhtMode::Server`](super::DhtMode::Server) is public by its operator's word. One that listens
    /// nowhere is private.
    #[must_use]
    pub fn reach(&self) -> Reach {
        *self.reach.borrow()
    }

    /// The addresses at which others may reach us, the most promising first: where somebody did,
    /// through a relay, and where we listen.
    #[must_use]
    pub fn own_addrs(&self) -> Vec<Multiaddr> {
        self.own.borrow().clone()
    }

    /// The caps on what we send and receive, and what has passed.
    #[must_use]
    pub fn pacing(&self) -> &Pacing {
        &self.pacing
    }

    /// Connects to a peer through `addrs` and whatever else is known of it. Returns when connected:
    /// at once if we are already, with the dial under way if there is one. A circuit through a
    /// relay is a connection, but where there is nothing else a direct one is tried. Addresses that
    /// are not [`dialable`](super::dialable) are ignored.
    ///
    /// # Errors
    /// [`NetError::Dial`] with the cause for every address, [`NetError::Blocked`],
    /// [`NetError::Busy`], and [`NetError::Stopped`] after the host was shut down.
    pub async fn dial(&self, peer: PeerId, addrs: Vec<Multiaddr>) -> Result<(), NetError> {
        self.ask(|reply| HostCommand::Dial { peer, addrs, reply }).await?
    }

    /// Remembers an address of a peer for later dials.
    ///
    /// False, and nothing is kept, if it is not [`dialable`](super::dialable).
    ///
    /// # Errors
    /// [`NetError::Stopped`] after the host was shut down.
    pub async fn add_address(&self, peer: PeerId, addr: Multiaddr) -> Result<bool, NetError> {
        self.ask(|reply| HostCommand::AddAddress { peer, addr, reply }).await
    }

    /// As [`Host::add_address`], for an address that a peer has told: no names, which somebody else would
    /// have us resolve, and addresses of our own machine only while somebody is connected from there.
    ///
    /// # Errors
    /// [`NetError::Stopped`] after the host was shut down.
    pub async fn hear_address(&self, peer: PeerId, addr: Multiaddr) -> Result<bool, NetError> {
        self.ask(|reply| HostCommand::HearAddress { peer, addr, reply }).await
    }

    /// The addresses known of a peer, the most promising first, without `/p2p/…` at their
    /// ends. Empty after shutdown.
    pub async fn known_addresses(&self, peer: PeerId) -> Vec<Multiaddr> {
        self.ask(|reply| HostCommand::KnownAddresses { peer, reply }).await.unwrap_or_default()
    }

    /// The peers to which we are connected, in order. Empty after shutdown.
    pub async fn connected_peers(&self) -> Vec<PeerId> {
        self.ask(|reply| HostCommand::ConnectedPeers { reply }).await.unwrap_or_default()
    }

    /// Closes every connection with a peer. Its next one is welcome.
    ///
    /// # Errors
    /// [`NetError::Stopped`] after the host was shut down.
    pub async fn disconnect(&self, peer: PeerId) -> Result<(), NetError> {
        self.ask(|reply| HostCommand::Disconnect { peer, reply }).await
    }

    /// Closes every connection with a peer, and refuses and makes none until [`Host::unblock`]. At most
    /// [`MAX_BLOCKED`](super::limits::MAX_BLOCKED) peers are blocked.
    ///
    /// # Errors
    /// [`NetError::Stopped`] after the host was shut down.
    pub async fn block(&self, peer: PeerId) -> Result<(), NetError> {
        self.ask(|reply| HostCommand::Block { peer, reply }).await
    }

    /// Keeps the connections of these peers, and of no others, when too many are connected: those of others
    /// make room for newcomers. Under a cap on what is sent, streams to these peers come before those to
    /// others.
    ///
    /// # Errors
    /// [`NetError::Stopped`] after the host was shut down.
    pub async fn keep(&self, peers: Vec<PeerId>) -> Result<(), NetError> {
        self.pacing.keep(peers.iter().copied());
        self.ask(|reply| HostCommand::Keep { peers, reply }).await
    }

    /// Lets a blocked peer in again.
    ///
    /// # Errors
    /// [`NetError::Stopped`] after the host was shut down.
    pub async fn unblock(&self, peer: PeerId) -> Result<(), NetError> {
        self.ask(|reply| HostCommand::Unblock { peer, reply }).await
    }

    /// Sends a control request of at most [`MAX_CONTROL_REQUEST`] bytes and waits for the response,
    /// for at most `timeout` (capped at [`MAX_REQUEST_TIMEOUT`]). Dials the peer first if need be
    /// and an address is known.
    ///
    /// # Errors
    /// [`NetError::RequestTooLarge`] before anything is sent; [`NetError::NoAnswer`] when the peer
    /// dropped the request; the other request variants of [`NetError`] say what they mean.
    pub async fn request(&self, peer: PeerId, body: Vec<u8>, timeout: Duration) -> Result<Vec<u8>, NetError> {
        if body.len() > MAX_CONTROL_REQUEST {
            return Err(NetError::RequestTooLarge { len: body.len(), cap: MAX_CONTROL_REQUEST });
        }
        let after = timeout.min(MAX_REQUEST_TIMEOUT);
        tokio::time::timeout(after, self.ask(|reply| HostCommand::Request { peer, body, reply }))
            .await
            .unwrap_or(Err(NetError::RequestTimeout { peer, after }))?
    }

    /// Publishes a message on one of the topics of our configuration, to a few of the peers that
    /// subscribe to it, who forward it once they have validated it.
    ///
    /// # Errors
    /// [`NetError::NoSubscribers`] when no connected peer is known to subscribe: nothing was sent,
    /// try again later. [`NetError::AlreadyPublished`] when the same bytes went over this topic
    /// within the last two minutes, from us or from others. [`NetError::UnknownTopic`],
    /// [`NetError::GossipTooLarge`], [`NetError::GossipBackedUp`].
    pub async fn publish(&self, topic: &str, data: Vec<u8>) -> Result<(), NetError> {
        let topic = topic.to_owned();
        self.ask(|reply| HostCommand::Publish { topic, data, reply }).await?
    }

    /// Looks a peer up in the DHT and returns its addresses, together with those known
    /// already. Empty if nobody knows it. Peers in DHT client mode are found only as long
    /// as somebody remembers them.
    ///
    /// # Errors
    /// [`NetError::NoDhtPeers`] when no DHT server is known after [`DHT_READY_TIMEOUT`].
    pub async fn find_peer(&self, peer: PeerId) -> Result<Vec<Multiaddr>, NetError> {
        self.dht_ready().await?;
        self.ask(|reply| HostCommand::FindPeer { peer, reply }).await?
    }

    /// Looks a peer up like [`find_peer`](Self::find_peer), and answers as soon as the DHT has named
    /// addresses that were not known, and others have had a moment to name more. The flag says whether
    /// everybody was asked. A lookup ends only when those have been given up that have vanished without a
    /// word, which takes seconds for each; but an early answer may be where the peer was before.
    ///
    /// # Errors
    /// As those of [`find_peer`](Self::find_peer).
    pub async fn find_peer_early(&self, peer: PeerId) -> Result<(Vec<Multiaddr>, bool), NetError> {
        tokio::select! {
            found = self.find_peer(peer) => Ok((found?, true)),
            found = self.first_found(peer) => Ok((found?, false)),
        }
    }

    /// The addresses that the DHT has named, a moment after the first.
    async fn first_found(&self, peer: PeerId) -> Result<Vec<Multiaddr>, NetError> {
        let mut is_last = false;
        loop {
            tokio::time::sleep(OTHERS_ANSWER_WITHIN).await;
            let found = self.ask(|reply| HostCommand::FoundSoFar { peer, reply }).await?;
            if is_last {
                return Ok(found);
            }
            is_last = !found.is_empty();
        }
    }

    /// Announces in the DHT that we provide `key`, and again every few minutes for as long as the host runs.
    ///
    /// # Errors
    /// [`NetError::NoDhtPeers`], [`NetError::DhtKeyTooLong`], [`NetError::DhtTimeout`],
    /// [`NetError::DhtFull`].
    pub async fn provide(&self, key: Vec<u8>) -> Result<(), NetError> {
        check_key(&key)?;
        self.dht_ready().await?;
        self.ask(|reply| HostCommand::Provide { key, reply }).await?
    }

    /// The peers (without ourselves, in order) that provide `key`, as many as were found
    /// before the query ended.
    ///
    /// # Errors
    /// [`NetError::NoDhtPeers`], [`NetError::DhtKeyTooLong`]; [`NetError::Stopped`] when shut down.
    pub async fn providers(&self, key: Vec<u8>) -> Result<Vec<PeerId>, NetError> {
        check_key(&key)?;
        self.dht_ready().await?;
        self.ask(|reply| HostCommand::Providers { key, reply }).await?
    }

    /// Fills the routing table. Done by itself every two minutes and when a new peer comes in.
    ///
    /// # Errors
    /// [`NetError::NoDhtPeers`], [`NetError::DhtTimeout`]; [`NetError::Stopped`] when shut down.
    pub async fn bootstrap_dht(&self) -> Result<(), NetError> {
        self.dht_ready().await?;
        self.ask(|reply| HostCommand::BootstrapDht { reply }).await?
    }

    /// Opens a stream under `protocol` (one of `protocol_names`), dialling the peer first if need
    /// be, and returns it when the acceptor has taken it into its queue. Streams run over direct
    /// connections, whoever opened those, and never through a relay.
    ///
    /// # Errors
    /// [`NetError::OnlyRelayed`] when only a relay connects us: a direct connection may come up by
    /// itself soon. [`NetError::StreamRefused`] when the acceptor's queue is full,
    /// [`NetError::StreamUnsupported`] when the peer does not accept this protocol,
    /// [`NetError::StreamTimeout`], [`NetError::StreamFailed`], and those of [`Host::dial`].
    pub async fn open_stream(&self, peer: PeerId, protocol: &'static str) -> Result<Stream, NetError> {
        stream_protocol(protocol)?;
        // libp2p-stream would dial by itself, but an opener whose dial is refused locally
        // would wait for ever.
        self.dial(peer, Vec::new()).await?;
        if !self.ask(|reply| HostCommand::IsDirect { peer, reply }).await? {
            return Err(NetError::OnlyRelayed { peer, protocol });
        }
        open(&self.streams, peer, protocol).await
    }

    /// Accepts the streams that peers open under `protocol`, until the returned value is dropped.
    ///
    /// # Errors
    /// [`NetError::AcceptTaken`] while an earlier acceptor of this protocol lives,
    /// [`NetError::BadProtocolName`].
    pub fn accept(&self, protocol: &'static str) -> Result<IncomingStreams, NetError> {
        let name = stream_protocol(protocol)?;
        let inbound = self.streams.clone().accept(name);
        let inbound = inbound.map_err(|_| NetError::AcceptTaken { protocol })?;
        let (incoming, task) = accept_into_queue(inbound);
        self.runtime.spawn(task);
        Ok(incoming)
    }

    /// Closes every connection and socket, and returns when that is done.
    ///
    /// Other handles get [`NetError::Stopped`] from then on.
    pub async fn shutdown(&self) {
        // Already stopped is as good.
        self.ask(|reply| HostCommand::Shutdown { reply }).await.unwrap_or(());
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> HostCommand) -> Result<T, NetError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| NetError::Stopped)?;
        answer.await.map_err(|_| NetError::Stopped)
    }

    async fn dht_ready(&self) -> Result<(), NetError> {
        let mut routable = self.routable.clone();
        match timeout(DHT_READY_TIMEOUT, routable.wait_for(|routable| *routable)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(NetError::Stopped),
            Err(_) => Err(NetError::NoDhtPeers),
        }
    }
}

/// Raises what this process may open, and keeps no more connections than that allows.
fn within_descriptors(wanted: ConnectionLimits) -> ConnectionLimits {
    let descriptors = descriptors::raise();
    let limits = wanted.within(descriptors);
    if limits != wanted {
        tracing::warn!(
            "this process may open {descriptors} files: it keeps {} connections of others and not {}. Raise the hard limit \
             (ulimit -Hn, LimitNOFILE of systemd) for more",
            limits.incoming,
            wanted.incoming
        );
    }
    limits
}

fn check_key(key: &[u8]) -> Result<(), NetError> {
    if key.len() > MAX_DHT_KEY {
        return Err(NetError::DhtKeyTooLong { len: key.len(), cap: MAX_DHT_KEY });
    }
    Ok(())
}

fn stream_protocol(name: &'static str) -> Result<StreamProtocol, NetError> {
    StreamProtocol::try_from_owned(name.to_owned()).map_err(|_| NetError::BadProtocolName { protocol: name })
}

#[cfg(test)]
mod tests;
