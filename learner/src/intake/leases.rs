//! The lease book: who may work on which orders, and until when.
//!
//! A plain state machine: no clock, no files. Every order below the cursor is in one of three states:
//!
//! - **out**: a lease runs; the order counts against the room for further ones, for a node with a
//!   record as far as others with one hold it ([`LeaseBook::outstanding_for`]);
//! - **idle**: its lease ran out, its node is gone, or it was given back; it is leased
//!   again before any fresh order. Until then whoever last held it may still deliver it,
//!   unless it was given back;
//! - **settled**: the replay buffer has it, or it was given up after [`MAX_LEASES_OF_ORDER`] leases
//!   that brought nothing. The book then forgets it: an order below the cursor that is neither out
//!   nor idle is settled, so nothing grows with the length of the run. Orders are draws that do not
//!   depend on each other, so one that is never delivered is missed by nobody.
//!
//! An order may be out with two nodes at once: one whose group comes too late, or which a batch waits for, is
//! made idle ahead of its time ([`LeaseBook::late`]) and leased anew. Whoever delivers it first is taken; the
//! other one hears that it is not needed any more. After a restart only the newer lease holds.
//!
//! No owner decides alone which orders are left out; all keys of a network are one. An idle order is not
//! leased to an owner that held it before, while another one asks for orders that did not. It is not given
//! up before some with a record have held it, if there are any. A lease without a delivery counts once for
//! each owner. After that it counts only if it expired, came back as undoable, or its group could not be
//! judged. Leaving, or having a group refused, is free and proves nothing.
//!
//! A lease may leave the learner only after [`LeaseJournal`] made it durable; that orders are idle or given
//! up is written with the next lease. Deliveries are not written: after a crash the buffer says which
//! orders it has, and the book is rebuilt from the journal and the buffer together.

mod changes;
mod ending;
mod journal;
mod parties;
mod refusal;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use echo_protocol::control::requests::MAX_LEASES;
use echo_protocol::run::charter::RunId;
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::{HeldOrder, Lease, LeaseId, MAX_LEASE_ORDERS};
use echo_protocol::work::order::OrderCounter;

use crate::reputation::NetworkPrefix;
use changes::{Change, Changes, Rest};
use parties::{Parties, Party};

pub use journal::{FlushedLeases, LeaseJournal, LeaseJournalError, UnflushedLeases};
pub use refusal::LeaseRefusal;
pub use snapshot::{LeaseSnapshot, OpenLease, SnapshotError};

/// Most orders that are out or idle at once. At the limit no fresh order is leased.
pub const MAX_OPEN_ORDERS: usize = 1 << 20;

/// Leases of one order that may end without a delivery: an order that nobody can do (a prompt that the task
/// cannot judge, or that has no tokens) comes before all fresh ones each time, and is given up then. Far more
/// than honest nodes need that come and go; and nodes that would have a certain order left out have to be
/// given it every time. Counted are the first lease of each node, and of its later ones those that ran out,
/// that came back as ones that cannot be done, or whose group could not be judged. A restart counts anew.
pub const MAX_LEASES_OF_ORDER: u32 = 8;

/// Nodes whose leases of one order ended, as far as they are remembered.
const MAX_HOLDERS: usize = 64;

/// Idle orders that are looked at for one that a node did not hold before.
const MAX_IDLE_SEARCHED: usize = 1024;

/// The numbers of a lease book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// The run that all leases are signed for.
    pub run: RunId,
    /// How long a lease runs, in milliseconds.
    pub lifetime_ms: u64,
    /// Most orders that are out with one node.
    pub max_open_per_node: u64,
}

#[derive(Clone, Debug)]
struct Open {
    lease: Lease,
    /// When its orders may be leased to somebody else.
    deadline: UnixMillis,
    /// Orders of the lease that are out or idle.
    left: u32,
    /// Where the learner was when it granted it; `None` if an earlier process did.
    at: Option<PolicyVersion>,
    /// The network of a key without a record, under which its orders count too.
    stranger_of: Option<NetworkPrefix>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Out,
    /// Idle, and never [`Rest::GivenUp`].
    Idle(Rest),
}

#[derive(Clone, Debug)]
struct Slot {
    lease: LeaseId,
    state: State,
    /// Leases of the order that ended, as far as they count: at least one for each of `holders`.
    ended: u32,
    /// Whose leases of the order ended: at most [`MAX_HOLDERS`], the newest.
    holders: Vec<PublicKey>,
    /// How many groups of the run were accepted when judging the one of this lease first failed.
    failed: Option<u64>,
    /// Whether it rests because it was late: its holder may deliver it when somebody else has it, too.
    is_late: bool,
    /// The lease before that was late, and its node: whoever delivers first is taken.
    before: Option<(LeaseId, PublicKey)>,
}

