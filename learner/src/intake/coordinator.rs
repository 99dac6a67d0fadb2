//! The intake's coordinator: lease book, replay buffer, record and tally, which change together
//! under one lock.

mod effort;
mod reply;
mod state;

use crate::common::paced_log;
use crate::intake::admission::{Admission, AdmissionTally, Admitted, Look, Progress, Refusal, Rejection};
use crate::intake::buffer::{
    BufferError, BufferLimits, DropReason, Flushed, ReplayBuffer, StoredGroup, Totals, Unflushed,
};
use crate::intake::filter::Filter;
use crate::intake::fruitless::Fruitless;
use crate::intake::leases::{
    FlushedLeases, LeaseBook, LeaseConfig, LeaseJournal, LeaseJournalError, MAX_LEASES_OF_ORDER,
    SnapshotError, UnflushedLeases,
};
use crate::reputation::{Decision, NetworkPrefix, Record, RecordConfig, RecordJournal, Subject};
use crate::storage::{ObjectStoreError, Store};
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::{HeldOrder, Lease, MAX_RETURN_DETAIL, MAX_RETURNED, ReturnReason, Returned};
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::submission::{Outcome, RefuseReason};
use echo_protocol::work::trajectory::TrajectoryGroup;
use std::cmp::Reverse;
use std::sync::Arc;

pub use reply::UnsignedReply;
pub use state::CoordinatorState;

/// Milliseconds between two log lines about orders that nodes cannot do: a task that always fails
/// would write one for each.
const COMPLAIN_EVERY_MS: u64 = 30_000;

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

