//! The lease book on disk, written lease by lease.

use std::collections::BTreeMap;
use std::sync::Arc;

use echo_protocol::run::charter::RunId;
use echo_protocol::work::lease::{Lease, LeaseId};
use echo_protocol::work::order::OrderCounter;
use serde::{Deserialize, Serialize};

use super::{Change, LeaseBook, LeaseSnapshot, OpenLease, Rest};
use crate::storage::{ObjectStoreError, Store, Tree, WriteBatch, seal, unseal};

/// The only key of [`Tree::LeaseHead`].
const HEAD: &[u8] = b"head";

/// The book's counters, under the one key of their tree.
#[derive(Serialize, Deserialize)]
struct Head {
    run: RunId,
    cursor: OrderCounter,
    next_lease: LeaseId,
}

/// Why a journal cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LeaseJournalError {
    /// The store failed; the next write says the same again.
    #[error(transparent)]
    Store(#[from] ObjectStoreError),
    /// The counters are unreadable: nobody can say which orders are fresh.
    #[error(
        "the lease book's counters are damaged: move the run's database/ away; the next `echo-learner resume` makes a new \
         one from the checkpoint"
    )]
    Damaged,
    /// The journal is another run's.
    #[error("the lease book belongs to run {found}, not to {expected}: use that run's directory")]
    WrongRun {
        /// The run in the journal.
        found: RunId,
        /// The run asked for.
        expected: RunId,
    },
}

/// Leases that are written and not yet durable ([`LeaseJournal::write`]).
#[must_use = "leases may leave only after a flush"]
pub struct UnflushedLeases {
    /// None where nothing was to be written.
    store: Option<Arc<dyn Store>>,
    /// How many changes of the book are written.
    upto: u64,
}

impl UnflushedLeases {
    /// Waits for the disk. Whoever shares the book need not.
    ///
    /// # Errors
    /// When the store fails: then nothing of it may leave.
    pub fn flush(self) -> Result<FlushedLeases, LeaseJournalError> {
        self.store.map_or(Ok(()), |store| store.flush())?;
        Ok(FlushedLeases(self.upto))
    }
}

/// Leases that are durable, which the book is to be told ([`LeaseBook::flushed`]).
#[must_use = "the book has to be told"]
pub struct FlushedLeases(pub(super) u64);

/// Where a lease book is kept.
pub struct LeaseJournal {
    store: Arc<dyn Store>,
}

impl LeaseJournal {
    /// The journal in `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Makes everything that `book` granted so far durable. Leases may leave the learner only after
    /// this returned `Ok`; after an error the next call writes the same changes again.
    ///
    /// # Errors
    /// When the store fails.
    pub fn save(&self, book: &mut LeaseBook) -> Result<(), LeaseJournalError> {
        let flushed = self.write(book)?.flush()?;
        book.flushed(flushed);
        Ok(())
    }

    /// The first half of [`LeaseJournal::save`]: writes what `book` granted so far. The second half
    /// is the disk's, and is waited for without the book; afterwards [`LeaseBook::flushed`] is due.
    /// What the book is not told of is written again.
    ///
    /// # Errors
    /// When the store fails.
    pub fn write(&self, book: &LeaseBook) -> Result<UnflushedLeases, LeaseJournalError> {
        let upto = book.changes.count();
        if book.changes.pending().is_empty() {
            return Ok(UnflushedLeases { store: None, upto });
        }
        let mut batch = WriteBatch::default();
        for change in book.changes.pending() {
            match change {
                Change::Granted(lease) => {
                    batch.put(Tree::Leases, &lease.id.0.to_be_bytes(), seal(lease)?);
                }
                Change::Closed { id, .. } => batch.remove(Tree::Leases, &id.0.to_be_bytes()),
                Change::Rested(counter, rest) => {
                    batch.put(Tree::Resting, &counter.0.to_be_bytes(), seal(rest)?);
                }
                Change::Left(counter) => batch.remove(Tree::Resting, &counter.0.to_be_bytes()),
            }
        }
        let head = Head { run: book.config.run, cursor: book.cursor, next_lease: book.next_lease };
        batch.put(Tree::LeaseHead, HEAD, seal(&head)?);
        self.store.apply(&batch)?;
        Ok(UnflushedLeases { store: Some(self.store.clone()), upto })
    }

    /// The next order that was never leased, by what is on disk; `None` when the store is new.
    ///
    /// # Errors
    /// When the store fails, or the counters are damaged.
    pub fn cursor(&self) -> Result<Option<OrderCounter>, LeaseJournalError> {
        let Some(head) = self.store.get(Tree::LeaseHead, HEAD)? else { return Ok(None) };
        unseal::<Head>(&head).map(|head| Some(head.cursor)).ok_or(LeaseJournalError::Damaged)
    }

