//! How leases end without a delivery, and what becomes of their orders.

use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::{HeldOrder, LeaseId, ReturnReason};
use echo_protocol::work::order::OrderCounter;

use super::{Change, LeaseBook, MAX_HOLDERS, MAX_LEASES_OF_ORDER, Rest, State};

/// How a lease of an order ended without a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its time was over.
    Expired,
    /// It is leased to somebody else too: it comes too late, or a batch waits for it.
    Late,
    /// Its node has gone.
    Gone,
    /// The group was refused.
    Refused,
    /// The group could not be judged.
    Unjudged,
    /// Its node gave it back.
    Returned,
    /// Its node gave it back as one that nobody can do.
    Undoable,
}

impl LeaseBook {
    /// Makes an order idle whose group comes too late, or which is to be made twice. Its node may still
    /// deliver it, until somebody else has. False, and nothing changes, if it is not out under this lease.
    pub fn late(&mut self, id: LeaseId, counter: OrderCounter) -> bool {
        let is_out = self.is_out(id, counter);
        if is_out {
            self.rest(counter, End::Late);
        }
        is_out
    }

    /// Makes `counter` idle because `node` will not deliver it any more: its group was refused for
    /// good. False, and nothing changes, when `node` does not hold it.
    pub fn give_back(&mut self, node: &PublicKey, counter: OrderCounter) -> bool {
        let held = self.orders.get(&counter).is_some_and(|slot| self.holder(slot.lease) == Some(node));
        if held {
            self.rest(counter, End::Refused);
        }
        held
    }

    /// Makes an order idle that `node` will not do under this lease, or gives it up. False, and nothing
    /// changes, when it does not hold it so.
    pub fn take_back(&mut self, node: &PublicKey, held: HeldOrder, reason: ReturnReason) -> bool {
        let HeldOrder { lease, counter } = held;
        let holds = self.is_out(lease, counter) && self.holder(lease) == Some(node);
        if holds {
            let end = match reason {
                ReturnReason::Undoable => End::Undoable,
                ReturnReason::Late | ReturnReason::Dropped => End::Returned,
            };
            self.rest(counter, end);
        }
        holds
    }

    /// Records that `node`'s group of `counter` could not be judged, by a run that has `accepted`
    /// so many groups. True if that is not the first time under this lease, and others were
    /// accepted in between: then it is not the learner that cannot judge. The order is idle then,
    /// as after [`LeaseBook::give_back`], or given up.
    pub fn unjudged(&mut self, node: &PublicKey, counter: OrderCounter, accepted: u64) -> bool {
        if self.orders.get(&counter).is_none_or(|slot| self.holder(slot.lease) != Some(node)) {
            return false;
        }
        let Some(slot) = self.orders.get_mut(&counter) else { return false };
        let fails_alone = *slot.failed.get_or_insert(accepted) < accepted;
        if fails_alone {
            self.rest(counter, End::Unjudged);
        }
        fails_alone
    }

    /// Makes the orders of every lease that ran out idle, or gives them up, and returns them.
    pub fn expire(&mut self, now: UnixMillis) -> Vec<OrderCounter> {
        let mut lapsed = Vec::new();
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            lapsed.extend(self.lapse(id, End::Expired));
        }
        lapsed
    }

    /// Makes all orders of `node` idle at once, or gives them up, and returns them. Should it come
    /// back, it may still deliver those that were not leased again.
    pub fn node_gone(&mut self, node: &PublicKey) -> Vec<OrderCounter> {
        self.asked.remove(&self.parties.of(node));
        let ids: Vec<LeaseId> = self.of_node(node, LeaseId(0)).collect();
        ids.into_iter().flat_map(|id| self.lapse(id, End::Gone)).collect()
    }

    /// The orders that were given up since the last call: none of
    /// [`MAX_LEASES_OF_ORDER`] leases brought anything.
    pub fn take_given_up(&mut self) -> Vec<OrderCounter> {
        std::mem::take(&mut self.given_up)
    }

    /// When [`LeaseBook::expire`] next has something to do.
    #[cfg(test)]
    pub(super) fn next_deadline(&self) -> Option<UnixMillis> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Makes `counter` idle, or gives it up.
    fn rest(&mut self, counter: OrderCounter, end: End) {
        let Some(slot) = self.orders.get_mut(&counter) else { return };
        let Some(node) = self.leases.get(&slot.lease).map(|open| open.lease.node) else { return };
        let (lease, before) = (slot.lease, slot.state);
        let rest = match end {
            End::Refused | End::Unjudged | End::Returned | End::Undoable => Rest::GivenBack,
            End::Expired | End::Gone | End::Late => Rest::Lapsed,
        };
        slot.state = State::Idle(rest);
        slot.is_late = end == End::Late;
        if before != State::Out {
            self.changes.push(Change::Rested(counter, rest));
            return;
        }
        let is_first = !self.parties.is_among(&slot.holders, &node);
        if !slot.holders.contains(&node) {
            if slot.holders.len() >= MAX_HOLDERS {
                slot.holders.remove(0);
            }
            slot.holders.push(node);
        }
        if is_first || matches!(end, End::Expired | End::Unjudged | End::Undoable) {
            slot.ended = slot.ended.saturating_add(1);
        }
        let is_over = slot.ended >= MAX_LEASES_OF_ORDER
            && self.parties.suffice(&slot.holders, |party| self.asked.contains_key(party));
        self.uncount(lease);
        if is_over {
            self.detach(counter);
            // A lease that is not over would bring it back after a restart.
            if self.leases.values().any(|open| open.lease.covers(counter)) {
                self.changes.push(Change::Rested(counter, Rest::GivenUp));
            }
            self.given_up.push(counter);
        } else {
            self.changes.push(Change::Rested(counter, rest));
            self.idle.insert(counter);
        }
    }

    /// Makes the orders of a lease that are out idle, or gives them up.
    fn lapse(&mut self, id: LeaseId, end: End) -> Vec<OrderCounter> {
        let Some(open) = self.leases.get(&id) else { return Vec::new() };
        let lapsed: Vec<OrderCounter> =
            open.lease.orders().filter(|counter| self.is_out(id, *counter)).collect();
        self.deadlines.remove(&(open.deadline, id));
        lapsed.iter().for_each(|counter| self.rest(*counter, end));
        lapsed
    }
}
