//! Orders on their way back to the learner: what this node will not do goes to others at once, and
//! not when its lease ends.

use std::time::Duration;

use echo_protocol::work::lease::{HeldOrder, MAX_RETURN_DETAIL, MAX_RETURNED, ReturnReason, Returned};
use tokio::sync::{mpsc, watch};

use crate::learner_link::backoff::Backoff;
use crate::learner_link::client::{AskError, LearnerClient};

/// Returns that may wait. Beyond, leases run out by themselves.
const QUEUE: usize = 256;
/// The pause after the learner did not answer, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// Gives orders back, from wherever they come to nothing.
#[derive(Clone, Debug)]
pub struct Returns(mpsc::Sender<Returned>);

/// What is to be given back.
#[derive(Debug)]
pub struct Returning(mpsc::Receiver<Returned>);

/// Both ends of the queue between them.
pub fn returns() -> (Returns, Returning) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (Returns(sender), Returning(receiver))
}

impl Returns {
    /// Gives orders back, for this reason. Never waits.
    pub fn give_back(&self, orders: &[HeldOrder], reason: ReturnReason, detail: &str) {
        let detail = &detail[..detail.floor_char_boundary(MAX_RETURN_DETAIL)];
        for orders in orders.chunks(MAX_RETURNED) {
            // Where the queue is full, their leases run out instead.
            let _ = self.0.try_send(Returned { orders: orders.to_vec(), reason, detail: detail.to_owned() });
        }
    }
}

impl Returning {
    /// What was given back since the last call.
    #[cfg(test)]
    pub(crate) fn taken(&mut self) -> Vec<Returned> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }

    /// Says each to the learner until it has answered, and ends when nothing more is given back. What it
    /// hears twice changes nothing.
    pub async fn run(mut self, learner: LearnerClient, mut linked: watch::Receiver<bool>) {
        let mut waiting = Vec::new();
        while self.0.recv_many(&mut waiting, QUEUE).await > 0 {
            for returned in merged(waiting.drain(..)) {
                if !give_back(&learner, &mut linked, &returned).await {
                    return;
                }
            }
        }
    }
}

/// Says it until the learner has answered; false when the node has given up to reach it.
async fn give_back(learner: &LearnerClient, linked: &mut watch::Receiver<bool>, returned: &Returned) -> bool {
    let mut backoff = Backoff::new(PAUSE.0, PAUSE.1);
    while linked.wait_for(|up| *up).await.is_ok() {
        match learner.give_back(returned.clone()).await {
            Err(error @ AskError::Net(_)) => {
                tracing::debug!(%error, "orders could not be given back; trying again");
                tokio::time::sleep(backoff.pause()).await;
            }
            Err(error) => {
                tracing::debug!(%error, "the learner does not take orders back; their leases will run out");
                return true;
            }
            Ok(()) => return true,
        }
    }
    false
}

/// The same with fewer messages: what comes back for one reason goes together.
fn merged(returns: impl Iterator<Item = Returned>) -> Vec<Returned> {
    let mut merged: Vec<Returned> = Vec::new();
    for next in returns {
        match merged.last_mut() {
            Some(last)
                if (last.reason, &last.detail) == (next.reason, &next.detail)
                    && last.orders.len() + next.orders.len() <= MAX_RETURNED =>
            {
                last.orders.extend(next.orders);
            }
            _ => merged.push(next),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::work::lease::LeaseId;
    use echo_protocol::work::order::OrderCounter;

    fn held(counter: u64) -> HeldOrder {
        HeldOrder { lease: LeaseId(1), counter: OrderCounter(counter) }
    }

    #[test]
    fn what_comes_back_for_one_reason_goes_together() {
        let (returns, mut returning) = returns();
        returns.give_back(&[held(0)], ReturnReason::Late, "");
        returns.give_back(&[held(1)], ReturnReason::Late, "");
        returns.give_back(&[held(2)], ReturnReason::Undoable, "a trap");
        let many: Vec<_> = (3..3 + MAX_RETURNED as u64 + 1).map(held).collect();
        returns.give_back(&many, ReturnReason::Undoable, "a trap");
        let sizes: Vec<_> =
            merged(returning.taken().into_iter()).iter().map(|one| (one.reason, one.orders.len())).collect();
        let expected = [
            (ReturnReason::Late, 2),
            (ReturnReason::Undoable, 1),
            (ReturnReason::Undoable, MAX_RETURNED),
            (ReturnReason::Undoable, 1),
        ];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let (returns, mut returning) = returns();
        returns.give_back(&[held(0)], ReturnReason::Undoable, &"ä".repeat(MAX_RETURN_DETAIL));
        assert_eq!(returning.taken()[0].detail.len(), MAX_RETURN_DETAIL);
    }
}
