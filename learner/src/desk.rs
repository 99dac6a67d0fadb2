//! The learner's desk: lease book, replay buffer and tally, which are only ever changed together.

mod state;

use crate::admission::{Admission, Admitted, Progress, Refusal, Rejection, Tally};
use crate::buffer::{
    BufferError, BufferLimits, DropReason, Flushed, ReplayBuffer, StoredGroup, Totals, Unflushed,
};
use crate::filter::Filter;
use crate::leases::{LeaseBook, LeaseConfig, LeaseJournal, LeaseJournalError, SnapshotError};
use crate::store::{Store, StoreError};
use echo_protocol::identity::PublicKey;
use echo_protocol::lease::Lease;
use echo_protocol::order::OrderCounter;
use echo_protocol::staleness::Staleness;
use echo_protocol::submission::{Answer, Outcome, RefuseReason};
use echo_protocol::time::UnixMillis;
use echo_protocol::trajectory::TrajectoryGroup;
use echo_protocol::version::PolicyVersion;
use std::sync::Arc;

pub use state::DeskState;

/// Why the desk cannot work.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// The buffer.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// The lease journal.
    #[error(transparent)]
    Journal(#[from] LeaseJournalError),
    /// The lease journal contradicts itself.
    #[error(transparent)]
    Book(#[from] SnapshotError),
    /// The store's.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A database from before the checkpoint.
    #[error(
        "the database is older than the checkpoint (its next order is {database}, the checkpoint's {checkpoint}): put the one back that \
         belongs to it, or move database/ away; the next `echo-learner resume` makes a new one from the checkpoint"
    )]
    Behind {
        /// The next order by the database.
        database: OrderCounter,
        /// The next order by the checkpoint.
        checkpoint: OrderCounter,
    },
}

/// The numbers of a desk.
#[derive(Clone, Copy, Debug)]
pub struct DeskConfig {
    /// Leases.
    pub leases: LeaseConfig,
    /// How much may wait.
    pub limits: BufferLimits,
    /// What is worth a place in a batch.
    pub filter: Filter,
    /// How old it may be.
    pub staleness: Staleness,
    /// B.
    pub groups_per_update: usize,
}

/// Leases, buffer and counters of a run.
pub struct Desk {
    book: LeaseBook,
    journal: LeaseJournal,
    buffer: ReplayBuffer,
    tally: Tally,
    staleness: Staleness,
    groups_per_update: usize,
    progress: Progress,
    closed: bool,
    /// The first failure of the disk.
    failure: Option<BufferError>,
}

impl Desk {
    /// Opens the desk of a run that stands at `version`, as the store remembers it; `tally` is what was counted so far, as far as it is on
    /// record. A store that remembers nothing is made from `checkpoint`, what was the state at this version.
    pub fn open(
        store: Arc<dyn Store>,
        config: DeskConfig,
        version: PolicyVersion,
        tally: Tally,
        checkpoint: Option<&DeskState>,
    ) -> Result<Self, DeskError> {
        let DeskConfig { leases, limits, filter, staleness, groups_per_update } = config;
        let restored = state::prepare(&store, leases.run, version, checkpoint)?;
        let mut buffer = ReplayBuffer::open(store.clone(), limits)?.with_filter(filter);
        if !restored && buffer.reconcile(version, tally.accepted)? {
            tracing::warn!(
                totals = ?buffer.totals(),
                "the database has lost its end; what it lost, and what waited in it, is booked as damaged"
            );
        }
        // The record of an earlier process ends before its last groups do.
        let tally = Tally { accepted: buffer.totals().acknowledged.groups, ..tally };
        let journal = LeaseJournal::new(store);
        let known = |counter| Ok::<_, DeskError>(buffer.status(counter)?.is_some());
        let book = match journal.load(leases.run, known)? {
            Some(snapshot) => LeaseBook::restore(leases, snapshot)?,
            None => LeaseBook::new(leases),
        };
        // What an earlier process published: every published version had all its batches in the journal. The bound may name
        // versions that were never announced, which no node can have, and whose groups would be asked to come again.
        let ahead = buffer.newest_batch().map_or(version, PolicyVersion::next).max(version);
        let newest = PolicyVersion(ahead.0 / staleness.period() * staleness.period());
        let progress = Progress { current: version, newest_published: Some(newest) };
        Ok(Self {
            book,
            journal,
            buffer,
            tally,
            staleness,
            groups_per_update,
            progress,
            closed: false,
            failure: None,
        })
    }

    /// Leases up to `orders` orders to a node that generates under `installed`, as far as AReaL's admission rule allows; durable when
    /// they are returned. A node whose policy will be too old when its work comes in gets none ([`Staleness::serves`]).
    pub fn lease(
        &mut self,
        now: UnixMillis,
        node: PublicKey,
        installed: Option<PolicyVersion>,
        orders: u32,
    ) -> Result<Vec<Lease>, DeskError> {
        let fresh = installed.is_some_and(|version| self.staleness.serves(version, self.progress.current));
        if self.closed || !fresh {
            return Ok(Vec::new());
        }
        let leases = self.book.grant(now, node, orders, self.room());
        self.journal.save(&mut self.book)?;
        Ok(leases)
    }

    /// Orders that may still be handed out: ⌊(N_r-1)/B⌋ ≤ i+η, where N_r counts what is in formed batches, waits, or is out.
    fn room(&self) -> u64 {
        let batch = self.groups_per_update as u64;
        let current = self.progress.current;
        let formed = self.buffer.newest_batch().map_or(current.0, |newest| newest.0 + 1).max(current.0);
        let waiting = self.buffer.ready(current, &self.staleness) as u64;
        self.staleness.room(current, formed * batch + waiting + self.book.outstanding(), batch)
    }

