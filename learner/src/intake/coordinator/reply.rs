//! What a node is told of its group.

use crate::intake::admission::{Admitted, Refusal};
use crate::reputation::Silence;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::receipt::Receipt;
use echo_protocol::work::submission::{Answer, Outcome};

/// The answer about a group, and its receipt, which the run's key has yet to sign.
#[derive(Clone, Debug, PartialEq)]
pub struct UnsignedReply {
    /// Accepted, refused with a reason, or to be sent again.
    pub answer: Answer,
    /// The receipt of what is accepted, now or before.
    pub receipt: Option<Receipt>,
}

impl UnsignedReply {
    /// The group is accepted, when the flush returns.
    pub(super) fn accepted(receipt: Receipt) -> Self {
        Self { answer: Answer::new(Some(receipt.counter), Outcome::Accepted), receipt: Some(receipt) }
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.answer.outcome == Outcome::Accepted
    }

    /// It has to come again after all.
    pub(super) fn put_off(&mut self) {
        (self.answer.outcome, self.receipt) = (Outcome::Retry, None);
    }

    /// The answer as it is sent.
    pub fn sign(self, key: &NodeKey) -> Answer {
        let signed = self.receipt.map(|receipt| Signed::sign(&receipt, key).map(Box::new));
        let receipt = signed.and_then(|signed| {
            signed.inspect_err(|error| tracing::error!(%error, "a receipt could not be signed")).ok()
        });
        Answer { receipt, ..self.answer }
    }
}

impl From<Answer> for UnsignedReply {
    fn from(answer: Answer) -> Self {
        Self { answer, receipt: None }
    }
}

/// The receipt of a group that is accepted at `now`; its number is not known yet.
pub(super) fn receipt(now: UnixMillis, admitted: &Admitted) -> Receipt {
    let group = &admitted.group;
    Receipt {
        run: group.run,
        node: group.node,
        sequence: 0,
        counter: group.counter,
        group: admitted.id,
        oldest: group.oldest_version().unwrap_or_default(),
        newest: group.newest_version().unwrap_or_default(),
        trajectories: u32::try_from(group.trajectories.len()).unwrap_or(u32::MAX),
        rewards: group.trajectories.iter().map(|trajectory| f64::from(trajectory.reward)).sum(),
        at: now,
    }
}

/// What a node is told that is not heard.
pub(super) fn unheard(silence: &Silence) -> Refusal {
    let detail = format!("{silence}. To appeal, give the operator of the run this node's key");
    Refusal::new(silence.reason, detail)
}
