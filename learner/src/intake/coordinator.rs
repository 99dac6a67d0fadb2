//! The intake's coordinator: lease book, replay buffer, record and tally, which change together
//! under one lock.

mod conduct;
mod effort;
mod granting;
mod reply;
mod state;

use crate::intake::admission::{Admission, AdmissionTally, Admitted, Progress, Rejection};
use crate::intake::buffer::{
    BufferError, BufferLimits, DropReason, Flushed, ReplayBuffer, StoredGroup, Totals, Unflushed,
};
use crate::intake::filter::Filter;
use crate::intake::fruitless::Fruitless;
use crate::intake::leases::{
    FlushedLeases, LeaseBook, LeaseConfig, LeaseJournal, LeaseJournalError, SnapshotError, UnflushedLeases,
};
use crate::intake::stale_tally::StaleTally;
use crate::intake::work_ahead::{WorkAhead, WorkAheadConfig};
use crate::reputation::{Record, RecordConfig, RecordJournal};
use crate::storage::{ObjectStoreError, Store};
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::submission::Outcome;
use echo_protocol::work::trajectory::TrajectoryGroup;
use std::cmp::Reverse;
use std::sync::Arc;

pub use granting::{Granted, LeaseRequest, WorkAheadReport};
pub use reply::UnsignedReply;
pub use state::CoordinatorState;