    /// Makes the orders of nodes that are gone available again.
    pub fn nodes_gone(&mut self, nodes: &[PublicKey]) {
        nodes.iter().for_each(|node| drop(self.book.node_gone(node)));
    }

    /// Checks a group against leases, buffer and versions, before its rewards are computed.
    pub fn screen(&self, admission: &Admission, group: &TrajectoryGroup) -> Result<(), Rejection> {
        self.check_open()?;
        admission.screen(group, self.progress, &self.book, &self.buffer)
    }

    /// Takes judged groups in and writes them together. Nothing is acknowledged before [`Desk::acknowledge`] was told that they are durable;
    /// the disk is waited for in between, without the desk.
    pub fn admit(
        &mut self,
        admission: &Admission,
        groups: Vec<Admitted>,
    ) -> (Vec<Answer>, Result<Unflushed, BufferError>) {
        let mut answers = Vec::with_capacity(groups.len());
        for admitted in groups {
            let (node, counter) = (admitted.group.node, admitted.group.counter);
            let open = self.check_open();
            let staged =
                open.and_then(|()| admission.admit(admitted, self.progress, &self.book, &mut self.buffer));
            answers.push(match staged {
                Ok(counter) => Answer { counter: Some(counter), outcome: Outcome::Accepted },
                Err(rejection) => {
                    self.give_back(&node, &rejection);
                    rejection.answer(counter)
                }
            });
        }
        (answers, self.buffer.write_staged())
    }

    /// Makes the answers final by what became of the flush: when the disk failed, all groups have to come again.
    pub fn acknowledge(
        &mut self,
        mut answers: Vec<Answer>,
        flushed: Result<Flushed, BufferError>,
    ) -> Vec<Answer> {
        match flushed {
            Ok(flushed) => self.buffer.flushed(flushed),
            Err(error) => {
                tracing::error!(%error, "the replay buffer cannot be written");
                self.failure.get_or_insert(error);
                for answer in answers.iter_mut().filter(|a| a.outcome == Outcome::Accepted) {
                    answer.outcome = Outcome::Retry;
                }
            }
        }
        for answer in &answers {
            if let (Some(counter), Outcome::Accepted) = (answer.counter, &answer.outcome) {
                self.book.delivered(counter);
            }
            self.tally.record(&answer.outcome);
        }
        answers
    }

    fn check_open(&self) -> Result<(), Rejection> {
        if self.closed { Err(Rejection::Retry("the run has ended".into())) } else { Ok(()) }
    }

    /// Records a refusal by an earlier stage, and frees the order that it concerns.
    pub fn refuse(&mut self, node: &PublicKey, refusal: Refusal) -> Answer {
        let rejection = Rejection::from(refusal.clone());
        self.give_back(node, &rejection);
        let answer = refusal.answer();
        self.tally.record(&answer.outcome);
        answer
    }

    /// A node whose group was refused for good will not deliver that order any more.
    fn give_back(&mut self, node: &PublicKey, rejection: &Rejection) {
        let Rejection::Refused(refusal) = rejection else { return };
        let Some(counter) = refusal.counter else { return };
        match refusal.reason {
            // Nobody else may be asked for it: a flush that failed may have made the group durable after all.
            RefuseReason::Duplicate => self.book.delivered(counter),
            RefuseReason::Lease => {}
            _ => drop(self.book.give_back(node, counter)),
        }
    }

    /// The batch of the update at `version`: from the journal, or formed now; `None` while too few groups wait.
    ///
    /// # Errors
    /// When the store fails, or has failed before: what a failed flush left on the disk is known only to a process that reads it anew.
    pub fn batch(&mut self, version: PolicyVersion) -> Result<Option<Vec<StoredGroup>>, DeskError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone().into());
        }
        Ok(self.buffer.form_batch(version, &self.staleness, self.groups_per_update)?)
    }

    /// Tells that the policy is now at `version`.
    pub fn at(&mut self, version: PolicyVersion) {
        self.progress.current = version;
    }

    /// Tells that `version` is on the fleet.
    pub fn published(&mut self, version: PolicyVersion) {
        self.progress.newest_published = self.progress.newest_published.max(Some(version));
    }

    /// Says that no checkpoint before `version` will ever be resumed from.
    pub fn settle(&mut self, version: PolicyVersion) -> Result<(), DeskError> {
        Ok(self.buffer.settle(version)?)
    }

    /// Ends the run at `version`: nothing is leased or accepted any more, and what still waits is dropped on the record.
    pub fn close(&mut self, version: PolicyVersion) -> Result<(), DeskError> {
        self.closed = true;
        self.buffer.settle(version)?;
        Ok(self.buffer.drop_waiting(DropReason::RunEnded)?)
    }

    /// Acknowledged, trained and dropped so far.
    pub fn totals(&self) -> &Totals {
        self.buffer.totals()
    }

    /// Groups that the filter has dropped so far.
    pub fn filtered(&self) -> u64 {
        let dropped = |reason| self.totals().dropped.get(&reason).map_or(0, |count| count.groups);
        dropped(DropReason::NoSignal) + dropped(DropReason::PassRate)
    }

    /// Groups of a batch.
    pub fn groups_per_update(&self) -> usize {
        self.groups_per_update
    }

    /// Accepted and refused since the run began.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

#[cfg(test)]
mod tests;
