//! Leases on their way out: grant, make durable, answer.
//!
//! Whoever asks waits, on a thread that may block, for one writer. It grants what all that wait ask
//! for, and makes it durable with a single flush. While the disk works, the coordinator is free.

use super::SharedState;
use super::lease_retry::ShortOfOrders;
use super::pace::PeerAllowances;
use crate::intake::coordinator::{Granted, LeaseRequest};
use crate::intake::leases::LeaseJournalError;
use echo_protocol::program::clock;
use echo_protocol::wire::identity::PublicKey;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Questions that wait for the writer; also the most that one flush covers.
const WRITER_QUEUE: usize = 64;

/// Asks the one writer of leases, at the pace that is allowed.
pub(super) struct Granting {
    writer: mpsc::Sender<Question>,
    pace: Mutex<PeerAllowances>,
    short: Mutex<ShortOfOrders>,
}

/// A node's question for orders.
struct Question {
    wish: LeaseRequest,
    /// Dropped when nothing can be leased.
    reply: oneshot::Sender<Granted>,
}

impl Granting {
    /// Starts the writer, which ends with the last that may ask.
    pub(super) fn start(shared: Arc<SharedState>) -> Self {
        let (writer, queue) = mpsc::channel(WRITER_QUEUE);
        std::thread::spawn(move || write(&shared, queue));
        let short = Mutex::new(ShortOfOrders::new(Instant::now()));
        Self { writer, pace: Mutex::new(PeerAllowances::leases()), short }
    }

    /// Whether `node` may ask now; if not, after what time it may again.
    pub(super) fn pace(&self, node: PublicKey) -> Result<(), Duration> {
        self.pace.lock().take(Instant::now(), node)
    }

    /// When `node`, which got fewer orders than it wanted, asks again, in milliseconds.
    pub(super) fn retry_ms(&self, node: PublicKey) -> u32 {
        self.short.lock().retry_ms(Instant::now(), node)
    }

    /// Orders as wished, in durable leases, or why there are none. Blocks. `None` when the disk has failed,
    /// or the service has ended.
    pub(super) fn ask(&self, wish: LeaseRequest) -> Option<Granted> {
        let (reply, granted) = oneshot::channel();
        self.writer.blocking_send(Question { wish, reply }).ok()?;
        granted.blocking_recv().ok()
    }

    /// Waits until the writer has ended, which it does only when it has failed.
    pub(super) async fn ended(&self) {
        self.writer.closed().await;
    }
}

fn write(shared: &SharedState, mut queue: mpsc::Receiver<Question>) {
    let mut waiting = Vec::new();
    while queue.blocking_recv_many(&mut waiting, WRITER_QUEUE) > 0 {
        if let Err(error) = grant(shared, std::mem::take(&mut waiting)) {
            tracing::error!(%error, "no lease could be made durable");
            if let LeaseJournalError::Store(error) = error {
                // No group comes without leases, so nothing else may ever meet the disk that has failed.
                shared.coordinator().disk_failed(error);
                shared.groups_arrived();
            }
        }
    }
}

/// Answers all that wait when their leases are durable, or none.
fn grant(shared: &SharedState, waiting: Vec<Question>) -> Result<(), LeaseJournalError> {
    let (granted, written) = {
        let mut coordinator = shared.coordinator();
        let now = clock::now();
        let granted: Vec<_> = waiting.iter().map(|asked| coordinator.grant(now, &asked.wish)).collect();
        (granted, coordinator.write_leases())
    };
    let flushed = written?.flush()?;
    shared.coordinator().leased(flushed);
    for (question, granted) in waiting.into_iter().zip(granted) {
        // A node that waits no longer asks again, and gets the same leases.
        let _ = question.reply.send(granted);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
