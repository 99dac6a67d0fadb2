//! Sets of a piece's groups.

use super::MAX_GROUPS;
use serde::{Deserialize, Serialize};

/// A set of group numbers below [`MAX_GROUPS`], one bit each; group 0 is the lowest bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupMask(pub u64);

impl GroupMask {
    /// The set without any member.
    pub const EMPTY: Self = Self(0);

    /// The first `groups` groups.
    pub fn all(groups: u32) -> Self {
        Self(u64::MAX.checked_shr((MAX_GROUPS as u32).saturating_sub(groups)).unwrap_or(0))
    }

    /// The groups that `groups` names; those beyond the largest piece are ignored.
    pub fn of(groups: impl IntoIterator<Item = u32>) -> Self {
        Self(groups.into_iter().fold(0, |mask, group| mask | bit(group)))
    }

    /// Whether `group` is in the set.
    pub fn contains(self, group: u32) -> bool {
        self.0 & bit(group) != 0
    }

    /// Adds a group; one beyond the largest piece is ignored.
    pub fn insert(&mut self, group: u32) {
        self.0 |= bit(group);
    }

    /// Removes one member; nothing happens if it is not in the set.
    pub fn remove(&mut self, group: u32) {
        self.0 &= !bit(group);
    }

    /// The groups in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The groups in both sets.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The groups of this set that are not in `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// How many groups the set holds.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set holds nothing.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lowest group of the set.
    pub fn lowest(self) -> Option<u32> {
        (self.0 != 0).then(|| self.0.trailing_zeros())
    }

    /// The groups, lowest first.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(self.0), |rest| Some(rest & rest.wrapping_sub(1)))
            .take_while(|rest| *rest != 0)
            .map(u64::trailing_zeros)
    }
}

fn bit(group: u32) -> u64 {
    1u64.checked_shl(group).unwrap_or(0)
}
