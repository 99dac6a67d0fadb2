//! The sampling audit: were a group's tokens drawn from the policy, as its order says?
//!
//! The learner keeps the policies that nodes may still work under, as nodes have them: rounded to the snapshot's type and loaded into the
//! generation engine. What names a version that is not kept is not simply believed: one that comes with the next publication has to
//! wait for it, and one that was let go counts as stale. Only versions from before the learner's start pass without an audit, as
//! their policies are gone.

use crate::admission::{Refusal, Rejection};
use crate::batch::Sequence;
use crate::sequences;
use crate::workload::Workload;
use echo_policy::audit::{Audit, Draw, Evidence, Tolerance};
use echo_policy::engine::Policy;
use echo_policy::error::EngineError;
use echo_protocol::order::Purpose;
use echo_protocol::submission::RefuseReason;
use echo_protocol::trajectory::{Trajectory, TrajectoryGroup};
use echo_protocol::version::PolicyVersion;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most policies that are kept, where the staleness budget admits more.
pub const MAX_POLICIES: usize = 8;

/// Checks groups against the policies that they name.
#[derive(Debug)]
pub struct SamplingAudit {
    workload: Arc<Workload>,
    policies: Mutex<Policies>,
    /// Held by the one audit that is made at a time: it uses every core, and memory for a whole sequence.
    turn: Mutex<()>,
}

/// The policies that are kept.
#[derive(Debug, Default)]
struct Policies {
    /// The first version that this process published.
    first: Option<PolicyVersion>,
    by_version: BTreeMap<PolicyVersion, Arc<Policy>>,
}

/// What is known about a version.
enum Known {
    Policy(Arc<Policy>),
    /// It is older than this process.
    Before,
    /// It was let go.
    LetGo,
    /// It is on its way.
    NotYet,
}

impl SamplingAudit {
    /// An audit of the groups of `workload`, without any policy yet.
    #[must_use]
    pub fn new(workload: Arc<Workload>) -> Self {
        Self { workload, policies: Mutex::default(), turn: Mutex::default() }
    }

    /// Takes a policy in that is about to be published, and lets those go that nothing is admitted under any more.
    pub fn publish(&self, policy: Policy) {
        let version = PolicyVersion(policy.version());
        let staleness = self.workload.charter.staleness;
        let mut policies = lock(&self.policies);
        policies.first.get_or_insert(version);
        policies.by_version.insert(version, Arc::new(policy));
        policies.by_version.retain(|older, _| staleness.admits(*older, version));
        while policies.by_version.len() > MAX_POLICIES {
            policies.by_version.pop_first();
        }
    }

    /// Checks a group. Pure and slow: about as much computing as the prefill of all its tokens.
    ///
    /// # Errors
    /// [`RefuseReason::Sampling`]; [`RefuseReason::Stale`] for a version whose policy was let go; [`Rejection::Retry`] for one
    /// that is not published yet, and when a policy could not be asked.
    pub fn check(&self, group: &TrajectoryGroup) -> Result<(), Rejection> {
        let policies = self.policies_of(group)?;
        let order = self.workload.order(Purpose::Train, group.counter.0);
        let sequences = sequences::of_order(&self.workload, &order, &group.trajectories);
        let sequences = sequences.map_err(|error| Rejection::retry(&error))?;
        let Some(prompt) = sequences.first().map(|sequence| sequence.prompt.as_slice()) else {
            return Ok(());
        };
        let (seed, params) = (order.sampler_seed(), self.workload.sampling());
        let tolerance = Tolerance::f32(params.temperature);
        let _turn = lock(&self.turn);
        let audit = |(version, policy)| Ok((version, Audit::new(policy, prompt, &seed, &params)?));
        let audits: Result<BTreeMap<_, _>, EngineError> =
            policies.iter().map(|(version, policy)| (*version, &**policy)).map(audit).collect();
        let audits = audits.map_err(|error| Rejection::retry(&error))?;
        let mut evidence = Evidence::default();
        for ((sample, trajectory), sequence) in (0..).zip(&group.trajectories).zip(&sequences) {
            let seen = look(&audits, sample, trajectory, sequence);
            evidence.add(seen.map_err(|error| Rejection::retry(&error))?);
            // At once: a lie is not worth looking at any longer.
            if let Some(fault) = evidence.fault(&tolerance) {
                let refusal = Refusal::new(RefuseReason::Sampling, fault.to_string());
                return Err(refusal.of(group.counter).into());
            }
        }
        Ok(())
    }

    /// The policies that a group names, save those of before this process.
    fn policies_of(
        &self,
        group: &TrajectoryGroup,
    ) -> Result<BTreeMap<PolicyVersion, Arc<Policy>>, Rejection> {
        let versions = group.trajectories.iter().flat_map(|t| &t.versions).map(|span| span.version);
        let mut found = BTreeMap::new();
        for version in versions {
            if found.contains_key(&version) {
                continue;
            }
            match lock(&self.policies).known(version) {
                Known::Policy(policy) => drop(found.insert(version, policy)),
                Known::Before => {}
                Known::NotYet => {
                    return Err(Rejection::Retry(format!("the learner has not published {version} yet")));
                }
                Known::LetGo => {
                    let detail =
                        format!("{version}: the policies of the newest {MAX_POLICIES} versions are kept");
                    return Err(Refusal::new(RefuseReason::Stale, detail).of(group.counter).into());
                }
            }
        }
        Ok(found)
    }
}

impl Policies {
    fn known(&self, version: PolicyVersion) -> Known {
        let newest = self.by_version.last_key_value().map(|(version, _)| *version);
        match self.by_version.get(&version) {
            Some(policy) => Known::Policy(policy.clone()),
            None if newest.is_none_or(|newest| version > newest) => Known::NotYet,
            None if self.first.is_some_and(|first| version < first) => Known::Before,
            None => Known::LetGo,
        }
    }
}

/// What is seen of the tokens of one trajectory by the policies that it names.
fn look(
    audits: &BTreeMap<PolicyVersion, Audit<'_>>,
    sample: u32,
    trajectory: &Trajectory,
    sequence: &Sequence,
) -> Result<Evidence, EngineError> {
    let (tokens, own): (Vec<u32>, Vec<bool>) = sequence.tokens().skip(sequence.prompt.len()).unzip();
    let drawn = (0..tokens.len()).filter(|&at| own[at]);
    let draws = (0..).zip(drawn).zip(&trajectory.logprobs).zip(trajectory.token_versions());
    let mut by_version: BTreeMap<PolicyVersion, Vec<Draw>> = BTreeMap::new();
    for (((position, at), &logprob), version) in draws {
        by_version.entry(version).or_default().push(Draw { at, position, logprob });
    }
    let mut evidence = Evidence::default();
    for (version, draws) in by_version {
        if let Some(audit) = audits.get(&version) {
            evidence.add(audit.look(sample, &tokens, &draws)?);
        }
    }
    Ok(evidence)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
