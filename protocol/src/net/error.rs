//! What can go wrong with a host.

use std::io;
use std::time::Duration;

use libp2p::{Multiaddr, PeerId};

use super::protocol_names;

/// Why a host could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// A part of the swarm could not be built.
    #[error("cannot set up {what}: {cause}")]
    Build {
        /// The part, such as TLS or the resolver.
        what: &'static str,
        /// The library's own message.
        cause: String,
    },
    /// The system allows no more threads.
    #[error("cannot start a thread {what}: {source}")]
    Thread {
        /// What it is for.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// More topics than a host may have.
    #[error("{topics} gossip topics are more than the {cap} that a host may have; configure fewer")]
    TooManyTopics {
        /// How many topics the configuration names.
        topics: usize,
        /// How many a host may have: [`MAX_TOPICS`](super::limits::MAX_TOPICS).
        cap: usize,
    },
    /// Somebody else listens there.
    #[error("cannot listen on {addr}: the address is in use; stop the other program or choose another port")]
    AddressInUse {
        /// The configured address whose port is taken.
        addr: Multiaddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {cause}; check the listen addresses")]
    Listen {
        /// The configured address that the system refused.
        addr: Multiaddr,
        /// What the system says.
        cause: String,
    },
    /// The system neither bound the address nor refused it.
    #[error("cannot listen on {addr}: not bound after {after:?}; is a network interface up?")]
    ListenTimeout {
        /// The configured address that was never reported as bound.
        addr: Multiaddr,
        /// How long we waited.
        after: Duration,
    },
    /// No address of the peer led to it.
    #[error("cannot connect to {peer}: {causes}")]
    Dial {
        /// The peer that was dialled.
        peer: PeerId,
        /// The cause for every address tried.
        causes: String,
    },
    /// The peer was blocked by our own process.
    #[error("{peer} is blocked; unblock it first")]
    Blocked {
        /// The peer that is on the block list.
        peer: PeerId,
    },
    /// Too much of one thing is under way.
    #[error("{cap} {what} are under way, which is the most; wait for some to end")]
    Busy {
        /// What there is too much of.
        what: &'static str,
        /// How many there may be.
        cap: usize,
    },
    /// The request is longer than peers take.
    #[error("a request of {len} bytes is longer than the {cap} bytes that peers take; use a stream")]
    RequestTooLarge {
        /// Its length in bytes.
        len: usize,
        /// The longest in bytes.
        cap: usize,
    },
    /// The response is longer than the requester takes.
    #[error(
        "a response of {len} bytes is longer than the {cap} bytes that the requester takes; use a stream"
    )]
    ResponseTooLarge {
        /// Its length in bytes.
        len: usize,
        /// The longest in bytes.
        cap: usize,
    },
    /// Nobody waits for this reply any more.
    #[error("the requester does not wait any more; reply sooner")]
    RequesterGone,
    /// The peer could not be dialled to send it a request.
    #[error(
        "cannot send a request to {peer}: not connected, and no known address of it answers; dial it first"
    )]
    NotConnected {
        /// The peer that none of its known addresses led to.
        peer: PeerId,
    },
    /// No response in time.
    #[error("{peer} did not respond within {after:?}; it may have acted on the request")]
    RequestTimeout {
        /// The peer that the request went to.
        peer: PeerId,
        /// How long we waited.
        after: Duration,
    },
    /// The connection closed before the response.
    #[error("the connection to {peer} closed before it responded; it may have acted on the request")]
    ConnectionLost {
        /// The peer whose connection closed.
        peer: PeerId,
    },
    /// The peer does not speak our control protocol.
    #[error(
        "{peer} does not take requests of {}; is it of this network and version?",
        protocol_names::CONTROL
    )]
    RequestUnsupported {
        /// The peer that has no control protocol.
        peer: PeerId,
    },
    /// The peer closed the stream without a response.
    #[error("{peer} dropped the request ({cause}); it refuses it or is overloaded, try again later")]
    NoAnswer {
        /// The peer that closed the stream.
        peer: PeerId,
        /// What the stream says.
        cause: io::Error,
    },
    /// The response breaks the rules of the protocol.
    #[error("{peer} sent a response that breaks the protocol: {cause}; do not ask it again")]
    BadAnswer {
        /// The peer that sent the response.
        peer: PeerId,
        /// The rule that the response breaks.
        cause: io::Error,
    },
    /// The topic is not among the host's.
    #[error("the topic {topic} is not configured; name it when the host starts")]
    UnknownTopic {
        /// The topic that the host was not configured with.
        topic: String,
    },
    /// Nobody to send the message to.
    #[error("no connected peer subscribes to {topic}; nothing was sent, publish again when peers are there")]
    NoSubscribers {
        /// The topic without subscribers.
        topic: String,
    },
    /// The message is longer than peers take.
    #[error("a gossip message of {len} bytes is longer than the {cap} bytes allowed; announce less")]
    GossipTooLarge {
        /// Its length in bytes.
        len: usize,
        /// The longest in bytes.
        cap: usize,
    },
    /// The same bytes went over the topic a moment ago.
    #[error("the same message went over {topic} a moment ago; there is nothing to do")]
    AlreadyPublished {
        /// The topic on which the message is known.
        topic: String,
    },
    /// Every peer's queue is full.
    #[error("the queues of all peers on {topic} are full; publish again later")]
    GossipBackedUp {
        /// The topic whose queues are full.
        topic: String,
    },
    /// The message could not be put into its envelope.
    #[error("cannot publish on {topic}: {cause}")]
    GossipFailed {
        /// The topic of the message.
        topic: String,
        /// The error message of gossipsub.
        cause: String,
    },
    /// No DHT server is known.
    #[error("no peer is known that serves the DHT; connect to a bootstrap node first")]
    NoDhtPeers,
    /// The key is too long.
    #[error("a DHT key of {len} bytes is longer than the {cap} bytes allowed; use a hash")]
    DhtKeyTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest in bytes.
        cap: usize,
    },
    /// The query ended without a result.
    #[error("the DHT query to {what} took too long; try again later")]
    DhtTimeout {
        /// What it was to do.
        what: &'static str,
    },
    /// The own store of provided keys is full.
    #[error("cannot provide one more key in the DHT: {cause}")]
    DhtFull {
        /// What the store says.
        cause: String,
    },
    /// A name of a stream protocol without `/` in front.
    #[error("{protocol:?} is not the name of a protocol; it must begin with a slash")]
    BadProtocolName {
        /// The name as it was passed in.
        protocol: &'static str,
    },
    /// The protocol has an acceptor already.
    #[error("streams of {protocol} are accepted already; drop the other acceptor first")]
    AcceptTaken {
        /// The protocol that has an acceptor.
        protocol: &'static str,
    },
    /// There is a connection, and it runs through a relay.
    #[error(
        "cannot open a stream of {protocol} to {peer}: only a relay connects us, which carries requests and no streams; \
         it must dial us, or let itself be dialled"
    )]
    OnlyRelayed {
        /// The peer that only a circuit leads to.
        peer: PeerId,
        /// The protocol of the stream that was not opened.
        protocol: &'static str,
    },
    /// The acceptor's queue is full.
    #[error("{peer} has too many streams of {protocol} waiting and refused one more; try again later")]
    StreamRefused {
        /// The peer whose queue is full.
        peer: PeerId,
        /// The protocol whose streams are waiting there.
        protocol: &'static str,
    },
    /// The peer does not accept this protocol.
    #[error("{peer} does not accept streams of {protocol}; it has another role or version")]
    StreamUnsupported {
        /// The peer that refused the protocol.
        peer: PeerId,
        /// The protocol that it does not accept.
        protocol: &'static str,
    },
    /// The stream was not greeted in time.
    #[error("{peer} did not take a stream of {protocol} within {after:?}; try again later")]
    StreamTimeout {
        /// The peer that did not greet the stream.
        peer: PeerId,
        /// The protocol of the stream that timed out.
        protocol: &'static str,
        /// How long we tried.
        after: Duration,
    },
    /// The stream failed while it was being opened.
    #[error("cannot open a stream of {protocol} to {peer}: {cause}")]
    StreamFailed {
        /// The peer at the other end.
        peer: PeerId,
        /// The protocol that was being negotiated or greeted.
        protocol: &'static str,
        /// What the stream says.
        cause: String,
    },
    /// The host has been shut down.
    #[error("the network host has stopped; start a new one")]
    Stopped,
}
