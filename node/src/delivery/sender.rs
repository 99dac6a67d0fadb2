//! Delivering the outbox to the learner, over one stream at a time.
//!
//! Frames of signed groups go up, frames of answers come down, a window of groups apart. What was
//! not answered when the stream ends is sent again over the next one: the learner answers a group
//! that it has already with "duplicate", and that settles it.

mod in_flight;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use echo_protocol::net::{
    FrameError, Host, NetError, PeerId, Stream, protocol_names, read_frame, write_frame,
};
use echo_protocol::program::clock;
use echo_protocol::program::log_on_change::LastMessage;
use echo_protocol::program::log_throttle::Paced;
use echo_protocol::wire::codec;
use echo_protocol::wire::codec::CodecError;
use echo_protocol::wire::signed::Signed;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::receipt::Receipt;
use echo_protocol::work::submission::{Answer, MAX_ANSWER_BYTES, Outcome, RefuseReason};
use futures::{AsyncRead, AsyncReadExt, AsyncWrite};
use parking_lot::Mutex;

use crate::delivery::outbox::{MAX_ENTRY_BYTES, Outbox, OutboxError};
use crate::delivery::receipts::{Ledger, LedgerError, ReceiptError};
use crate::learner_link::backoff::Backoff;
use crate::status::node_state::NodeState;
use in_flight::GroupsInFlight;

