//! The sampling audit: were a group's tokens drawn from the policy, as its order says?
//!
//! The learner keeps the policies that nodes may still work under, as nodes have them: rounded to the snapshot's type and loaded into the
//! generation engine. A version of before the learner's start is not among them, and what came of it is not audited.

use crate::batch::Sequence;
use crate::sequences;
use crate::workload::Workload;
use echo_policy::audit::{Claim, Draw, Evidence, Tolerance, audit};
use echo_policy::engine::Policy;
use echo_policy::error::EngineError;
use echo_protocol::order::Purpose;
use echo_protocol::submission::RefuseReason;
use echo_protocol::trajectory::{Trajectory, TrajectoryGroup};
use echo_protocol::version::PolicyVersion;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::admission::{Refusal, Rejection};

/// Most policies that are kept, where the staleness budget admits more.
pub const MAX_POLICIES: usize = 8;

/// Checks groups against the policies that they name.
#[derive(Debug)]
pub struct SamplingAudit {
    workload: Arc<Workload>,
    policies: Mutex<BTreeMap<PolicyVersion, Held>>,
}

/// A policy that has no `Debug` of its own.
struct Held(Arc<Policy>);

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Policy")
    }
}

impl SamplingAudit {
    /// An audit of the groups of `workload`, without any policy yet.
    #[must_use]
    pub fn new(workload: Arc<Workload>) -> Self {
        Self { workload, policies: Mutex::default() }
    }

    /// Takes a policy in that is about to be published, and lets those go that nothing is admitted under any more.
    pub fn publish(&self, policy: Policy) {
        let version = PolicyVersion(policy.version());
        let staleness = self.workload.charter.staleness;
        let mut policies = self.policies();
        policies.insert(version, Held(Arc::new(policy)));
        policies.retain(|older, _| staleness.admits(*older, version));
        while policies.len() > MAX_POLICIES {
            policies.pop_first();
        }
    }

    /// Checks a group. Pure and slow: about as much computing as the prefill of all its tokens.
    ///
    /// # Errors
    /// [`RefuseReason::Sampling`]; [`Rejection::Retry`] when the policy could not be asked.
    pub fn check(&self, group: &TrajectoryGroup) -> Result<(), Rejection> {
        let order = self.workload.order(Purpose::Train, group.counter.0);
        let sequences = sequences::of_order(&self.workload, &order, &group.trajectories);
        let sequences = sequences.map_err(|error| Rejection::retry(&error))?;
        let seed = order.sampler_seed();
        let mut evidence = Evidence::default();
        for ((sample, trajectory), sequence) in (0..).zip(&group.trajectories).zip(&sequences) {
            let seen = self.look(sequence, &seed, sample, trajectory);
            evidence.add(seen.map_err(|error| Rejection::retry(&error))?);
        }
        match evidence.fault(&Tolerance::F32) {
            None => Ok(()),
            Some(fault) => {
                Err(Refusal::new(RefuseReason::Sampling, fault.to_string()).of(group.counter).into())
            }
        }
    }

    fn look(
        &self,
        sequence: &Sequence,
        seed: &[u8; 32],
        sample: u32,
        trajectory: &Trajectory,
    ) -> Result<Evidence, EngineError> {
        let params = self.workload.sampling();
        let (tokens, own): (Vec<u32>, Vec<bool>) = sequence.tokens().unzip();
        let drawn = (0..tokens.len()).filter(|&at| own[at]);
        let draws = (0..).zip(drawn).zip(&trajectory.logprobs).zip(trajectory.token_versions());
        let mut by_version: BTreeMap<PolicyVersion, Vec<Draw>> = BTreeMap::new();
        for (((position, at), &logprob), version) in draws {
            by_version.entry(version).or_default().push(Draw { at, position, logprob });
        }
        let mut evidence = Evidence::default();
        for (version, draws) in by_version {
            let Some(policy) = self.policies().get(&version).map(|held| held.0.clone()) else { continue };
            let claim = Claim { sequence: &tokens, draws: &draws, seed, sample, params: &params };
            evidence.add(audit(&policy, &claim)?);
        }
        Ok(evidence)
    }

    fn policies(&self) -> MutexGuard<'_, BTreeMap<PolicyVersion, Held>> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