/// Why the coordinator cannot work.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// The replay buffer refused or failed.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// The lease journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] LeaseJournalError),
    /// The lease journal contradicts itself.
    #[error(transparent)]
    Book(#[from] SnapshotError),
    /// The store failed while the record or the whole state was read or written.
    #[error(transparent)]
    Store(#[from] ObjectStoreError),
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

/// How far a batch has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchProgress {
    /// Groups that are there for it.
    pub ready: usize,
    /// Orders that are out.
    pub out: u64,
    /// Nodes that they are out with, and how many, those first that hold the most.
    pub holders: Vec<(PublicKey, u64)>,
    /// The newest version that was published.
    pub published: Option<PolicyVersion>,
}

/// The numbers of a coordinator.
#[derive(Clone, Copy, Debug)]
pub struct CoordinatorConfig {
    /// How long leases run, and how many orders a node may hold.
    pub leases: LeaseConfig,
    /// How much may wait.
    pub limits: BufferLimits,
    /// What is worth a place in a batch.
    pub filter: Filter,
    /// How old it may be.
    pub staleness: Staleness,
    /// B: groups of a batch, by which what may be out is counted.
    pub groups_per_update: usize,
    /// How strict the record is.
    pub record: RecordConfig,
    /// Whether work runs ahead by its lag, and not by η.
    pub by_lag: bool,
}

/// Leases, buffer, record and counters of a run.
pub struct Coordinator {
    book: LeaseBook,
    journal: LeaseJournal,
    buffer: ReplayBuffer,
    record: Record,
    record_journal: RecordJournal,
    tally: AdmissionTally,
    staleness: Staleness,
    groups_per_update: usize,
    /// `None` where η bounds what may be out.
    work_ahead: Option<WorkAhead>,
    progress: Progress,
    closed: bool,
    /// When a node that cannot do an order is worth a line again.
    next_complaint: UnixMillis,
    fruitless: Fruitless,
    /// The first failure of the disk.
    failure: Option<BufferError>,
}

impl Coordinator {
    /// Opens the coordinator of a run that stands at `version`, as the store remembers it, and begins
    /// a new epoch. `tally` is what was counted so far, as far as it is on record. A store that
    /// remembers nothing is made from `checkpoint`, the state at this version.
    pub fn open(
        store: Arc<dyn Store>,
        config: CoordinatorConfig,
        now: UnixMillis,
        version: PolicyVersion,
        tally: AdmissionTally,
        checkpoint: Option<&CoordinatorState>,
    ) -> Result<Self, CoordinatorError> {
        let CoordinatorConfig { leases, limits, filter, staleness, groups_per_update, record, by_lag } =
            config;
        let restored = state::prepare(&store, &config, version, checkpoint)?;
        let mut buffer = ReplayBuffer::open(store.clone(), limits)?.with_filter(filter);
        let record_journal = RecordJournal::new(store.clone());
        let mut record = record_journal.load(record)?;
        let cut = !restored && buffer.reconcile(version, tally.accepted)?;
        if restored || cut {
            record.forgot();
        }
        if cut {
            tracing::warn!(
                totals = ?buffer.totals(),
                "the database has lost its end; what it lost, and what waited in it, is booked as damaged"
            );
        }
        // The record of an earlier process ends before its last groups do.
        let tally = AdmissionTally { accepted: buffer.totals().acknowledged.groups, ..tally };
        let journal = LeaseJournal::new(store);
        let known = |counter| Ok::<_, CoordinatorError>(buffer.status(counter)?.is_some());
        let mut book = match journal.load(leases.run, known)? {
            Some(snapshot) => LeaseBook::restore(leases, snapshot, now)?,
            None => LeaseBook::new(leases),
        };
        book.begin(Epoch::after(book.epoch(), now));
        book.at(version);
        // What an earlier process published: every published version had all its batches in the
        // journal. The bound may name versions that were never announced, which no node can have,
        // and whose groups would be asked to come again.
        let ahead = buffer.newest_batch().map_or(version, PolicyVersion::next).max(version);
        let newest = PolicyVersion(ahead.0 / staleness.period() * staleness.period());
        let progress = Progress { current: version, newest_published: Some(newest), between_periods: None };
        let work_ahead = WorkAheadConfig {
            budget: staleness.budget(),
            period: staleness.period(),
            batch: groups_per_update as u64,
            lifetime_ms: leases.lifetime_ms,
        };
        let work_ahead = by_lag.then(|| granting::begin(work_ahead, &book, now, version));
        Ok(Self {
            book,
            journal,
            buffer,
            record,
            record_journal,
            tally,
            staleness,
            groups_per_update,
            work_ahead,
            progress,
            closed: false,
            next_complaint: UnixMillis(0),
            fruitless: Fruitless::default(),
            failure: None,
        })
    }

    /// Writes what was granted so far. The caller waits for the disk without the coordinator's lock,
    /// and then calls [`Coordinator::leased`].
    ///
    /// # Errors
    /// When the store fails; the next call writes the same again.
    pub fn write_leases(&self) -> Result<UnflushedLeases, LeaseJournalError> {
        self.journal.write(&self.book)
    }

    /// Notes which leases are durable.
    pub fn leased(&mut self, flushed: FlushedLeases) {
        self.book.flushed(flushed);
    }

    /// Leases that are durable when they are returned.
    #[cfg(test)]
    pub(crate) fn lease(
        &mut self,
        now: UnixMillis,
        node: PublicKey,
        installed: Option<PolicyVersion>,
        orders: u32,
    ) -> Result<Vec<echo_protocol::work::lease::Lease>, CoordinatorError> {
        use echo_protocol::work::lease::{HeldOrder, LeaseId};

        // To nodes that every answer has reached.
        let last = Some(HeldOrder { lease: LeaseId(u64::MAX), counter: OrderCounter(u64::MAX) });
        let Granted { leases, .. } = self.grant(now, &LeaseRequest { node, installed, orders, last });
        self.journal.save(&mut self.book)?;
        Ok(leases)
    }

    /// Nodes that orders are out with.
    pub fn holders(&self) -> impl Iterator<Item = &PublicKey> {
        self.book.holders().keys()
    }

    /// Whether orders are out with a node.
    pub fn holds(&self, node: &PublicKey) -> bool {
        self.book.holders().contains_key(node)
    }

    /// Makes the orders of nodes that are gone available again.
    pub fn nodes_gone(&mut self, nodes: &[PublicKey]) {
        nodes.iter().for_each(|node| self.forget(node));
    }

    /// Counts a group that [`Coordinator::screen`] found to be too old.
    pub fn came_too_late(&mut self, group: &TrajectoryGroup) {
        self.buffer.came_too_late(group);
    }

    /// Checks a group against record, leases, buffer and versions, before its rewards are computed.
    pub fn screen(
        &self,
        now: UnixMillis,
        admission: &Admission,
        group: &TrajectoryGroup,
    ) -> Result<(), Rejection> {
        self.check_open()?;
        self.hear(now, &group.node).map_err(|refusal| refusal.of(group.counter))?;
        admission.screen(group, self.progress, &self.book, &self.buffer)
    }

    /// Takes judged groups in and writes them together. Nothing is acknowledged before
    /// [`Coordinator::acknowledge`] was told that they are durable. In between the caller waits for
    /// the disk, without the coordinator's lock.
    pub fn admit(
        &mut self,
        now: UnixMillis,
        admission: &Admission,
        groups: Vec<Admitted>,
    ) -> (Vec<UnsignedReply>, Result<Unflushed, BufferError>) {
        let mut replies = Vec::with_capacity(groups.len());
        for admitted in groups {
            let (node, counter) = (admitted.group.node, admitted.group.counter);
            let receipt = reply::receipt(now, &admitted);
            let open = self.check_open();
            let staged =
                open.and_then(|()| admission.admit(admitted, self.progress, &self.book, &mut self.buffer));
            replies.push(match staged {
                Ok(_) => {
                    self.came_back(now, &node, counter);
                    UnsignedReply::accepted(receipt)
                }
                Err(Rejection::Refused(refusal)) => self.apply_refusal(now, &node, refusal.of(counter)),
                Err(retry @ Rejection::Retry(_)) => retry.answer(counter).into(),
            });
        }
        let written = self.buffer.write_staged();
        let written = written.and_then(|unflushed| Ok((unflushed, self.write_receipts(now, &mut replies)?)));
        (replies, written.map(|(unflushed, ())| unflushed))
    }

    /// Notes what was accepted, and numbers its receipts. They are written after the groups, and
    /// durable with the same flush.
    fn write_receipts(
        &mut self,
        now: UnixMillis,
        replies: &mut [UnsignedReply],
    ) -> Result<(), ObjectStoreError> {
        let mut receipts = Vec::with_capacity(replies.len());
        let accepted = replies.iter_mut().filter(|reply| reply.is_accepted());
        for receipt in accepted.filter_map(|reply| reply.receipt.as_mut()) {
            receipt.sequence = self.record.accepted(now, receipt.node);
            receipts.push(receipt.clone());
        }
        self.record_journal.save(&mut self.record, &receipts)
    }

    /// Makes the answers final by what became of the flush: when the disk failed, all groups
    /// have to come again.
    pub fn acknowledge(
        &mut self,
        mut replies: Vec<UnsignedReply>,
        flushed: Result<Flushed, BufferError>,
    ) -> Vec<UnsignedReply> {
        match flushed {
            Ok(flushed) => self.buffer.flushed(flushed),
            Err(error) => {
                tracing::error!(%error, "the replay buffer cannot be written");
                self.failure.get_or_insert(error);
                replies.iter_mut().filter(|reply| reply.is_accepted()).for_each(UnsignedReply::put_off);
            }
        }
        for UnsignedReply { answer, receipt } in &replies {
            if let (Some(counter), Outcome::Accepted) = (answer.counter, &answer.outcome) {
                self.book.delivered(counter);
            }
            if let (Some(receipt), Outcome::Accepted) = (receipt, &answer.outcome) {
                self.brought(&receipt.node);
            }
            self.tally.record(&answer.outcome);
        }
        replies
    }

    /// Notes that the store has failed: [`Coordinator::batch`] says so, and the learner ends.
    pub fn disk_failed(&mut self, error: ObjectStoreError) {
        self.failure.get_or_insert(error.into());
    }

    fn check_open(&self) -> Result<(), Rejection> {
        if self.closed { Err(Rejection::Retry("the run has ended".into())) } else { Ok(()) }
    }

    /// The batch of the update at `version`: from the journal, or formed now; `None` while
    /// too few groups wait.
    ///
    /// # Errors
    /// When the store fails, or has failed before: what a failed flush left on the disk is known
    /// only to a process that reads it anew.
    pub fn batch(
        &mut self,
        now: UnixMillis,
        version: PolicyVersion,
    ) -> Result<Option<Vec<StoredGroup>>, CoordinatorError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone().into());
        }
        let batch = self.buffer.form_batch(version, &self.staleness, self.groups_per_update)?;
        let spare = self.buffer.fresh(version, &self.staleness) as u64;
        if let Some(work_ahead) = &mut self.work_ahead {
            match batch {
                Some(_) => work_ahead.formed(now, spare),
                None => work_ahead.waits(now),
            }
        }
        if batch.is_some() {
            self.release_late(now);
        }
        Ok(batch)
    }

    /// Tells that the policy is now at `version`.
    pub fn at(&mut self, now: UnixMillis, version: PolicyVersion) {
        self.progress.current = version;
        if let Some(work_ahead) = &mut self.work_ahead {
            work_ahead.at(now, version);
        }
        self.book.at(version);
    }

    /// Tells that `version` is on the fleet.
    pub fn published(&mut self, version: PolicyVersion) {
        self.progress.newest_published = self.progress.newest_published.max(Some(version));
        if !self.staleness.publishes(version) {
            self.progress.between_periods = Some(version);
        }
    }

    /// Says that no checkpoint before `version` will ever be resumed from.
    pub fn settle(&mut self, version: PolicyVersion) -> Result<(), CoordinatorError> {
        self.buffer.settle(version)?;
        Ok(self.buffer.forget(self.book.settled_below())?)
    }

    /// Ends the run: nothing is leased or accepted any more, and what still waits is dropped on the
    /// record. Batches stay as long as an older checkpoint may be fallen back on.
    pub fn close(&mut self) -> Result<(), CoordinatorError> {
        self.closed = true;
        Ok(self.buffer.drop_waiting(DropReason::RunEnded)?)
    }

    /// Acknowledged, trained and dropped so far.
    pub fn totals(&self) -> &Totals {
        self.buffer.totals()
    }

    /// Groups that were too old for a batch, or when they came.
    pub fn stale(&self) -> &StaleTally {
        self.buffer.stale()
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

    /// The epoch that began when the coordinator was opened.
    pub fn epoch(&self) -> Epoch {
        self.book.epoch()
    }

    /// Whether anything was ever leased or accepted.
    pub fn has_begun(&self) -> bool {
        self.book.cursor() > OrderCounter(0) || self.totals().acknowledged.groups > 0
    }

    /// What the batch of `version` has to wait for.
    pub fn work(&self, version: PolicyVersion) -> BatchProgress {
        let mut holders: Vec<_> = self.book.holders().iter().map(|(node, orders)| (*node, *orders)).collect();
        holders.sort_by_key(|(_, orders)| Reverse(*orders));
        BatchProgress {
            ready: self.buffer.ready(version, &self.staleness),
            out: self.book.outstanding(),
            holders,
            published: self.progress.newest_published,
        }
    }

    /// Accepted and refused since the run began.
    pub fn tally(&self) -> &AdmissionTally {
        &self.tally
    }
}

#[cfg(test)]
mod tests;
