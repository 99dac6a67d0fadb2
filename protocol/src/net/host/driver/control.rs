//! Control requests, ours and those of others.

use std::io;

use futures::FutureExt as _;
use libp2p::PeerId;
use libp2p::request_response::{Event, Message, OutboundFailure, ResponseChannel};
use tokio::time::timeout;

use super::{HostDriver, ReplySender, answer};
use crate::net::error::NetError;
use crate::net::host::{HostEvent, Responder};
use crate::net::limits::{MAX_PENDING_REPLIES, MAX_PENDING_REQUESTS, MAX_REQUEST_TIMEOUT};

/// The outcome of waiting for a reply: the way to the requester and the body, if there is one.
pub(super) type Replied = (ResponseChannel<Vec<u8>>, Option<Vec<u8>>);

impl HostDriver {
    pub(super) fn request(&mut self, peer: PeerId, body: Vec<u8>, reply: ReplySender<Vec<u8>>) {
        if self.is_blocked(&peer) {
            return answer(reply, Err(NetError::Blocked { peer }));
        }
        if self.requests.len() >= MAX_PENDING_REQUESTS {
            return answer(reply, Err(NetError::Busy { what: "requests", cap: MAX_PENDING_REQUESTS }));
        }
        let addrs = self.book.addresses(&peer);
        let id = self.swarm.behaviour_mut().control.send_request_with_addresses(&peer, body, addrs);
        self.requests.insert(id, reply);
    }

    pub(super) fn on_control(&mut self, event: Event<Vec<u8>, Vec<u8>>) {
        match event {
            Event::Message { peer, message: Message::Request { request, channel, .. }, .. } => {
                self.take_request(peer, request, channel);
            }
            Event::Message { message: Message::Response { request_id, response }, .. } => {
                if let Some(caller) = self.requests.remove(&request_id) {
                    answer(caller, Ok(response));
                }
            }
            Event::OutboundFailure { peer, request_id, error, .. } => {
                if let Some(caller) = self.requests.remove(&request_id) {
                    answer(caller, Err(failure(peer, error)));
                }
            }
            Event::InboundFailure { peer, error, .. } => {
                tracing::debug!(%peer, %error, "a request was not answered")
            }
            Event::ResponseSent { .. } => {}
        }
    }

    fn take_request(&mut self, peer: PeerId, body: Vec<u8>, channel: ResponseChannel<Vec<u8>>) {
        if self.replies.len() >= MAX_PENDING_REPLIES {
            tracing::debug!(%peer, "a request was dropped: too many wait for a reply");
            return;
        }
        let (reply, waiting) = Responder::new();
        if !self.announcer.offer(HostEvent::Request { peer, body, reply }) {
            tracing::debug!(%peer, "a request was dropped: the event queue is full");
            return;
        }
        let replied = async move {
            let body = timeout(MAX_REQUEST_TIMEOUT, waiting).await;
            (channel, body.ok().and_then(Result::ok))
        };
        self.replies.push(replied.boxed());
    }

    /// Sends the reply. Without a body the channel is dropped, which closes the requester's stream.
    pub(super) fn send_reply(&mut self, (channel, body): Replied) {
        if let Some(body) = body
            && self.swarm.behaviour_mut().control.send_response(channel, body).is_err()
        {
            tracing::debug!("a reply came too late");
        }
    }
}

fn failure(peer: PeerId, error: OutboundFailure) -> NetError {
    match error {
        OutboundFailure::DialFailure => NetError::NotConnected { peer },
        OutboundFailure::Timeout => NetError::RequestTimeout { peer, after: MAX_REQUEST_TIMEOUT },
        OutboundFailure::ConnectionClosed => NetError::ConnectionLost { peer },
        OutboundFailure::UnsupportedProtocols => NetError::RequestUnsupported { peer },
        OutboundFailure::Io(cause) if cause.kind() == io::ErrorKind::InvalidData => {
            NetError::BadAnswer { peer, cause }
        }
        OutboundFailure::Io(cause) => NetError::NoAnswer { peer, cause },
    }
}
