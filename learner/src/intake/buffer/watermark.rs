//! The buffer's account as a checkpoint keeps it, and a buffer made from that alone.

use echo_protocol::run::version::PolicyVersion;
use serde::{Deserialize, Serialize};

use super::plan::{BufferHeader, HEAD};
use super::totals::{Count, Totals};
use super::{BufferError, ReplayBuffer};
use crate::intake::outcome::DropReason;
use crate::storage::{Tree, WriteBatch, seal};

/// Where a buffer stands at a checkpoint: everything about it but the groups that it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark {
    /// Every batch before this update was trained and deleted.
    pub settled: PolicyVersion,
    /// The place in the order of arrival that the next group gets.
    pub next_arrival: u64,
    /// What was acknowledged, and what became of it.
    pub totals: Totals,
    /// Of the batched groups, those whose update comes after the checkpoint: its weights do not know them.
    pub ahead: Count,
}

impl ReplayBuffer {
    /// Where the buffer stands, seen from a checkpoint at `version`.
    pub fn watermark(&self, version: PolicyVersion) -> Watermark {
        let mut ahead = Count::default();
        for entry in self.index.journal().range(version..).flat_map(|(_, entries)| entries) {
            ahead += entry.count();
        }
        let (settled, totals) = (self.settled, self.totals.clone());
        Watermark { settled, next_arrival: self.next_arrival, totals, ahead }
    }
}

impl Watermark {
    /// Puts into `batch` what makes an empty store the buffer of a run that goes on from the
    /// checkpoint at `version`: what was in batches before it is trained, whatever else the buffer
    /// held is lost. Fails when it cannot be encoded.
    pub(crate) fn restore(&self, version: PolicyVersion, batch: &mut WriteBatch) -> Result<(), BufferError> {
        let mut totals = self.totals.clone();
        let (mut covered, mut lost) = (totals.batched, totals.waiting);
        covered -= self.ahead;
        lost += self.ahead;
        totals.trained += covered;
        if lost != Count::default() {
            totals.drop(DropReason::Lost, lost);
        }
        (totals.batched, totals.waiting) = Default::default();
        let settled = self.settled.max(version);
        batch.put(
            Tree::BufferHead,
            HEAD,
            seal(&BufferHeader { totals, settled, next_arrival: self.next_arrival })?,
        );
        Ok(())
    }
}