/// Who may work on which orders.
#[derive(Clone, Debug)]
pub struct LeaseBook {
    config: LeaseConfig,
    /// The next order that was never leased.
    cursor: OrderCounter,
    next_lease: LeaseId,
    /// Where the learner is.
    at: PolicyVersion,
    /// Leases that this book did not grant, and that may be out all the same: its directory was restored from
    /// a backup, and they were granted after that was made.
    unknown: Range<LeaseId>,
    /// Leases with an order left.
    leases: BTreeMap<LeaseId, Open>,
    /// Every order that is out or idle.
    orders: BTreeMap<OrderCounter, Slot>,
    idle: BTreeSet<OrderCounter>,
    /// Leases that have not run out.
    deadlines: BTreeSet<(UnixMillis, LeaseId)>,
    /// The numbers of `leases`, by their nodes.
    by_node: BTreeSet<(PublicKey, LeaseId)>,
    out_by_node: BTreeMap<PublicKey, u64>,
    /// Orders that are out with keys that have a record.
    out_with_known: u64,
    /// Orders that are out with keys without a record, by their networks.
    strangers_out: BTreeMap<NetworkPrefix, u64>,
    /// Whose the nodes are.
    parties: Parties,
    /// When each party last asked for orders. Whoever has gone or has not asked for two lifetimes of
    /// a lease is forgotten.
    asked: BTreeMap<Party, UnixMillis>,
    /// When it was last seen to that.
    forgot: UnixMillis,
    /// Orders that were given up since somebody asked.
    given_up: Vec<OrderCounter>,
    changes: Changes,
}

impl LeaseBook {
    /// The book of a new run.
    pub fn new(config: LeaseConfig) -> Self {
        Self {
            config,
            cursor: OrderCounter(0),
            next_lease: LeaseId(0),
            at: PolicyVersion(0),
            unknown: LeaseId(0)..LeaseId(0),
            leases: BTreeMap::new(),
            orders: BTreeMap::new(),
            idle: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            by_node: BTreeSet::new(),
            out_by_node: BTreeMap::new(),
            out_with_known: 0,
            strangers_out: BTreeMap::new(),
            parties: Parties::default(),
            asked: BTreeMap::new(),
            forgot: UnixMillis(0),
            given_up: Vec::new(),
            changes: Changes::default(),
        }
    }

    /// Begins an epoch: its leases have numbers that no earlier process gave.
    pub fn begin(&mut self, epoch: Epoch) {
        let first = self.next_lease.max(LeaseId::first_of(epoch));
        self.unknown = self.next_lease..first;
        self.next_lease = first;
    }

    /// The epoch of the leases that are granted.
    pub fn epoch(&self) -> Epoch {
        self.next_lease.epoch()
    }

    /// Leases up to `orders` orders to `node`, at most `room` (what staleness and the node's pace leave,
    /// [`WorkAhead::room`](crate::intake::work_ahead::WorkAhead::room)): idle ones first, then fresh
    /// ones, each lease a contiguous range. Fewer, or none, when a limit is reached. Idle ones that
    /// the node held before are left to those that did not, as long as one of them asks too.
    pub fn grant(&mut self, now: UnixMillis, node: PublicKey, orders: u32, room: u64) -> Vec<Lease> {
        self.expire(now);
        self.forget_silent(now);
        self.asked.insert(self.parties.of(&node), now);
        let allowed = self.most_open(&node).saturating_sub(self.out_with(&node));
        let mut wanted = u64::from(orders).min(room).min(allowed);
        let mut leases = Vec::new();
        while wanted > 0 && leases.len() < MAX_LEASES {
            let (first, count) = self.next_range(&node, wanted.min(u64::from(MAX_LEASE_ORDERS)));
            if count == 0 {
                break;
            }
            wanted -= u64::from(count);
            leases.push(self.open(now, node, first, count));
        }
        leases
    }

    /// Leases one idle order to `node`, unless the node holds all that it may or held this order before.
    pub fn grant_idle(&mut self, now: UnixMillis, node: PublicKey, counter: OrderCounter) -> Option<Lease> {
        let slot = self.orders.get(&counter).filter(|slot| slot.state != State::Out)?;
        let is_first = !self.parties.is_among(&slot.holders, &node);
        let may = is_first && self.out_with(&node) < self.most_open(&node);
        may.then(|| self.open(now, node, counter, 1))
    }

