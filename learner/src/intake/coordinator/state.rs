//! The coordinator as a checkpoint keeps it.
//!
//! The store is always ahead of the checkpoint, and is the truth. Only where it is gone (a new
//! machine, a lost disk) does the checkpoint's account begin a new one, so that no order is leased
//! twice and nothing is trained on twice.

use super::{Coordinator, CoordinatorConfig, CoordinatorError};
use crate::intake::admission::AdmissionTally;
use crate::intake::buffer::Watermark;
use crate::intake::leases::{LeaseJournal, LeaseSnapshot};
use crate::reputation::{Record, RecordJournal, RecordSnapshot};
use crate::storage::{Store, WriteBatch};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a coordinator stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoordinatorState {
    /// Open leases, and the next order and lease.
    pub leases: LeaseSnapshot,
    /// The buffer's account and the next place in the order of arrival.
    pub buffer: Watermark,
    /// Groups accepted and refused.
    pub tally: AdmissionTally,
    /// What is known of peers. Checkpoints of earlier programs have none.
    #[serde(default)]
    pub record: RecordSnapshot,
}

impl Coordinator {
    /// Where the coordinator stands, for the checkpoint at `version`.
    pub fn state(&self, version: PolicyVersion) -> CoordinatorState {
        let (leases, buffer) = (self.book.snapshot(), self.buffer.watermark(version));
        CoordinatorState { leases, buffer, tally: self.tally.clone(), record: self.record.snapshot() }
    }
}

/// Makes sure that the store knows its run. From then on, a store that knows none is one that was
/// lost. True if this one was, and was made from the checkpoint.
pub(super) fn prepare(
    store: &Arc<dyn Store>,
    config: &CoordinatorConfig,
    version: PolicyVersion,
    checkpoint: Option<&CoordinatorState>,
) -> Result<bool, CoordinatorError> {
    let mut batch = WriteBatch::default();
    match (LeaseJournal::new(store.clone()).cursor()?, checkpoint) {
        (Some(database), Some(CoordinatorState { leases, .. })) if database < leases.cursor => {
            return Err(CoordinatorError::Behind { database, checkpoint: leases.cursor });
        }
        (Some(_), _) => return Ok(false),
        (None, Some(state)) => {
            LeaseJournal::found(&state.leases.after_loss(), &mut batch)?;
            state.buffer.restore(version, &mut batch)?;
            let mut record = Record::after_loss(config.record, &state.record);
            RecordJournal::new(store.clone()).save(&mut record, &[])?;
            tracing::warn!(
                at = %version,
                groups = state.buffer.totals.waiting.groups,
                "the database is gone: a new one was made from the checkpoint; groups that waited are lost"
            );
        }
        (None, None) => {
            let (cursor, next_lease, leases) = (OrderCounter(0), LeaseId(0), Vec::new());
            let run = config.leases.run;
            LeaseJournal::found(&LeaseSnapshot { run, cursor, next_lease, leases }, &mut batch)?;
        }
    }
    store.apply(&batch)?;
    store.flush()?;
    Ok(checkpoint.is_some())
}

#[cfg(test)]
mod tests;