    /// Puts into `batch` what makes the book in an empty store that of `snapshot`. Fails when
    /// it cannot be encoded.
    pub(crate) fn found(snapshot: &LeaseSnapshot, batch: &mut WriteBatch) -> Result<(), LeaseJournalError> {
        for OpenLease { lease, lapsed, given_back, .. } in &snapshot.leases {
            batch.put(Tree::Leases, &lease.id.0.to_be_bytes(), seal(lease)?);
            for (counters, rest) in [(lapsed, Rest::Lapsed), (given_back, Rest::GivenBack)] {
                for counter in counters {
                    batch.put(Tree::Resting, &counter.0.to_be_bytes(), seal(&rest)?);
                }
            }
        }
        let head = Head { run: snapshot.run, cursor: snapshot.cursor, next_lease: snapshot.next_lease };
        batch.put(Tree::LeaseHead, HEAD, seal(&head)?);
        Ok(())
    }

    /// The book of `run` as of the last [`LeaseJournal::save`], without the orders that are `delivered`
    /// (that the buffer knows, whatever became of them) or were given up; `None` when nothing was ever
    /// leased. Leases without an order left are removed from disk. The orders of a lease whose record is
    /// damaged count as delivered: nobody is asked for them again.
    ///
    /// # Errors
    /// When the store fails, or holds another run's book or damaged counters; errors of
    /// `delivered` are passed on.
    pub fn load<E: From<LeaseJournalError>>(
        &self,
        run: RunId,
        mut delivered: impl FnMut(OrderCounter) -> Result<bool, E>,
    ) -> Result<Option<LeaseSnapshot>, E> {
        let failed = |error: ObjectStoreError| LeaseJournalError::from(error);
        let Some(head) = self.store.get(Tree::LeaseHead, HEAD).map_err(failed)? else { return Ok(None) };
        let head: Head = unseal(&head).ok_or(LeaseJournalError::Damaged)?;
        if head.run != run {
            return Err(LeaseJournalError::WrongRun { found: head.run, expected: run }.into());
        }

        let mut leases = BTreeMap::new();
        let mut done = WriteBatch::default();
        // An order belongs to the newest lease that covers it: leases are shown in the
        // order of their numbers.
        let mut holders: BTreeMap<OrderCounter, LeaseId> = BTreeMap::new();
        let mut visit = |key: &[u8], record: Vec<u8>| match unseal::<Lease>(&record) {
            Some(lease) if lease.id.0.to_be_bytes() == key => {
                holders.extend(lease.orders().map(|counter| (counter, lease.id)));
                leases.insert(lease.id, OpenLease::of(lease, []));
            }
            _ => done.remove(Tree::Leases, key),
        };
        self.store.visit(Tree::Leases, &mut visit).map_err(failed)?;
        // One that is given up is remembered for as long as a lease covers it.
        let mut resting: BTreeMap<OrderCounter, Rest> = BTreeMap::new();
        let mut visit = |key: &[u8], record: Vec<u8>| {
            let counter = key.try_into().map(u64::from_be_bytes).map(OrderCounter).ok();
            match (counter.filter(|counter| holders.contains_key(counter)), unseal::<Rest>(&record)) {
                (Some(counter), Some(rest)) => drop(resting.insert(counter, rest)),
                _ => done.remove(Tree::Resting, key),
            }
        };
        self.store.visit(Tree::Resting, &mut visit).map_err(failed)?;
        for (counter, id) in holders {
            let rest = resting.get(&counter);
            if rest != Some(&Rest::GivenUp)
                && let Some(open) = leases.get_mut(&id)
                && !delivered(counter)?
            {
                open.left.push(counter);
                match rest {
                    Some(Rest::Lapsed) => open.lapsed.push(counter),
                    Some(Rest::GivenBack) => open.given_back.push(counter),
                    Some(Rest::GivenUp) | None => {}
                }
            }
        }
        leases.retain(|id, open| {
            let keep = !open.left.is_empty();
            if !keep {
                done.remove(Tree::Leases, &id.0.to_be_bytes());
            }
            keep
        });
        if !done.is_empty() {
            self.store.apply(&done).map_err(failed)?;
        }
        let leases = leases.into_values().collect();
        Ok(Some(LeaseSnapshot { run, cursor: head.cursor, next_lease: head.next_lease, leases }))
    }
}