    /// The leases of `node` after `last`, the last of its orders that reached it, as far as their orders are
    /// out and at most `orders` of them: the answer that brought them got lost, or the node has begun anew.
    /// They are leased for the time that they have left.
    pub fn lost(
        &self,
        now: UnixMillis,
        node: &PublicKey,
        last: Option<HeldOrder>,
        orders: u32,
    ) -> Vec<Lease> {
        let first = last.map_or(LeaseId(0), |last| last.lease);
        let mut room = orders as usize;
        let mut lost = Vec::new();
        for id in self.of_node(node, first) {
            let open = self.leases.get(&id).filter(|open| open.deadline > now);
            let Some(Open { lease, deadline, .. }) = open else { continue };
            let lifetime_ms = deadline.since(now);
            let is_lost = |counter: &OrderCounter| {
                self.is_out(id, *counter) && last < Some(HeldOrder { lease: id, counter: *counter })
            };
            let counters: Vec<OrderCounter> = lease.orders().filter(is_lost).take(room).collect();
            room -= counters.len();
            lost.extend(ranges(&counters).map(|(first, count)| Lease {
                first,
                count,
                lifetime_ms,
                ..lease.clone()
            }));
            if room == 0 {
                break;
            }
        }
        lost.truncate(MAX_LEASES);
        lost
    }

