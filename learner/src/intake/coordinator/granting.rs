//! Who gets which orders, and what becomes of those that do not come back.

use super::Coordinator;
use crate::common::paced_log;
use crate::intake::leases::{LeaseBook, MAX_LEASES_OF_ORDER, OpenLease};
use crate::intake::work_ahead::{LearnerPosition, LeasedAgain, WorkAhead, WorkAheadConfig};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::{HeldOrder, Lease, MAX_RETURN_DETAIL, MAX_RETURNED, ReturnReason, Returned};
use echo_protocol::work::order::OrderCounter;

/// Milliseconds between two log lines about orders that nodes cannot do: a task that always fails
/// would write one for each.
const COMPLAIN_EVERY_MS: u64 = 30_000;

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

/// What a node gets for its question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Granted {
    /// What it may work on.
    pub leases: Vec<Lease>,
    /// Why it gets nothing for long, in words for its owner.
    pub refused: Option<String>,
}

/// How far work runs ahead, for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkAheadReport {
    /// Orders that may run ahead of the update at hand.
    pub depth: u64,
    /// Orders that were leased a second time.
    pub again: LeasedAgain,
}

/// The work-ahead of a learner that comes to `version` now, with the leases that an earlier process left.
pub(super) fn begin(
    config: WorkAheadConfig,
    book: &LeaseBook,
    now: UnixMillis,
    version: PolicyVersion,
) -> WorkAhead {
    let mut work_ahead = WorkAhead::new(config, now, version);
    for OpenLease { lease, left, lapsed, given_back } in book.snapshot().leases {
        let is_out = |counter: &&OrderCounter| !lapsed.contains(counter) && !given_back.contains(counter);
        for first in left.iter().filter(is_out) {
            // Nobody knows their version any more. Under the one of now, they are late no sooner than others.
            let single = Lease { first: *first, count: 1, ..lease.clone() };
            work_ahead.granted(now, lease.node, version, &[single]);
        }
    }
    work_ahead
}

impl Coordinator {
    /// Grants orders as wished, as far as they will be consumed in time; or again what was granted
    /// and has not reached the node. The leases may leave the learner when what
    /// [`Coordinator::write_leases`] writes is durable. A node whose policy will be too old when its
    /// work comes in gets none ([`Staleness::serves`](echo_protocol::run::staleness::Staleness::serves),
    /// [`WorkAhead::room`]).
    pub fn grant(&mut self, now: UnixMillis, wish: &LeaseRequest) -> Granted {
        let LeaseRequest { node, installed, orders, last } = *wish;
        let Some(installed) = installed.filter(|version| !self.closed && self.serves(*version)) else {
            return Granted::default();
        };
        let lost = self.book.lost(now, &node, last, orders);
        if !lost.is_empty() {
            return Granted { leases: lost, refused: None };
        }
        let position = self.position(self.book.outstanding_for(&node));
        let room = match &mut self.work_ahead {
            Some(work_ahead) => work_ahead.room(now, &node, installed, &position),
            None => Ok(self.room(&position)),
        };
        let room = match room {
            Ok(room) => room,
            Err(refused) => return Granted { leases: Vec::new(), refused: Some(refused) },
        };
        let mut leases = self.book.grant(now, node, orders, room);
        if let Some(work_ahead) = &mut self.work_ahead {
            if leases.is_empty()
                && orders > 0
                && self.book.makes_backups(&node)
                && let Some((lease, counter)) = work_ahead.straggler(now, &node, installed, &position)
                && self.book.late(lease, counter)
            {
                leases.extend(self.book.grant_idle(now, node, counter));
            }
            work_ahead.granted(now, node, installed, &leases);
        }
        self.say_given_up("nobody said why");
        Granted { leases, refused: None }
    }

    /// Whether what is generated under `installed` can be trained on when it comes in.
    fn serves(&self, installed: PolicyVersion) -> bool {
        let current = self.progress.current;
        match self.work_ahead {
            // How much is in time is found out order by order.
            Some(_) => self.staleness.admits(installed.min(current), current),
            None => self.staleness.serves(installed, current),
        }
    }

    /// Takes back orders that `node` will not do, as far as it holds them.
    pub fn take_back(&mut self, now: UnixMillis, node: &PublicKey, returned: Returned) {
        let Returned { mut orders, reason, detail } = returned;
        orders.truncate(MAX_RETURNED);
        if let Some(work_ahead) = &mut self.work_ahead {
            orders.iter().for_each(|held| work_ahead.given_back(node, held.counter));
        }
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

    /// Orders that may still be handed out: ⌊(N_r-1)/B⌋ ≤ i+η, where N_r counts what is in formed
    /// batches, waits, or is out.
    fn room(&self, position: &LearnerPosition) -> u64 {
        let batch = self.groups_per_update as u64;
        let LearnerPosition { current, unformed, ahead } = *position;
        self.staleness.room(current, unformed.0.saturating_mul(batch).saturating_add(ahead), batch)
    }

    /// Where the learner stands, with what waits for it and so many orders that are out.
    fn position(&self, out: u64) -> LearnerPosition {
        let current = self.progress.current;
        let unformed = self.buffer.newest_batch().map_or(current, PolicyVersion::next).max(current);
        let waiting = self.buffer.fresh(current, &self.staleness) as u64;
        LearnerPosition { current, unformed, ahead: waiting + out }
    }

    /// Has orders that can only come back too old leased anew.
    pub(super) fn release_late(&mut self, now: UnixMillis) {
        let position = self.position(self.book.outstanding());
        let Some(work_ahead) = &mut self.work_ahead else { return };
        for (lease, counter) in work_ahead.late(now, &position) {
            if self.book.late(lease, counter) {
                tracing::debug!(order = %counter, "comes too late, and is leased anew");
            }
        }
    }

    /// Makes the orders of a node available again.
    pub(super) fn forget(&mut self, node: &PublicKey) {
        self.book.node_gone(node);
        if let Some(work_ahead) = &mut self.work_ahead {
            work_ahead.gone(node);
        }
    }

    /// Notes that the group of an order came back, whatever becomes of it.
    pub(super) fn came_back(&mut self, now: UnixMillis, node: &PublicKey, counter: OrderCounter) {
        if let Some(work_ahead) = &mut self.work_ahead {
            work_ahead.came_back(now, node, counter);
        }
    }

    /// Whether a node gets no orders for now because none would come back in time.
    pub fn refuses(&self, node: &PublicKey) -> bool {
        self.work_ahead.as_ref().is_some_and(|work_ahead| work_ahead.refuses(node))
    }

    /// How far work runs ahead; `None` where η says it.
    pub fn work_ahead(&self) -> Option<WorkAheadReport> {
        let report =
            |ahead: &WorkAhead| WorkAheadReport { depth: ahead.depth(), again: ahead.leased_again() };
        self.work_ahead.as_ref().map(report)
    }
}
