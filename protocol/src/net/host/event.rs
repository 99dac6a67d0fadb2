//! What a host tells of its peers.

use libp2p::gossipsub::MessageAcceptance;
use libp2p::{Multiaddr, PeerId};
use tokio::sync::{mpsc, oneshot};

use crate::net::behaviour::control_codec::MAX_CONTROL_RESPONSE;
use crate::net::error::NetError;

/// The events of a host, in the order in which they happened; see [`HostEvent::Connected`]
/// for the one exception.
///
/// At most [`EVENT_QUEUE`](crate::net::limits::EVENT_QUEUE) wait here. A reader that falls behind
/// loses requests and gossip, but no connection and no disconnection.
#[derive(Debug)]
pub struct HostEvents {
    queue: mpsc::Receiver<HostEvent>,
}

impl HostEvents {
    pub(super) fn new(queue: mpsc::Receiver<HostEvent>) -> Self {
        Self { queue }
    }

    /// The next event, or `None` when the host has stopped.
    pub async fn recv(&mut self) -> Option<HostEvent> {
        self.queue.recv().await
    }
}

/// Something that a peer did.
#[derive(Debug)]
pub enum HostEvent {
    /// A control request, which waits for its reply.
    Request {
        /// The peer that asks, as the connection authenticated it.
        peer: PeerId,
        /// At most [`MAX_CONTROL_REQUEST`](crate::net::MAX_CONTROL_REQUEST) bytes.
        body: Vec<u8>,
        /// Takes the response; dropping it closes the stream.
        reply: Responder,
    },
    /// A gossip message. It is forwarded only when accepted.
    Gossip {
        /// The neighbour that handed it to us, not its author.
        source: PeerId,
        /// The topic, one of the host's configured ones.
        topic: String,
        /// At most [`MAX_GOSSIP_MESSAGE`](crate::net::limits::MAX_GOSSIP_MESSAGE) bytes.
        data: Vec<u8>,
        /// What to do with it.
        verdict: GossipVerdict,
    },
    /// We have a connection with a peer with whom we had none.
    ///
    /// Told late if the event queue was full, so a request of the peer may come before it. A peer
    /// that left and came back in the meantime is not mentioned.
    Connected {
        /// The peer, authenticated by the handshake.
        peer: PeerId,
        /// Its address as this connection sees it; the port is not one to dial if it was
        /// the peer who dialled.
        addr: Multiaddr,
    },
    /// A connected peer has a further connection, whose address says more than that of the first: where it
    /// is, and not the name or the relay by which it was reached. Dropped if the event queue is full.
    Located {
        /// The peer, authenticated by the handshake.
        peer: PeerId,
        /// Its address as this connection sees it.
        addr: Multiaddr,
    },
    /// The last connection with a peer has closed.
    Disconnected {
        /// The peer to which no connection is left.
        peer: PeerId,
    },
}

/// The way to answer a request. Dropped, it closes the requester's stream without an answer.
#[derive(Debug)]
pub struct Responder {
    answer: oneshot::Sender<Vec<u8>>,
}

impl Responder {
    pub(super) fn new() -> (Self, oneshot::Receiver<Vec<u8>>) {
        let (answer, waiting) = oneshot::channel();
        (Self { answer }, waiting)
    }

    /// Answers with at most [`MAX_CONTROL_RESPONSE`] bytes.
    ///
    /// # Errors
    /// [`NetError::ResponseTooLarge`], upon which the requester sees a dropped request, and
    /// [`NetError::RequesterGone`] when more than
    /// [`MAX_REQUEST_TIMEOUT`](crate::net::limits::MAX_REQUEST_TIMEOUT) has passed.
    pub fn send(self, body: Vec<u8>) -> Result<(), NetError> {
        if body.len() > MAX_CONTROL_RESPONSE {
            return Err(NetError::ResponseTooLarge { len: body.len(), cap: MAX_CONTROL_RESPONSE });
        }
        self.answer.send(body).map_err(|_| NetError::RequesterGone)
    }
}

/// The way to judge a gossip message. Dropped, or kept for longer than
/// [`VERDICT_TIMEOUT`](crate::net::limits::VERDICT_TIMEOUT), it ignores the message.
#[derive(Debug)]
pub struct GossipVerdict {
    verdict: oneshot::Sender<MessageAcceptance>,
}

impl GossipVerdict {
    pub(super) fn new() -> (Self, oneshot::Receiver<MessageAcceptance>) {
        let (verdict, waiting) = oneshot::channel();
        (Self { verdict }, waiting)
    }

    /// The message is valid: forward it.
    pub fn accept(self) {
        self.give(MessageAcceptance::Accept);
    }

    /// The message is invalid, and an honest neighbour would not have forwarded it: do not forward it.
    pub fn reject(self) {
        self.give(MessageAcceptance::Reject);
    }

    /// The message is of no use, for which nobody is to blame: do not forward it.
    pub fn ignore(self) {
        self.give(MessageAcceptance::Ignore);
    }

    fn give(self, acceptance: MessageAcceptance) {
        if self.verdict.send(acceptance).is_err() {
            tracing::debug!("a gossip verdict came too late");
        }
    }
}
