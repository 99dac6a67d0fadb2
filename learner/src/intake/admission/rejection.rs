//! Why a group did not get in.

use std::fmt::Display;

use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::submission::{Answer, Outcome, RefuseReason};

use crate::reputation::Fault;

/// Longest detail of a refusal, in bytes, so that every answer fits its limit.
pub const MAX_DETAIL_BYTES: usize = 300;

/// A refusal for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Refusal {
    /// The stage that refused.
    pub reason: RefuseReason,
    /// What was found, for the node's owner; at most [`MAX_DETAIL_BYTES`].
    pub detail: String,
    /// The order, when the message could be read that far.
    pub counter: Option<OrderCounter>,
    /// Whether it is held against the node.
    pub fault: Fault,
}

/// Why a group is not accepted now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It never will be.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The learner could not decide; the text is for the learner's log.
    #[error("try again later: {0}")]
    Retry(String),
}

impl Refusal {
    /// A refusal for `reason`; a `detail` that is too long is cut.
    pub fn new(reason: RefuseReason, mut detail: String) -> Self {
        detail.truncate(detail.floor_char_boundary(MAX_DETAIL_BYTES));
        Self { reason, detail, counter: None, fault: Fault::of(reason) }
    }

    /// The same, held against the node or not.
    pub fn held(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    /// The same, about this order.
    pub fn of(self, counter: OrderCounter) -> Self {
        Self { counter: Some(counter), ..self }
    }

    /// The answer to the node.
    pub fn answer(self) -> Answer {
        let outcome = Outcome::Refused { reason: self.reason, detail: self.detail };
        Answer::new(self.counter, outcome)
    }
}

impl Rejection {
    /// The learner's own failure.
    pub(crate) fn retry(error: &impl Display) -> Self {
        Self::Retry(error.to_string())
    }

    /// The answer to the node about order `counter`.
    pub fn answer(self, counter: OrderCounter) -> Answer {
        match self {
            Self::Refused(refusal) => refusal.of(counter).answer(),
            Self::Retry(_) => Answer::new(Some(counter), Outcome::Retry),
        }
    }
}
