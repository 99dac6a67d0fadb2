//! Gossip: what we publish, and what waits for a verdict.

use futures::FutureExt as _;
use libp2p::PeerId;
use libp2p::gossipsub::{Event, IdentTopic, MessageAcceptance, MessageId, PublishError};
use tokio::time::{Instant, timeout};

use super::{HostDriver, TROUBLE};
use crate::net::error::NetError;
use crate::net::host::{GossipVerdict, HostEvent};
use crate::net::limits::{
    BAD_GOSSIP_WITHIN, MAX_BAD_GOSSIP, MAX_BLOCKED, MAX_GOSSIP_MESSAGE, MAX_PENDING_VERDICTS, VERDICT_TIMEOUT,
};
use crate::program::log_throttle::Paced;

/// A message, the neighbour it came from, and what to do with it.
pub(super) type JudgedMessage = (MessageId, PeerId, MessageAcceptance);

impl HostDriver {
    pub(super) fn publish(&mut self, topic: String, data: Vec<u8>) -> Result<(), NetError> {
        let hash = IdentTopic::new(&topic).hash();
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        let len = data.len();
        let cap = MAX_GOSSIP_MESSAGE;
        if len > cap {
            return Err(NetError::GossipTooLarge { len, cap });
        }
        if !gossip.topics().any(|known| *known == hash) {
            return Err(NetError::UnknownTopic { topic });
        }
        match gossip.publish(hash, data) {
            Ok(_) => Ok(()),
            Err(PublishError::NoPeersSubscribedToTopic) => Err(NetError::NoSubscribers { topic }),
            Err(PublishError::Duplicate) => Err(NetError::AlreadyPublished { topic }),
            Err(PublishError::MessageTooLarge) => Err(NetError::GossipTooLarge { len, cap }),
            Err(PublishError::AllQueuesFull(_)) => Err(NetError::GossipBackedUp { topic }),
            Err(error @ (PublishError::SigningError(_) | PublishError::TransformFailed(_))) => {
                Err(NetError::GossipFailed { topic, cause: error.to_string() })
            }
        }
    }

    pub(super) fn on_gossip(&mut self, event: Event) {
        let Event::Message { propagation_source: source, message_id, message } = event else { return };
        let (verdict, waiting) = GossipVerdict::new();
        let topic = message.topic.into_string();
        let event = HostEvent::Gossip { source, topic, data: message.data, verdict };
        if self.verdicts.len() >= MAX_PENDING_VERDICTS || !self.announcer.offer(event) {
            tracing::debug!(%source, "a gossip message was ignored: too many wait");
            self.apply_verdict((message_id, source, MessageAcceptance::Ignore));
            return;
        }
        let judged = async move {
            let verdict = timeout(VERDICT_TIMEOUT, waiting).await;
            (message_id, source, verdict.ok().and_then(Result::ok).unwrap_or(MessageAcceptance::Ignore))
        };
        self.verdicts.push(judged.boxed());
    }

    pub(super) fn apply_verdict(&mut self, (message, source, acceptance): JudgedMessage) {
        if matches!(acceptance, MessageAcceptance::Reject) {
            self.note_bad_gossip(source);
        }
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        if !gossip.report_message_validation_result(&message, &source, acceptance) {
            tracing::debug!(%source, "a gossip message was forgotten before its verdict");
        }
    }

    /// Counts what a peer should not have handed on. Who does so all the time is cut off.
    fn note_bad_gossip(&mut self, source: PeerId) {
        let now = Instant::now();
        if self.bad_gossip.len() >= MAX_BLOCKED && !self.bad_gossip.contains_key(&source) {
            self.bad_gossip.retain(|_, (since, _)| now.duration_since(*since) < BAD_GOSSIP_WITHIN);
        }
        let (since, count) = self.bad_gossip.entry(source).or_insert((now, 0));
        if now.duration_since(*since) >= BAD_GOSSIP_WITHIN {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        if *count >= MAX_BAD_GOSSIP {
            self.bad_gossip.remove(&source);
            match cut_off(&TROUBLE, source) {
                Some(line) => tracing::warn!("{line}"),
                None => tracing::debug!(%source, "another peer is cut off for bad messages"),
            }
            self.block(source);
        }
    }
}

/// The line about a peer that is cut off, if one is due: identities cost nothing, so that a line for each
/// would fill a disk.
fn cut_off(paced: &Paced, source: PeerId) -> Option<String> {
    let peers = paced.due("a peer is cut off for bad messages")?;
    let line = format!("{source} handed on {MAX_BAD_GOSSIP} bad messages within a minute, and is cut off");
    Some(if peers == 1 {
        line
    } else {
        format!("{line}; so were {} others since the last such line", peers - 1)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_crowd_that_is_cut_off_has_one_line_a_minute() {
        let paced = Paced::new(Duration::from_secs(60));
        let lines = (0..1000).filter_map(|_| cut_off(&paced, PeerId::random())).count();
        assert_eq!(lines, 1);
        tokio::time::advance(Duration::from_secs(60)).await;
        let line = cut_off(&paced, PeerId::random()).unwrap();
        assert!(line.contains("so were 999 others"), "{line}");
    }
}
