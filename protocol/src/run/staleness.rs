//! The staleness budget, in one place.
//!
//! ECHO-2 bounds the lag of a consumed trajectory by S and publishes every κ updates (§3.2, default
//! κ = S-1). RLAX's pair (j, k) and AReaL's η are other names for the same decision, so they are
//! views of this one policy: `j = κ` (a node reloads every j updates), `k = S+1` (RLAX counts from
//! the version that the update makes, so that (1, 1) is on-policy), `η` (how many batches of work
//! are handed out ahead of the current one, by default S-κ).
//!
//! Why η = S-κ keeps the bound: work is leased only while it will be consumed no later than update
//! i+η, and the newest published snapshot is then at most κ-1 updates old, so its lag at
//! consumption is at most η+κ-1 = S-1. The remaining one update is the room that dissemination has.
//! Whatever still comes too late is dropped at batch time. A bounded policy without an η of its own has the
//! learner lease by lag instead ([`Staleness::is_by_lag`]).
//!
//! | [`StalenessMode`] | S | κ | η | what it is like |
//! |---|---|---|---|---|
//! | on-policy | 0 | 1 | 0 | learner and nodes wait for each other; no token is old |
//! | one-step | 1 | 1 | 1 | the next batch is generated while one is trained on |
//! | bounded | any | 1 to S+1 | 0 to S | ECHO-2, with S = 3 and κ = 2 by default |
//! | unbounded | ∞ | any | ∞ | nothing is too old; only leases and buffer limit nodes |

use crate::run::version::PolicyVersion;
use serde::{Deserialize, Serialize};

pub use pipeline::Pipeline;

/// S and η of a policy without a bound.
const UNBOUNDED: u64 = u64::MAX;

/// How old a trajectory may be when it is trained on, how often snapshots are published, and how
/// far ahead work is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Numbers", into = "Numbers")]
pub struct Staleness {
    budget: u64,
    period: u64,
    admission: u64,
    /// Whether η was set, and does not only follow from S and κ.
    is_admission_set: bool,
    order: BatchOrder,
}

/// Names for kinds of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StalenessMode {
    /// S = 0: nothing but the current policy's own rollouts.
    OnPolicy,
    /// S = κ = η = 1: generation and training overlap by one update.
    OneStep,
    /// S is finite, and neither of the above applies.
    Bounded,
    /// No bound: S = ∞, and nothing is too old.
    Unbounded,
}

/// Which of the groups that wait make the next batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchOrder {
    /// Those with the oldest tokens: little becomes too old while it waits (AReaL §5.1).
    #[default]
    OldestFirst,
    /// Those with the newest tokens: batches are fresh, and where more is generated than trained
    /// on, what is passed over grows too old and is dropped (RLAX §3.2).
    NewestFirst,
}

/// The unchecked form that travels. What was not set is left out, as in the charters of earlier releases.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Numbers {
    budget: u64,
    period: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    admission: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<BatchOrder>,
}

/// Numbers that cannot be a staleness policy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StalenessError {
    /// The period κ lies outside 1..=S+1.
    #[error(
        "publication period κ = {period} must lie between 1 and S+1, with the staleness budget S = {budget}: before the next publication \
         nothing would be fresh enough to train on"
    )]
    Period {
        /// The period κ that was asked for, in updates.
        period: u64,
        /// The staleness budget S, in updates.
        budget: u64,
    },
    /// The admission η lies above S.
    #[error(
        "admission η = {admission} exceeds the staleness budget S = {budget}: work handed out that far ahead would be too old when its \
         turn comes"
    )]
    Admission {
        /// The admission η that was asked for, in batches.
        admission: u64,
        /// The staleness budget S, in updates.
        budget: u64,
    },
}

impl Staleness {
    /// A policy with budget S = `budget` and period κ = `period`, by default S-1 (1 for S below 2).
    /// S = 0 is on-policy.
    pub fn new(budget: u64, period: Option<u64>) -> Result<Self, StalenessError> {
        let period = period.unwrap_or(budget.saturating_sub(1).max(1));
        if period == 0 || period > budget.saturating_add(1) {
            return Err(StalenessError::Period { period, budget });
        }
        let (admission, order) = (default_admission(budget, period), BatchOrder::default());
        Ok(Self { budget, period, admission, is_admission_set: false, order })
    }

    /// S = 0: the learner trains only on what its current policy produced, and waits for it.
    pub fn on_policy() -> Self {
        Self { budget: 0, period: 1, admission: 0, is_admission_set: false, order: BatchOrder::default() }
    }

    /// S = κ = η = 1: one batch is generated while the one before is trained on.
    pub fn one_step() -> Self {
        Self { budget: 1, period: 1, admission: 1, is_admission_set: true, order: BatchOrder::default() }
    }

