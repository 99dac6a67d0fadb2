//! Receipts: the learner's signed word that it accepted a node's group.
//!
//! A receipt is made durable with the group that it is about, and goes to the node with the answer.
//! Numbers of receipts count the accepted groups of one node from a multiple of 2³², so whoever
//! holds them all can show it, and a missing one shows.

mod account;

use crate::run::charter::RunId;
use crate::run::version::PolicyVersion;
use crate::wire::content_id::ContentId;
use crate::wire::identity::PublicKey;
use crate::wire::signed::Signable;
use crate::wire::time::UnixMillis;
use crate::work::order::OrderCounter;
use serde::{Deserialize, Serialize};

pub use account::{Account, MAX_FINDINGS, MAX_RECEIPTS, ReceiptFinding};

/// Numbers of receipts begin at a multiple of this, and at a later one when the learner has lost
/// its database or forgotten the node: nobody knows which it gave before.
pub const SEQUENCE_STRETCH: u64 = 1 << 32;

/// The learner accepted this group of this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The run. Its charter names the key that signs.
    pub run: RunId,
    /// Whose group it was.
    pub node: PublicKey,
    /// Accepted groups of this node before this one, and a multiple of [`SEQUENCE_STRETCH`].
    pub sequence: u64,
    /// The order that the group answers.
    pub counter: OrderCounter,
    /// BLAKE3 of the group's body as the node signed it.
    pub group: ContentId,
    /// The oldest version that produced any of its tokens.
    pub oldest: PolicyVersion,
    /// The newest version that produced any of its tokens.
    pub newest: PolicyVersion,
    /// How many trajectories the group has (G).
    pub trajectories: u32,
    /// The sum of their rewards, as the learner found them.
    pub rewards: f64,
    /// When it was accepted, by the learner's clock.
    pub at: UnixMillis,
}

impl Signable for Receipt {
    const CONTEXT: &'static str = "echo receipt 1";
    const MAX_BYTES: usize = 320;
}

#[cfg(test)]
mod tests;
