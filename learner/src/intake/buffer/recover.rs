//! Opening the buffer after any end of the process before it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::OrderCounter;

use super::entry::{GroupEntry, counter};
use super::forget::Forgotten;
use super::index::Index;
use super::plan::{BufferHeader, BufferPlan, HEAD, end};
use super::totals::{Count, Totals};
use super::{BufferError, BufferLimits, ReplayBuffer, Write};
use crate::intake::filter::Filter;
use crate::intake::outcome::DropReason;
use crate::intake::stale_tally::StaleTally;
use crate::storage::{ObjectStoreError, Store, Tree, WriteBatch, seal, unseal};

/// What a scan of the store found.
#[derive(Default)]
struct Scan {
    index: Index,
    waiting: Count,
    batched: Count,
    /// Keys of unreadable records of waiting groups.
    damaged: Vec<Vec<u8>>,
    /// Keys of unreadable batches.
    damaged_batches: Vec<Vec<u8>>,
    next_arrival: u64,
}

/// Opens the buffer in `store`.
pub(super) fn open(store: Arc<dyn Store>, limits: BufferLimits) -> Result<ReplayBuffer, BufferError> {
    let scan = scan(&*store)?;
    let before = store.get(Tree::BufferHead, HEAD)?.and_then(|head| unseal::<BufferHeader>(&head));
    let mut repairs = WriteBatch::default();
    let lost = repair(&*store, &scan, &mut repairs)?;
    let mut head = match before.clone() {
        Some(head) => head,
        None => recount(&*store, lost)?,
    };
    account(&mut head.totals, &scan);
    head.next_arrival = head.next_arrival.max(scan.next_arrival);
    let changed = before.as_ref() != Some(&head) && head.totals != Totals::default();
    if changed || !repairs.is_empty() {
        repairs.put(Tree::BufferHead, HEAD, seal(&head)?);
        store.apply(&repairs)?;
    }
    // What the store shows may come from a process that was killed between writing and flushing.
    store.flush()?;
    Ok(ReplayBuffer {
        store,
        limits,
        filter: Filter::default(),
        index: scan.index,
        totals: head.totals,
        settled: head.settled,
        next_arrival: head.next_arrival,
        staged: Vec::new(),
        staged_bytes: 0,
        filtered: Vec::new(),
        stale: StaleTally::default(),
        undurable: BTreeMap::new(),
        written: Write::default(),
        durable: Write::default(),
    })
}

impl ReplayBuffer {
    /// Compares the store with what is known from elsewhere: that there is a checkpoint of
    /// `version`, and that `acknowledged` groups were acknowledged, or more. A store whose files
    /// lost their end knows less; true if it does.
    ///
    /// Groups that were trained on before the checkpoint may then seem to wait. So whatever
    /// waits is dropped as [`DropReason::Damaged`], and what the store has forgotten is booked
    /// under the same reason.
    ///
    /// # Errors
    /// When the store fails.
    pub fn reconcile(&mut self, version: PolicyVersion, acknowledged: u64) -> Result<bool, BufferError> {
        let mut plan = BufferPlan::default();
        let next = self.newest_batch().map_or(self.settled, |newest| newest.next().max(self.settled));
        if next < version {
            // Every update before the checkpoint had its batch in the journal before it began.
            plan.drop.extend(self.index.oldest_first().map(|entry| (entry.clone(), DropReason::Damaged)));
            plan.settled = Some(version);
        }
        let known = self.totals.acknowledged;
        let groups = acknowledged.saturating_sub(known.groups);
        let each = known.trajectories.checked_div(known.groups).unwrap_or(0);
        plan.lost = Count { groups, trajectories: groups * each };
        self.commit(&plan)?;
        Ok(!plan.is_empty())
    }
}

fn scan(store: &dyn Store) -> Result<Scan, ObjectStoreError> {
    let mut scan = Scan::default();
    store.visit(
        Tree::Journal,
        &mut |key, record| match (unseal::<Vec<GroupEntry>>(&record), counter(key)) {
            (Some(entries), Some(update)) => {
                for entry in &entries {
                    scan.batched += entry.count();
                    scan.next_arrival = scan.next_arrival.max(entry.arrival.saturating_add(1));
                }
                scan.index.add_batch(PolicyVersion(update), entries);
            }
            _ => scan.damaged_batches.push(key.to_vec()),
        },
    )?;
    store.visit(Tree::Waiting, &mut |key, record| match unseal::<GroupEntry>(&record) {
        Some(entry) if entry.key() == key && scan.index.place(entry.counter).is_none() => {
            scan.waiting += entry.count();
            scan.next_arrival = scan.next_arrival.max(entry.arrival.saturating_add(1));
            scan.index.add_waiting(entry);
        }
        _ => scan.damaged.push(key.to_vec()),
    })?;
    Ok(scan)
}

/// Drops what is damaged, so that it counts as delivered and is never met again; returns how
/// many groups that are.
fn repair(store: &dyn Store, scan: &Scan, repairs: &mut WriteBatch) -> Result<u64, ObjectStoreError> {
    let mut lost: BTreeSet<u64> = scan.damaged.iter().filter_map(|key| counter(key)).collect();
    scan.damaged.iter().for_each(|key| repairs.remove(Tree::Waiting, key));
    if !scan.damaged_batches.is_empty() {
        // Which groups the batch had is known only from the bytes that nobody else refers to.
        scan.damaged_batches.iter().for_each(|key| repairs.remove(Tree::Journal, key));
        store.visit(Tree::Groups, &mut |key, _| {
            lost.extend(counter(key).filter(|at| scan.index.place(OrderCounter(*at)).is_none()));
        })?;
    }
    lost.retain(|at| scan.index.place(OrderCounter(*at)).is_none());
    for at in lost.iter().copied().map(OrderCounter) {
        let (oldest, newest) = (PolicyVersion(0), PolicyVersion(0));
        let unknown = GroupEntry { counter: at, arrival: 0, oldest, newest, trajectories: 0, bytes: 0 };
        end(repairs, &unknown, Err(DropReason::Damaged))?;
    }
    Ok(lost.len() as u64)
}

/// Rebuilds a missing or damaged head from what was forgotten, the records of ended groups,
/// and those that are `lost` now.
fn recount(store: &dyn Store, lost: u64) -> Result<BufferHeader, ObjectStoreError> {
    let mut ended = Forgotten::load(store)?;
    store.visit(Tree::Final, &mut |_, record| ended.add(&record))?;
    let Forgotten { mut totals, settled, .. } = ended;
    if lost > 0 {
        totals.drop(DropReason::Damaged, Count { groups: lost, trajectories: 0 });
    }
    Ok(BufferHeader { totals, settled, next_arrival: 0 })
}

/// Books what the scan no longer found as damaged, and makes the totals add up.
fn account(totals: &mut Totals, scan: &Scan) {
    for (booked, found) in [(totals.waiting, scan.waiting), (totals.batched, scan.batched)] {
        let mut missing = booked;
        missing -= found;
        if missing != Count::default() {
            totals.drop(DropReason::Damaged, missing);
        }
    }
    totals.waiting = scan.waiting;
    totals.batched = scan.batched;
    totals.acknowledged = totals.accounted();
}