    /// Nothing is too old, and publications come every `period` updates.
    pub fn unbounded(period: u64) -> Result<Self, StalenessError> {
        Ok(Self { admission: UNBOUNDED, is_admission_set: true, ..Self::new(UNBOUNDED, Some(period))? })
    }

    /// RLAX's pair: nodes reload every `j` versions, and what is trained on was produced by one of
    /// the last `k` versions.
    #[cfg(test)]
    fn rlax(j: u64, k: u64) -> Result<Self, StalenessError> {
        Self::new(k.saturating_sub(1), Some(j))
    }

    /// The same policy with another η.
    pub fn with_admission(self, admission: u64) -> Result<Self, StalenessError> {
        if admission > self.budget {
            return Err(StalenessError::Admission { admission, budget: self.budget });
        }
        Ok(Self { admission, is_admission_set: true, ..self })
    }

    /// The same policy with batches in another order.
    pub fn with_order(self, order: BatchOrder) -> Self {
        Self { order, ..self }
    }

    /// The name of this kind of policy.
    pub fn mode(&self) -> StalenessMode {
        match (self.budget, self.period, self.admission) {
            (0, _, _) => StalenessMode::OnPolicy,
            (1, 1, 1) => StalenessMode::OneStep,
            (UNBOUNDED, _, _) => StalenessMode::Unbounded,
            _ => StalenessMode::Bounded,
        }
    }

    /// S: largest lag, in updates, of a trajectory that is trained on.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// κ: updates between two publications.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// η of AReaL's admission rule: batches of work that may be handed out beyond the current one.
    pub fn admission(&self) -> u64 {
        self.admission
    }

    /// Whether work runs ahead by its lag and by measured times, and not by η: bounded, and η was not set.
    pub fn is_by_lag(&self) -> bool {
        self.mode() == StalenessMode::Bounded && !self.is_admission_set
    }

    /// Which of the groups that wait make the next batch.
    pub fn order(&self) -> BatchOrder {
        self.order
    }

    /// RLAX's (j, k): reload staleness and acceptance staleness. `k` is `u64::MAX` where nothing is too old.
    #[cfg(test)]
    fn reload_and_acceptance(&self) -> (u64, u64) {
        (self.period, self.budget.saturating_add(1))
    }

    /// Whether a token of version `produced` may be trained on when the batch at `current` is
    /// formed: v ≥ v_t - S.
    pub fn admits(&self, produced: PolicyVersion, current: PolicyVersion) -> bool {
        produced <= current && current.lag_behind(produced) <= self.budget
    }

    /// Whether a node that generates under `installed` gets work while the learner is at `current`.
    ///
    /// Its work comes in when the learner is further, so it has to be fresh enough one update from
    /// now. With κ = S+1, on-policy above all, that would leave nobody: there the learner waits for
    /// this very work, and goes on only when it has come.
    pub fn serves(&self, installed: PolicyVersion, current: PolicyVersion) -> bool {
        let consumed = if self.period > self.budget { current } else { current.next() };
        self.admits(installed, consumed)
    }

    /// Whether the policy of `version` is published.
    pub fn publishes(&self, version: PolicyVersion) -> bool {
        version.0.is_multiple_of(self.period)
    }

    /// Further units of work that may be leased at version `current` (AReaL §5.1: ⌊(N_r-1)/B⌋ ≤ i+η).
    ///
    /// `issued` is N_r: units trained on so far, plus those that wait or are out on lease; `batch`
    /// is B, in the same units. On-policy that is the rest of the current batch, so that nothing is
    /// left over which the next policy could not use; without a bound it is without end.
    pub fn room(&self, current: PolicyVersion, issued: u64, batch: u64) -> u64 {
        let last_allowed = current.0.saturating_add(self.admission).saturating_add(1).saturating_mul(batch);
        last_allowed.saturating_sub(issued)
    }
}

/// η where nobody chose it: S-κ, or 0 where κ = S+1.
fn default_admission(budget: u64, period: u64) -> u64 {
    budget.saturating_sub(period)
}

impl TryFrom<Numbers> for Staleness {
    type Error = StalenessError;
    fn try_from(numbers: Numbers) -> Result<Self, StalenessError> {
        let Numbers { budget, period, admission, order } = numbers;
        let policy = Self::new(budget, Some(period))?.with_order(order.unwrap_or_default());
        admission.map_or(Ok(policy), |admission| policy.with_admission(admission))
    }
}

impl From<Staleness> for Numbers {
    fn from(policy: Staleness) -> Self {
        let Staleness { budget, period, admission, is_admission_set, order } = policy;
        Self {
            budget,
            period,
            admission: is_admission_set.then_some(admission),
            order: (order != BatchOrder::default()).then_some(order),
        }
    }
}

mod pipeline;
#[cfg(test)]
mod tests;
