//! The account of every acknowledged group.

use std::collections::BTreeMap;
use std::ops::{AddAssign, SubAssign};

use serde::{Deserialize, Serialize};

use crate::intake::outcome::DropReason;

/// How many groups, and how many trajectories in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Groups, each the trajectories of one order.
    pub groups: u64,
    /// Trajectories in these groups, up to G each.
    pub trajectories: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.groups += other.groups;
        self.trajectories += other.trajectories;
    }
}

impl SubAssign for Count {
    /// Saturates: a damaged record may have lost its number of trajectories.
    fn sub_assign(&mut self, other: Self) {
        self.groups = self.groups.saturating_sub(other.groups);
        self.trajectories = self.trajectories.saturating_sub(other.trajectories);
    }
}

/// What was acknowledged, and what became of it: acknowledged = trained + batched + waiting + Σ dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Became durable, and so was answered as accepted.
    pub acknowledged: Count,
    /// Trained on, and covered by a settled checkpoint.
    pub trained: Count,
    /// In a batch that no settled checkpoint covers yet.
    pub batched: Count,
    /// Waiting for a batch.
    pub waiting: Count,
    /// Dropped after they were acknowledged, by reason.
    pub dropped: BTreeMap<DropReason, Count>,
}

impl Totals {
    /// Whether every acknowledged group and trajectory is accounted for.
    pub fn add_up(&self) -> bool {
        self.accounted() == self.acknowledged
    }

    /// trained + batched + waiting + Σ dropped.
    pub(super) fn accounted(&self) -> Count {
        let mut sum = self.trained;
        [self.batched, self.waiting]
            .into_iter()
            .chain(self.dropped.values().copied())
            .for_each(|part| sum += part);
        sum
    }

    pub(super) fn drop(&mut self, reason: DropReason, count: Count) {
        *self.dropped.entry(reason).or_default() += count;
    }
}