/// Groups under way at once.
pub const WINDOW: usize = 16;
/// Silence of the learner, while groups are under way, after which the stream counts as dead.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// A group that the learner could not decide on goes up again after this.
pub const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The pause before the stream is opened again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause before that, after many failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Complaints of one kind have one line in the log in this time. A second process of this identity is
/// refused dozens of times a second.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the learner's answer cannot be read: {0}")]
    Codec(#[from] CodecError),
    #[error("the learner closed the stream")]
    Closed,
    #[error("no answer for {} s", ANSWER_WITHIN.as_secs())]
    Silent,
    #[error("the learner could not read one of several groups; sending them one by one")]
    Unnamed,
    #[error(transparent)]
    Outbox(#[from] OutboxError),
}

/// Delivers groups until it is dropped.
pub struct Delivery {
    /// Opens the streams, one at a time.
    pub host: Host,
    /// The learner, by its libp2p peer id.
    pub learner: PeerId,
    /// What is to be delivered.
    pub outbox: Outbox,
    /// Counts what was accepted, refused and is waiting.
    pub node_state: Arc<NodeState>,
    /// Keeps receipts and refusals.
    pub ledger: Mutex<Ledger>,
    /// Keeps the log from being filled by groups that come to nothing.
    pub complaints: Paced,
}

/// [`Delivery::complaints`] of a node that has none yet.
#[must_use]
pub fn complaints() -> Paced {
    Paced::new(COMPLAIN_EVERY)
}

impl Delivery {
    /// Delivers for ever, over one stream after the other.
    ///
    /// # Errors
    /// [`OutboxError`] when the outbox can't be read any more.
    pub async fn run(self) -> Result<Infallible, OutboxError> {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut changes = self.outbox.changes();
        let mut window = WINDOW;
        let mut flight = GroupsInFlight::new(window);
        let mut paused = LastMessage::default();
        loop {
            while self.outbox.is_empty() {
                // The sender lives in the outbox, which lives in self.
                let _ = changes.changed().await;
            }
            let error = match self.host.open_stream(self.learner, protocol_names::TRAJECTORIES).await {
                Ok(stream) => self.converse(stream, &flight).await,
                Err(error) => error.into(),
            };
            if flight.answers() > 0 {
                (backoff, window) = (Backoff::new(FIRST_PAUSE, LONGEST_PAUSE), WINDOW);
                paused.clear();
            }
            match error {
                DeliveryError::Outbox(error) => return Err(error),
                DeliveryError::Unnamed => window = 1,
                _ => {}
            }
            flight = flight.again(window);
            if paused.is_new(&error.to_string()) {
                tracing::info!(waiting = self.outbox.len(), "delivery is paused: {error}; trying again");
            }
            tokio::time::sleep(backoff.pause()).await;
        }
    }

    /// Sends and receives until either fails.
    async fn converse(&self, stream: Stream, flight: &GroupsInFlight) -> DeliveryError {
        let (reader, writer) = stream.split();
        let ended = tokio::select! {
            ended = self.send(writer, flight) => ended,
            ended = self.receive(reader, flight) => ended,
        };
        match ended {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn send(
        &self,
        mut writer: impl AsyncWrite + Unpin,
        flight: &GroupsInFlight,
    ) -> Result<Infallible, DeliveryError> {
        let mut changes = self.outbox.changes();
        loop {
            changes.mark_unchanged();
            let next = if flight.has_room() { self.outbox.first(|c| flight.contains(c))? } else { None };
            let Some((counter, bytes)) = next else {
                tokio::select! {
                    _ = changes.changed() => {}
                    () = flight.landed() => {}
                }
                continue;
            };
            flight.start(counter);
            write_frame(&mut writer, &bytes, MAX_ENTRY_BYTES).await?;
        }
    }

    async fn receive(
        &self,
        mut reader: impl AsyncRead + Unpin,
        flight: &GroupsInFlight,
    ) -> Result<Infallible, DeliveryError> {
        loop {
            let frame = {
                let mut frame = std::pin::pin!(read_frame(&mut reader, MAX_ANSWER_BYTES));
                loop {
                    match tokio::time::timeout(ANSWER_WITHIN, &mut frame).await {
                        Ok(frame) => break frame?.ok_or(DeliveryError::Closed)?,
                        Err(_) if flight.overdue(ANSWER_WITHIN) => return Err(DeliveryError::Silent),
                        Err(_) => {}
                    }
                }
            };
            let answer: Answer = codec::decode(&frame, MAX_ANSWER_BYTES)?;
            self.answered(answer, flight).await?;
        }
    }

    async fn answered(&self, answer: Answer, flight: &GroupsInFlight) -> Result<(), DeliveryError> {
        // An answer without a name can only mean a group that is alone under way.
        let named = answer.counter.or_else(|| flight.only());
        let Some(counter) = named else { return Err(DeliveryError::Unnamed) };
        if !flight.contains(counter) {
            tracing::debug!(order = %counter, "an answer to a group that is not under way");
            return Ok(());
        }
        match answer.outcome {
            Outcome::Accepted => {
                let waited = flight.decided(counter);
                self.keep(counter, answer.receipt)?;
                self.outbox.settle(counter)?;
                self.node_state.set(|facts| {
                    facts.accepted += 1;
                    facts.waited_s += waited.as_secs_f64();
                });
            }
            Outcome::Refused { reason, detail } => {
                flight.decided(counter);
                // The text comes from the network and goes into a log line.
                let detail: String = detail.chars().filter(|c| !c.is_control()).collect();
                match self.complaints.due(reason.name()) {
                    Some(groups) if reason == RefuseReason::Duplicate => {
                        tracing::info!(order = %counter, groups, detail, "the learner has a group already: its first answer was lost, or another node was faster");
                    }
                    Some(groups) => {
                        tracing::warn!(order = %counter, groups, %reason, detail, "the learner refused a group");
                    }
                    None => {}
                }
                // It was accepted before, and the answer was lost.
                if answer.receipt.is_some() {
                    self.keep(counter, answer.receipt)?;
                }
                self.ledger(|ledger| ledger.refused(clock::now(), counter, reason, &detail));
                self.outbox.settle(counter)?;
                self.node_state.refused(reason);
            }
            Outcome::Retry => {
                tracing::debug!(order = %counter, "the learner cannot decide now");
                // Not reading meanwhile slows everything down, which is what an overloaded learner needs.
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
        flight.land(counter);
        self.node_state.set(|facts| facts.outbox = self.outbox.len());
        Ok(())
    }

    /// Keeps the receipt of a group that is still in the outbox.
    fn keep(&self, counter: OrderCounter, receipt: Option<Box<Signed<Receipt>>>) -> Result<(), OutboxError> {
        let Some(receipt) = receipt else {
            tracing::debug!(order = %counter, "accepted without a receipt");
            return Ok(());
        };
        let group = self.outbox.get(counter)?;
        self.ledger(|ledger| {
            let Err(error) = ledger.accepted(counter, group.as_deref(), &receipt)? else { return Ok(()) };
            let kind = if matches!(error, ReceiptError::OtherGroup) { "another group" } else { "receipt" };
            match self.complaints.due(kind) {
                Some(groups) => {
                    tracing::warn!(order = %counter, groups, "the learner's receipt is worth nothing: {error}");
                }
                None => tracing::debug!(order = %counter, %error, "the learner's receipt is worth nothing"),
            }
            Ok(())
        });
        Ok(())
    }

    /// Writes to the ledger. Work goes on without it: a receipt that cannot be kept is no
    /// reason to deliver nothing.
    fn ledger(&self, write: impl FnOnce(&mut Ledger) -> Result<(), LedgerError>) {
        // Every change of the ledger is one write; one that a panic left half done is cut off
        // at the next start.
        let mut ledger = self.ledger.lock();
        if let Err(error) = write(&mut ledger) {
            tracing::warn!(%error, "the ledger cannot be written");
        }
    }
}

#[cfg(test)]
mod tests;
