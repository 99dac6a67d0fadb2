//! The staleness budget, in one place.
//!
//! ECHO-2 bounds the lag of a consumed trajectory by S and publishes every κ updates (§3.2, default κ = S-1). RLAX's pair
//! (j, k) and AReaL's η are other names for the same decision, so they are views of this one policy:
//! `j = κ` (a node reloads every j updates), `k = S` (what is accepted), `η = S-κ` (how far ahead work is handed out).
//!
//! Why η = S-κ keeps the bound: work is leased only while it will be consumed no later than update i+η, and the newest
//! published snapshot is then at most κ-1 updates old, so its lag at consumption is at most η+κ-1 = S-1. The remaining one
//! update is the room that dissemination has. Whatever still comes too late is dropped at batch time.

use crate::version::PolicyVersion;
use serde::{Deserialize, Serialize};

/// How old a trajectory may be when it is trained on, and how often snapshots are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Numbers", into = "Numbers")]
pub struct Staleness {
    budget: u64,
    period: u64,
}

/// The unchecked form that travels.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Numbers {
    budget: u64,
    period: u64,
}

/// Numbers that cannot be a staleness policy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StalenessError {
    /// S = 0 would need the learner to wait for every rollout.
    #[error(
        "staleness budget S = 0 makes the learner wait for every rollout: choose S of at least 1 (3 is a good start)"
    )]
    NoBudget,
    /// κ outside 1..=S.
    #[error("publication period κ = {period} must lie between 1 and the staleness budget S = {budget}")]
    Period {
        /// κ, in updates.
        period: u64,
        /// S, in updates.
        budget: u64,
    },
}

impl Staleness {
    /// A policy with budget S = `budget` and period κ = `period`, by default S-1 (1 for S = 1).
    pub fn new(budget: u64, period: Option<u64>) -> Result<Self, StalenessError> {
        if budget == 0 {
            return Err(StalenessError::NoBudget);
        }
        let period = period.unwrap_or((budget - 1).max(1));
        if period == 0 || period > budget {
            return Err(StalenessError::Period { period, budget });
        }
        Ok(Self { budget, period })
    }

    /// S: largest lag, in updates, of a trajectory that is trained on; also RLAX's acceptance staleness k.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// κ: updates between two publications; also RLAX's reload staleness j.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// η of AReaL's admission rule: batches of work that may be handed out beyond the current one.
    pub fn admission(&self) -> u64 {
        self.budget - self.period
    }

    /// Whether a token of version `produced` may be trained on when the batch at `current` is formed: v ≥ v_t - S.
    pub fn admits(&self, produced: PolicyVersion, current: PolicyVersion) -> bool {
        produced <= current && current.lag_behind(produced) <= self.budget
    }

    /// Whether the policy of `version` is published.
    pub fn publishes(&self, version: PolicyVersion) -> bool {
        version.0.is_multiple_of(self.period)
    }

    /// Further units of work that may be leased at version `current` (AReaL §5.1: ⌊(N_r-1)/B⌋ ≤ i+η).
    ///
    /// `issued` is N_r: units trained on so far, plus those that wait or are out on lease; `batch` is B, in the same units.
    pub fn room(&self, current: PolicyVersion, issued: u64, batch: u64) -> u64 {
        let last_allowed = current.0.saturating_add(self.admission()).saturating_add(1).saturating_mul(batch);
        last_allowed.saturating_sub(issued)
    }
}

impl TryFrom<Numbers> for Staleness {
    type Error = StalenessError;
    fn try_from(numbers: Numbers) -> Result<Self, StalenessError> {
        Self::new(numbers.budget, Some(numbers.period))
    }
}

impl From<Staleness> for Numbers {
    fn from(policy: Staleness) -> Self {
        Self { budget: policy.budget, period: policy.period }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_agree() {
        let policy = Staleness::new(3, None).unwrap();
        assert_eq!((policy.period(), policy.admission()), (2, 1));
        assert!(policy.admits(PolicyVersion(4), PolicyVersion(7)));
        assert!(!policy.admits(PolicyVersion(3), PolicyVersion(7)));
        assert!(!policy.admits(PolicyVersion(8), PolicyVersion(7)), "a version from the future");
        assert!(policy.publishes(PolicyVersion(4)) && !policy.publishes(PolicyVersion(5)));
    }

    #[test]
    fn room_is_exactly_the_papers_rule() {
        for eta in 0..4u64 {
            let policy = Staleness::new(eta + 1, Some(1)).unwrap();
            for (version, batch) in [(0u64, 1u64), (0, 16), (5, 16), (9, 7)] {
                let mut issued = 0;
                // Hand out one unit at a time as long as the rule as printed allows it.
                while issued / batch <= version + eta {
                    issued += 1;
                }
                assert_eq!(policy.room(PolicyVersion(version), 0, batch), issued);
                assert_eq!(policy.room(PolicyVersion(version), issued, batch), 0);
            }
        }
    }

    #[test]
    fn refuses_impossible_numbers_also_from_the_wire() {
        assert_eq!(Staleness::new(0, None), Err(StalenessError::NoBudget));
        assert_eq!(Staleness::new(1, None).unwrap().period(), 1);
        assert!(Staleness::new(3, Some(4)).is_err() && Staleness::new(3, Some(0)).is_err());
        let wire = crate::codec::encode(&Numbers { budget: 2, period: 9 }, 100).unwrap();
        assert!(crate::codec::decode::<Staleness>(&wire, 100).is_err());
    }
}
