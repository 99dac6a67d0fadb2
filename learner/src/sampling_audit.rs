//! The sampling audit: were a group's tokens drawn from the policy, as its order says?
//!
//! The learner keeps the policies that nodes may still work under, as nodes have them: rounded to the snapshot's type and loaded into the
//! generation engine. What names a version that is not kept is not simply believed: one that comes with the next publication has to
//! wait for it, and one that was let go counts as stale. Only versions from before the learner's start pass without an audit, as
//! their policies are gone.
//!
//! Whole groups are checked as often as their nodes' records say, by the learner or by verifiers. One trajectory of every other group is checked all the
//! same ([`SamplingAudit::glance`]): it costs a part of the whole, and what is wrong with all trajectories of a group is found in any.

use crate::admission::{Refusal, Rejection};
use crate::sequences;
use crate::workload::Workload;
use echo_policy::audit::{Sample, examine};
use echo_policy::engine::Policy;
use echo_protocol::order::Purpose;
use echo_protocol::submission::RefuseReason;
use echo_protocol::trajectory::TrajectoryGroup;
use echo_protocol::version::PolicyVersion;
use std::collections::BTreeMap;
use std::ops::Range;
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
        self.check_part(group, 0..group.trajectories.len())
    }

    /// Checks one of a group's trajectories, chosen by `draw`: so much of every group is looked at whoever vouches for it.
    ///
    /// # Errors
    /// Those of [`SamplingAudit::check`].
    pub fn glance(&self, group: &TrajectoryGroup, draw: u64) -> Result<(), Rejection> {
        let at = draw.checked_rem(group.trajectories.len() as u64).unwrap_or(0) as usize;
        self.check_part(group, at..(at + 1).min(group.trajectories.len()))
    }

    fn check_part(&self, group: &TrajectoryGroup, part: Range<usize>) -> Result<(), Rejection> {
        let policies = self.policies_of(group)?;
        let order = self.workload.order(Purpose::Train, group.counter.0);
        let trajectories = &group.trajectories[part.clone()];
        let sequences = sequences::of_order(&self.workload, &order, trajectories);
        let sequences = sequences.map_err(|error| Rejection::retry(&error))?;
        let Some(prompt) = sequences.first().map(|sequence| sequence.prompt.as_slice()) else {
            return Ok(());
        };
        let (seed, params) = (order.sampler_seed(), self.workload.sampling());
        let samples = part.zip(trajectories).zip(&sequences).map(|((index, trajectory), sequence)| {
            let tokens = sequence.tokens().skip(sequence.prompt.len());
            let versions = trajectory.token_versions().map(|version| version.0);
            Sample::new(index as u32, tokens, &trajectory.logprobs, versions)
        });
        let _turn = lock(&self.turn);
        match examine(&policies, prompt, &seed, &params, samples) {
            Ok(None) => Ok(()),
            Ok(Some(fault)) => {
                let refusal = Refusal::new(RefuseReason::Sampling, fault.to_string());
                Err(refusal.of(group.counter).into())
            }
            Err(error) => Err(Rejection::retry(&error)),
        }
    }

    /// Whether all policies are here that a group names, so that an audit says something about each of its tokens.
    pub fn knows(&self, group: &TrajectoryGroup) -> bool {
        let policies = lock(&self.policies);
        let mut spans = group.trajectories.iter().flat_map(|t| &t.versions);
        spans.all(|span| policies.by_version.contains_key(&span.version))
    }

    /// The policies that a group names, save those of before this process.
    fn policies_of(&self, group: &TrajectoryGroup) -> Result<Vec<Arc<Policy>>, Rejection> {
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
        Ok(found.into_values().collect())
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
