//! The sampling audit: were a group's tokens drawn from the policy, as its order says?
//!
//! The learner keeps the policies that nodes may still work under, as nodes have them: rounded to the snapshot's type and loaded into the
//! generation engine. What names a version that is not kept is not simply believed: one that comes with the next publication has to
//! wait for it, and one that was let go counts as stale. Two kinds pass without an audit, and are counted: versions from before the
//! learner's start whose policies are gone ([`recall`](crate::recall) finds those of its checkpoints), and versions that an earlier
//! process published already and this one publishes again, which nodes may hold with other weights.

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
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// Groups that passed although a policy that they name could not be asked.
    unaudited: AtomicU64,
}

/// The policies that are kept.
#[derive(Debug, Default)]
struct Policies {
    /// The version with which this process began.
    first: Option<PolicyVersion>,
    /// Versions that an earlier process published, and this one publishes again.
    again: Option<RangeInclusive<PolicyVersion>>,
    /// The newest version that was let go.
    let_go: Option<PolicyVersion>,
    by_version: BTreeMap<PolicyVersion, Arc<Policy>>,
}

/// What is known about a version.
enum Known {
    Policy(Arc<Policy>),
    /// It is older than this process.
    Before,
    /// Nodes may have it as an earlier process published it, with other weights.
    Again,
    /// It was let go.
    LetGo,
    /// It is on its way.
    NotYet,
}

impl SamplingAudit {
    /// An audit of the groups of `workload`, without any policy yet.
    #[must_use]
    pub fn new(workload: Arc<Workload>) -> Self {
        let (policies, turn, unaudited) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        Self { workload, policies, turn, unaudited }
    }

    /// Goes on from the checkpoint of `at`, with the `policies` of this version and earlier ones. `published` is the newest version that
    /// earlier processes published: where it is newer than `at`, this process publishes versions again, and nothing says that training
    /// gives the same weights again, on another device or with another run file.
    pub fn resume(
        &self,
        at: PolicyVersion,
        published: PolicyVersion,
        policies: impl IntoIterator<Item = Policy>,
    ) {
        let mut kept = lock(&self.policies);
        kept.first = Some(at);
        kept.again = (published > at).then(|| at.next()..=published);
        let policies = policies.into_iter().map(|policy| (PolicyVersion(policy.version()), Arc::new(policy)));
        kept.by_version.extend(policies);
    }

    /// Groups that passed although a policy that they name could not be asked, since the process started.
    #[must_use]
    pub fn unaudited(&self) -> u64 {
        self.unaudited.load(Ordering::Relaxed)
    }

    /// Takes a policy in that is about to be published, and lets those go that nothing is admitted under any more.
    pub fn publish(&self, policy: Policy) {
        let version = PolicyVersion(policy.version());
        let staleness = self.workload.charter.staleness;
        let mut policies = lock(&self.policies);
        policies.first.get_or_insert(version);
        policies.by_version.insert(version, Arc::new(policy));
        let Policies { let_go, by_version, .. } = &mut *policies;
        while let Some((&oldest, _)) = by_version.first_key_value()
            && (by_version.len() > MAX_POLICIES || !staleness.admits(oldest, version))
        {
            by_version.pop_first();
            *let_go = Some(oldest).max(*let_go);
        }
    }

    /// Checks a group. Pure and slow: about as much computing as the prefill of all its tokens.
    ///
    /// # Errors
    /// [`RefuseReason::Sampling`]; [`RefuseReason::Stale`] for a version whose policy was let go; [`Rejection::Retry`] for one
    /// that is not published yet, and when a policy could not be asked.
    pub fn check(&self, group: &TrajectoryGroup) -> Result<(), Rejection> {
        let (policies, all) = self.policies_of(group)?;
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
        if !all {
            self.unaudited.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The policies that a group names, save those that cannot be asked; and whether these are all.
    fn policies_of(
        &self,
        group: &TrajectoryGroup,
    ) -> Result<(BTreeMap<PolicyVersion, Arc<Policy>>, bool), Rejection> {
        let versions = group.trajectories.iter().flat_map(|t| &t.versions).map(|span| span.version);
        let (mut found, mut all) = (BTreeMap::new(), true);
        for version in versions {
            if found.contains_key(&version) {
                continue;
            }
            match lock(&self.policies).known(version) {
                Known::Policy(policy) => drop(found.insert(version, policy)),
                Known::Before | Known::Again => all = false,
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
        Ok((found, all))
    }
}

impl Policies {
    fn known(&self, version: PolicyVersion) -> Known {
        let newest = self.by_version.last_key_value().map(|(version, _)| *version);
        let let_go = self.let_go.is_some_and(|let_go| version <= let_go);
        match self.by_version.get(&version) {
            Some(_) if self.again.as_ref().is_some_and(|again| again.contains(&version)) => Known::Again,
            Some(policy) => Known::Policy(policy.clone()),
            None if newest.is_none_or(|newest| version > newest) => Known::NotYet,
            None if !let_go && self.first.is_some_and(|first| version < first) => Known::Before,
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