/// What a node asks for.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRequest {
    /// The key of the node that asks.
    pub node: PublicKey,
    /// What it generates under.
    pub installed: Option<PolicyVersion>,
    /// How many orders it wants.
    pub orders: u32,
    /// The last one that reached it.
    pub last: Option<HeldOrder>,
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
    /// B: groups of a batch, by which AReaL's rule bounds what may be out.
    pub groups_per_update: usize,
    /// How strict the record is.
    pub record: RecordConfig,
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
        let CoordinatorConfig { leases, limits, filter, staleness, groups_per_update, record } = config;
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
        Ok(Self {
            book,
            journal,
            buffer,
            record,
            record_journal,
            tally,
            staleness,
            groups_per_update,
            progress,
            closed: false,
            next_complaint: UnixMillis(0),
            fruitless: Fruitless::default(),
            failure: None,
        })
    }

    /// Grants orders as wished, as far as AReaL's admission rule allows; or again what was granted
    /// and has not reached the node. The leases may leave the learner when what
    /// [`Coordinator::write_leases`] writes is durable. A node whose policy will be too old when its
    /// work comes in gets none ([`Staleness::serves`]).
    pub fn grant(&mut self, now: UnixMillis, wish: &LeaseRequest) -> Vec<Lease> {
        let LeaseRequest { node, installed, orders, last } = *wish;
        let fresh = installed.is_some_and(|version| self.staleness.serves(version, self.progress.current));
        if self.closed || !fresh {
            return Vec::new();
        }
        let lost = self.book.lost(now, &node, last, orders);
        if !lost.is_empty() {
            return lost;
        }
        let leases = self.book.grant(now, node, orders, self.room());
        self.say_given_up("nobody said why");
        leases
    }

    /// Takes back orders that `node` will not do, as far as it holds them.
    pub fn take_back(&mut self, now: UnixMillis, node: &PublicKey, returned: Returned) {
        let Returned { mut orders, reason, detail } = returned;
        orders.truncate(MAX_RETURNED);
        orders.retain(|held| self.book.take_back(node, *held, reason));
        let Some(first) = orders.first().map(|held| held.counter) else { return };
        // The text comes from the network and goes into a log line.
        let detail: String = detail.chars().filter(|c| !c.is_control()).take(MAX_RETURN_DETAIL).collect();
        if reason == ReturnReason::Undoable && now >= self.next_complaint {
            self.next_complaint = now.plus(COMPLAIN_EVERY_MS);
            tracing::warn!(node = %node.short(), order = %first, "a node cannot do its order, which goes to others: {detail}");
        }
        tracing::debug!(node = %node.short(), orders = orders.len(), ?reason, "orders came back: {detail}");
        self.say_given_up(&detail);
    }

    fn say_given_up(&mut self, why: &str) {
        for order in self.book.take_given_up() {
            let leases = MAX_LEASES_OF_ORDER;
            let text = format!(
                "order {order} is given up, training goes on without it: {leases} leases of it brought nothing ({why})"
            );
            paced_log::warning("given up", &text);
        }
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
    ) -> Result<Vec<Lease>, CoordinatorError> {
        use echo_protocol::work::lease::LeaseId;

        // To nodes that every answer has reached.
        let last = Some(HeldOrder { lease: LeaseId(u64::MAX), counter: OrderCounter(u64::MAX) });
        let leases = self.grant(now, &LeaseRequest { node, installed, orders, last });
        self.journal.save(&mut self.book)?;
        Ok(leases)
    }

    /// Orders that may still be handed out: ⌊(N_r-1)/B⌋ ≤ i+η, where N_r counts what is in formed
    /// batches, waits, or is out.
    fn room(&self) -> u64 {
        let batch = self.groups_per_update as u64;
        let current = self.progress.current;
        let formed = self.buffer.newest_batch().map_or(current.0, |newest| newest.0 + 1).max(current.0);
        let waiting = self.buffer.ready(current, &self.staleness) as u64;
        self.staleness.room(current, formed * batch + waiting + self.book.outstanding(), batch)
    }

    /// Nodes that orders are out with.
    pub fn holders(&self) -> impl Iterator<Item = &PublicKey> {
        self.book.holders().keys()
    }

    /// Makes the orders of nodes that are gone available again.
    pub fn nodes_gone(&mut self, nodes: &[PublicKey]) {
        nodes.iter().for_each(|node| drop(self.book.node_gone(node)));
    }

    /// Whether a node is heard.
    ///
    /// # Errors
    /// Why it is not, as it is told.
    pub fn hear(&self, now: UnixMillis, node: &PublicKey) -> Result<(), Refusal> {
        self.record.hear(now, node).map_err(|silence| reply::unheard(&silence))
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
                Ok(_) => UnsignedReply::accepted(receipt),
                Err(Rejection::Refused(refusal)) => self.judge(now, &node, refusal.of(counter)),
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

    /// Records a refusal by an earlier stage, and frees the order that it concerns. Who is not
    /// heard is told only that.
    pub fn refuse(&mut self, now: UnixMillis, node: &PublicKey, refusal: Refusal) -> UnsignedReply {
        let refusal = match self.hear(now, node) {
            Ok(()) => refusal,
            Err(unheard) => Refusal { counter: refusal.counter, ..unheard },
        };
        // A duplicate was accepted, and a group of another run costs this one nothing.
        if !matches!(refusal.reason, RefuseReason::Duplicate | RefuseReason::Run) {
            self.fruitless.note(now, *node);
        }
        let reply = self.judge(now, node, refusal);
        self.tally.record(&reply.answer.outcome);
        reply
    }

    /// Holds a refusal against its node where it has to be. Who sends again what was accepted
    /// lately gets its receipt again.
    fn judge(&mut self, now: UnixMillis, node: &PublicKey, refusal: Refusal) -> UnsignedReply {
        self.give_back(node, &refusal);
        if self.record.refused(now, *node, refusal.reason, refusal.fault) {
            tracing::warn!(node = %node.short(), %refusal, "a node is not heard any more for now");
            self.book.node_gone(node);
        }
        let receipt = match (refusal.reason, refusal.counter) {
            // The receipt is a courtesy: a store that fails is found out elsewhere.
            (RefuseReason::Duplicate, Some(counter)) => {
                self.record_journal.receipt(node, counter).ok().flatten()
            }
            _ => None,
        };
        UnsignedReply { answer: refusal.answer(), receipt }
    }

    /// A node whose group was refused for good will not deliver that order any more.
    fn give_back(&mut self, node: &PublicKey, refusal: &Refusal) {
        let Some(counter) = refusal.counter else { return };
        match refusal.reason {
            // Nobody else may be asked for it: a flush that failed may have made the group durable after all.
            RefuseReason::Duplicate => self.book.delivered(counter),
            // What is not of this run, or not of this lease, says nothing of the order.
            RefuseReason::Lease | RefuseReason::Run => {}
            _ => drop(self.book.give_back(node, counter)),
        }
    }

    /// Notes that a group, whose tokens the policy wrote, could not be judged. True if it is
    /// to be refused: again, and others could be judged meanwhile. Its order counts towards
    /// being given up then.
    pub fn unjudged(&mut self, node: &PublicKey, counter: OrderCounter) -> bool {
        self.book.unjudged(node, counter, self.tally.accepted)
    }

    /// Notes from where a node is connected; `None` where that says nothing.
    pub fn connected(&mut self, node: PublicKey, network: Option<NetworkPrefix>) {
        self.record.connected(node, network);
        self.book.connected(node, network);
        if self.record.is_known(&node) {
            self.book.is_known_now(&node);
        }
    }

    /// Notes that it is not any more.
    pub fn disconnected(&mut self, node: &PublicKey) {
        self.record.disconnected(node);
    }

    /// Counts how a group was looked at.
    pub fn looked(&mut self, look: Look) {
        self.tally.looks.record(look);
    }

    /// Notes what the learner itself found of a verifier's verdict. True if the verifier is not
    /// heard from now on.
    pub fn judged(&mut self, now: UnixMillis, verifier: PublicKey, right: bool) -> bool {
        let silenced = self.record.judged(now, verifier, right);
        if silenced {
            tracing::warn!(verifier = %verifier.short(), "a verifier is not heard any more for now");
            self.book.node_gone(&verifier);
        }
        silenced
    }

    /// Follows the operator's journal up to byte `end`.
    pub fn decide(&mut self, now: UnixMillis, subject: Subject, decision: &Decision, end: u64) {
        self.record.decide(now, subject, decision, end);
        if let (Subject::Peer(node), Decision::Ban(_)) = (subject, decision) {
            self.book.node_gone(&node);
        }
    }

    /// Notes that the operator's journal was read up to byte `end`, where nothing stood
    /// that could be followed.
    pub fn followed(&mut self, end: u64) {
        self.record.followed(end);
    }

    /// Writes what the record has learned; what has changed somebody's standing is durable when this returns.
    ///
    /// # Errors
    /// When the store fails; the next call writes it.
    pub fn keep_record(&mut self) -> Result<(), CoordinatorError> {
        let urgent = self.record.is_urgent();
        self.record_journal.save(&mut self.record, &[])?;
        if urgent {
            self.record_journal.flush()?;
        }
        Ok(())
    }

    /// What is known of everybody.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The batch of the update at `version`: from the journal, or formed now; `None` while
    /// too few groups wait.
    ///
    /// # Errors
    /// When the store fails, or has failed before: what a failed flush left on the disk is known
    /// only to a process that reads it anew.
    pub fn batch(&mut self, version: PolicyVersion) -> Result<Option<Vec<StoredGroup>>, CoordinatorError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone().into());
        }
        Ok(self.buffer.form_batch(version, &self.staleness, self.groups_per_update)?)
    }

    /// Tells that the policy is now at `version`.
    pub fn at(&mut self, version: PolicyVersion) {
        self.progress.current = version;
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