    /// Whether `node` may deliver `counter` under lease `id`.
    ///
    /// A lease that ran out still holds for an order that was neither leased again nor delivered:
    /// the work is done, and the staleness budget alone decides what it is worth. A node that was
    /// leased the same order again may deliver it under its earlier lease.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check(&self, node: &PublicKey, id: LeaseId, counter: OrderCounter) -> Result<(), LeaseRefusal> {
        if self.unknown.contains(&id) {
            return Err(LeaseRefusal::NotFound(id));
        }
        let slot = self.orders.get(&counter);
        if slot.is_none() && counter < self.cursor {
            return Err(LeaseRefusal::Delivered(counter));
        }
        let holds = slot.is_some_and(|slot| {
            let is_first = slot.before.is_some_and(|(lease, holder)| id <= lease && holder == *node);
            is_first
                || (slot.state != State::Idle(Rest::GivenBack)
                    && id <= slot.lease
                    && self.holder(slot.lease) == Some(node))
        });
        if holds {
            return Ok(());
        }
        let open = self.leases.get(&id).ok_or(LeaseRefusal::NotFound(id))?;
        if open.lease.node != *node {
            return Err(LeaseRefusal::OtherNode(id));
        }
        if !open.lease.covers(counter) {
            return Err(LeaseRefusal::OutsideRange { lease: id, counter });
        }
        Err(LeaseRefusal::Expired(counter))
    }

    /// Records that the buffer has `counter`, durably. It is never leased again.
    pub fn delivered(&mut self, counter: OrderCounter) {
        self.detach(counter);
    }

    /// Orders that are out: the part of N_r that is neither buffered nor trained on.
    pub fn outstanding(&self) -> u64 {
        (self.orders.len() - self.idle.len()) as u64
    }

    /// Nodes that orders are out with, and how many.
    pub fn holders(&self) -> &BTreeMap<PublicKey, u64> {
        &self.out_by_node
    }

    /// Orders that wait to be leased again.
    pub fn idle(&self) -> u64 {
        self.idle.len() as u64
    }

    /// Orders that are out with `node`.
    pub fn out_with(&self, node: &PublicKey) -> u64 {
        self.out_by_node.get(node).copied().unwrap_or(0)
    }

    /// The next order that was never leased.
    pub fn cursor(&self) -> OrderCounter {
        self.cursor
    }

    /// Orders below are settled, and no lease on disk covers one of them: after a restart
    /// nobody asks what became of them.
    pub fn settled_below(&self) -> OrderCounter {
        let open = self.leases.values().map(|open| open.lease.first);
        open.chain(self.changes.closing()).fold(self.cursor, OrderCounter::min)
    }

    /// Whether a lease of this number may ever have been granted. What was granted in other epochs is not
    /// known: a directory that is restored from a backup has forgotten some.
    pub fn may_have_granted(&self, id: LeaseId) -> bool {
        id < self.next_lease || id.epoch() != self.epoch()
    }

    /// Notes what is durable.
    pub fn flushed(&mut self, FlushedLeases(upto): FlushedLeases) {
        self.changes.flushed(upto);
    }

    /// The leases of a node with orders left, from number `first` on.
    fn of_node(&self, node: &PublicKey, first: LeaseId) -> impl Iterator<Item = LeaseId> {
        self.by_node.range((*node, first)..=(*node, LeaseId(u64::MAX))).map(|(_, id)| *id)
    }

    /// Whether `counter` is out under lease `id`.
    fn is_out(&self, id: LeaseId, counter: OrderCounter) -> bool {
        self.orders.get(&counter).is_some_and(|slot| slot.lease == id && slot.state == State::Out)
    }

    fn holder(&self, id: LeaseId) -> Option<&PublicKey> {
        self.leases.get(&id).map(|open| &open.lease.node)
    }

    /// Forgets nodes that have not asked for long, once in a lifetime of a lease.
    fn forget_silent(&mut self, now: UnixMillis) {
        let lifetime = self.config.lifetime_ms;
        if now.since(self.forgot) > lifetime {
            self.forgot = now;
            self.asked.retain(|_, asked| now.since(*asked) <= lifetime);
        }
    }

    /// The next contiguous range of at most `most` orders to lease to `node`, possibly empty.
    fn next_range(&self, node: &PublicKey, most: u64) -> (OrderCounter, u32) {
        let room = (MAX_OPEN_ORDERS - self.orders.len().min(MAX_OPEN_ORDERS)) as u64;
        let fresh = room.min(u64::MAX - self.cursor.0);
        // Where there are no fresh ones, whoever asks gets what there is.
        let suits = |counter: OrderCounter| fresh == 0 || self.is_for(node, counter);
        let idle = self.idle.iter().copied().take(MAX_IDLE_SEARCHED).find(|counter| suits(*counter));
        let (first, available) = match idle {
            Some(first) => {
                let following = self.idle.range(first..).copied().zip(first.0..);
                let run =
                    following.take_while(|(counter, expected)| counter.0 == *expected && suits(*counter));
                (first, run.take(MAX_LEASE_ORDERS as usize).count() as u64)
            }
            None => (self.cursor, fresh),
        };
        let count = available.min(most).min(u64::from(MAX_LEASE_ORDERS));
        (first, u32::try_from(count).expect("MAX_LEASE_ORDERS fits"))
    }

    fn open(&mut self, now: UnixMillis, node: PublicKey, first: OrderCounter, count: u32) -> Lease {
        let id = self.next_lease;
        self.next_lease = LeaseId(id.0 + 1);
        let lifetime_ms = self.config.lifetime_ms;
        let deadline = now.plus(lifetime_ms);
        let lease = Lease { run: self.config.run, id, node, first, count, lifetime_ms };
        for counter in lease.orders() {
            let late = self.orders.get(&counter).filter(|slot| slot.is_late).map(|slot| slot.lease);
            let before = late.and_then(|lease| Some((lease, *self.holder(lease)?)));
            let rested = self.detach(counter);
            let (ended, holders) = rested.map(|slot| (slot.ended, slot.holders)).unwrap_or_default();
            let (state, failed, is_late) = (State::Out, None, false);
            self.orders.insert(counter, Slot { lease: id, state, ended, holders, failed, is_late, before });
        }
        let end = OrderCounter(first.0 + u64::from(count));
        self.cursor = self.cursor.max(end);
        self.deadlines.insert((deadline, id));
        self.by_node.insert((node, id));
        let stranger_of = self.count(node, u64::from(count));
        let (lease_kept, at) = (lease.clone(), Some(self.at));
        self.leases.insert(id, Open { lease: lease_kept, deadline, left: count, at, stranger_of });
        self.changes.push(Change::Granted(lease.clone()));
        lease
    }

    /// Takes `counter` from its lease, and closes the lease when that was its last order.
    fn detach(&mut self, counter: OrderCounter) -> Option<Slot> {
        let slot = self.orders.remove(&counter)?;
        self.idle.remove(&counter);
        match slot.state {
            State::Out => self.uncount(slot.lease),
            State::Idle(_) => self.changes.push(Change::Left(counter)),
        }
        if let Some(open) = self.leases.get_mut(&slot.lease) {
            open.left -= 1;
            if open.left == 0 {
                self.deadlines.remove(&(open.deadline, slot.lease));
                self.by_node.remove(&(open.lease.node, slot.lease));
                let first = open.lease.first;
                self.leases.remove(&slot.lease);
                self.changes.push(Change::Closed { id: slot.lease, first });
            }
        }
        Some(slot)
    }
}

/// The contiguous ranges of ascending orders: their first, and how many they are.
fn ranges(counters: &[OrderCounter]) -> impl Iterator<Item = (OrderCounter, u32)> {
    let runs = counters.chunk_by(|a, b| a.0.checked_add(1) == Some(b.0));
    runs.map(|run| (run[0], u32::try_from(run.len()).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests;
