//! Work orders: everything about a piece of work, derived from the run and a counter.
//!
//! A node chooses neither its prompts nor its randomness: the order's task, its prompt's seed and
//! its sampler's seed all follow from
//! `BLAKE3-derive_key("echo work order 1", run ‖ purpose ‖ counter)`, so the learner re-derives
//! what it handed out and compares.

use crate::run::charter::RunId;
use crate::wire::rng::Draws;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Context of the derivation. Raise its number whenever the prompts or samples of an order would change.
const DERIVATION: &str = "echo work order 1";

/// Number of a work order within its run and purpose, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OrderCounter(pub u64);

/// What an order is for. Each purpose has counters of its own, so that held-out orders are never trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Rollouts that are trained on.
    Train,
    /// Evaluation by the learner itself; never trained on.
    HeldOut,
    /// Supervised examples for the starting policy.
    WarmUp,
}

/// One work order: a task, a prompt and the randomness of its G samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkOrder {
    /// What it is for.
    pub purpose: Purpose,
    /// The order's number among those of its purpose.
    pub counter: OrderCounter,
    seed: [u8; 32],
}

impl WorkOrder {
    /// The order with this number.
    pub fn derive(run: &RunId, purpose: Purpose, counter: OrderCounter) -> Self {
        let mut input = [0; 41];
        input[..32].copy_from_slice(run.as_bytes());
        input[32] = match purpose {
            Purpose::Train => 0,
            Purpose::HeldOut => 1,
            Purpose::WarmUp => 2,
        };
        input[33..].copy_from_slice(&counter.0.to_le_bytes());
        Self { purpose, counter, seed: blake3::derive_key(DERIVATION, &input) }
    }

    /// Draws that choose the task from the mix.
    pub fn task_draws(&self) -> Draws {
        Draws::new(self.part(0))
    }

    /// Seed of the prompt within its task.
    pub fn prompt_seed(&self) -> [u8; 32] {
        self.part(1)
    }

    /// Seed of the sampler, for all G samples and all positions.
    pub fn sampler_seed(&self) -> [u8; 32] {
        self.part(2)
    }

    fn part(&self, which: u8) -> [u8; 32] {
        *blake3::keyed_hash(&self.seed, &[which]).as_bytes()
    }
}

impl fmt::Display for OrderCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::identity::NodeKey;
    use crate::wire::signed::Signed;

    fn run(seed: u8) -> RunId {
        let key = NodeKey::from_secret([seed; 32]);
        RunId::of(&Signed::sign(&crate::run::charter::tests::charter(&key), &key).unwrap())
    }

    #[test]
    fn every_part_depends_on_run_purpose_and_counter() {
        let order = |run, purpose, n| WorkOrder::derive(&run, purpose, OrderCounter(n));
        let base = order(run(1), Purpose::Train, 5);
        assert_eq!(base, order(run(1), Purpose::Train, 5));
        for other in [
            order(run(2), Purpose::Train, 5),
            order(run(1), Purpose::HeldOut, 5),
            order(run(1), Purpose::WarmUp, 5),
            order(run(1), Purpose::Train, 6),
        ] {
            assert_ne!(base.prompt_seed(), other.prompt_seed());
            assert_ne!(base.sampler_seed(), other.sampler_seed());
        }
        assert_ne!(base.prompt_seed(), base.sampler_seed());
    }
}
