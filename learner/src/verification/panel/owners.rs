//! With how many groups at once each owner is trusted, whatever its keys.

use std::collections::BTreeMap;

use super::MAX_CASES;
use crate::reputation::Owner;

/// What owners have earned: one group at first, one more for each report in time. Only those that
/// have earned something are remembered.
#[derive(Debug, Default)]
pub(super) struct Accounts(BTreeMap<Owner, usize>);

impl Accounts {
    /// Whether it may have so many groups at once.
    pub(super) fn may_have(&self, owner: &Owner, groups: usize) -> bool {
        groups <= self.0.get(owner).copied().unwrap_or(1)
    }

    pub(super) fn was_in_time(&mut self, owner: Owner) {
        let groups = self.0.entry(owner).or_insert(1);
        *groups = (*groups + 1).min(MAX_CASES);
    }

    /// It was late, or went while it owed a report, or none of its keys is here any more: it
    /// has one group again.
    pub(super) fn forget(&mut self, owner: &Owner) {
        self.0.remove(owner);
    }
}
