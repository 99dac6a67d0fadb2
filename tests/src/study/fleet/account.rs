//! What the simulation itself knows of every order, and the rules that the learner's intake has to keep.

use anyhow::{bail, ensure};
use echo_learner::intake::buffer::{StoredGroup, Totals};
use echo_learner::intake::coordinator::CoordinatorState;
use echo_learner::intake::leases::MAX_LEASES_OF_ORDER;
use echo_protocol::work::order::OrderCounter;
use std::collections::{BTreeMap, BTreeSet};

/// One order.
#[derive(Clone, Copy, Debug, Default)]
struct OrderMark {
    leases: u32,
    is_accepted: bool,
    is_trained: bool,
}

/// All orders of a run.
#[derive(Debug, Default)]
pub(super) struct Account {
    orders: Vec<OrderMark>,
    accepted: u64,
    /// The batches that no checkpoint covers, by their updates: a restarted learner makes the same again.
    batches: BTreeMap<u64, Vec<u64>>,
    /// Groups that were trained on, in the lineage that counts, and the sum of their lags.
    pub(super) trained: u64,
    pub(super) lags: u64,
}

impl Account {
    /// An order was leased, for the first time or again.
    pub(super) fn leased(&mut self, order: OrderCounter) -> anyhow::Result<()> {
        let index = usize::try_from(order.0)?;
        if index >= self.orders.len() {
            self.orders.resize(index + 1, OrderMark::default());
        }
        ensure!(!self.orders[index].is_accepted, "order {order} was leased after it was accepted");
        self.orders[index].leases += 1;
        Ok(())
    }

    /// A group was acknowledged.
    pub(super) fn accepted(&mut self, order: OrderCounter) -> anyhow::Result<()> {
        let mark = self.mark(order)?;
        ensure!(!mark.is_accepted, "order {order} was accepted twice");
        mark.is_accepted = true;
        self.accepted += 1;
        Ok(())
    }

    /// A group was refused as one that is there already. It has to be, unless it was `resent`: the answer to
    /// it was lost with the learner.
    pub(super) fn duplicate(&mut self, order: OrderCounter, resent: bool) -> anyhow::Result<()> {
        if self.mark(order)?.is_accepted {
            return Ok(());
        }
        ensure!(resent, "order {order} was refused as a duplicate, and was never accepted");
        self.accepted(order)
    }

    /// The batch of the update at `version`, with S = `budget`.
    pub(super) fn batch(&mut self, version: u64, budget: u64, groups: &[StoredGroup]) -> anyhow::Result<()> {
        let counters: Vec<u64> = groups.iter().map(|stored| stored.group.counter.0).collect();
        if let Some(known) = self.batches.get(&version) {
            ensure!(*known == counters, "the restarted learner has another batch of update {version}");
            return Ok(());
        }
        for StoredGroup { group, .. } in groups {
            let Some(oldest) = group.oldest_version() else { bail!("a group without a token") };
            let lag = version.checked_sub(oldest.0);
            let lag = lag.filter(|lag| *lag <= budget);
            let Some(lag) = lag else {
                bail!("S = {budget} is broken: a group of version {oldest} is in the batch at {version}")
            };
            self.lags += lag;
            let mark = self.mark(group.counter)?;
            ensure!(mark.is_accepted, "order {} is trained on and was not acknowledged", group.counter);
            ensure!(!mark.is_trained, "order {} is trained on twice", group.counter);
            mark.is_trained = true;
        }
        self.trained += counters.len() as u64;
        self.batches.insert(version, counters);
        Ok(())
    }

    /// A checkpoint at `version` is durable.
    pub(super) fn checkpoint(&mut self, version: u64) {
        self.batches = self.batches.split_off(&version);
    }

    /// Whether nothing that was acknowledged is lost, and no order is forgotten: each is accepted, open in
    /// the lease book, or was given up after as many leases as it takes.
    pub(super) fn check(&self, state: &CoordinatorState, totals: &Totals) -> anyhow::Result<()> {
        ensure!(totals.add_up(), "the buffer's account does not add up: {totals:?}");
        let known = totals.acknowledged.groups;
        ensure!(
            known == self.accepted,
            "{} groups were acknowledged, and the buffer knows {known}",
            self.accepted
        );
        let cursor = usize::try_from(state.leases.cursor.0)?;
        ensure!(cursor >= self.orders.len(), "orders were leased beyond the cursor {cursor}");
        let open: BTreeSet<OrderCounter> =
            state.leases.leases.iter().flat_map(|open| open.left.iter().copied()).collect();
        for (index, mark) in self.orders.iter().enumerate() {
            let is_open = open.contains(&OrderCounter(index as u64));
            let given_up = mark.leases >= MAX_LEASES_OF_ORDER;
            ensure!(mark.is_accepted || is_open || given_up, "order {index} is forgotten");
            ensure!(!mark.is_accepted || !is_open, "order {index} is accepted, and open in the lease book");
        }
        Ok(())
    }

    fn mark(&mut self, order: OrderCounter) -> anyhow::Result<&mut OrderMark> {
        let index = usize::try_from(order.0)?;
        let known = self.orders.get_mut(index).filter(|mark| mark.leases > 0);
        known.ok_or_else(|| anyhow::anyhow!("order {order} came and was never leased"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_rules_are_noticed() {
        let order = OrderCounter(3);
        let mut account = Account::default();
        assert!(account.accepted(order).is_err(), "never leased");
        account.leased(order).unwrap();
        assert!(account.duplicate(order, false).is_err(), "never accepted");
        account.duplicate(order, true).unwrap();
        account.duplicate(order, false).unwrap();
        assert!(account.accepted(order).is_err(), "twice");
        assert!(account.leased(order).is_err(), "accepted before");
        assert!(account.accepted(OrderCounter(2)).is_err(), "never leased, though a later one was");
    }
}
