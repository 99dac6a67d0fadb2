//! The sampling audit: were a group's tokens drawn from the policy, as its order says?
//!
//! The learner keeps the policies that nodes may still work under, as nodes have them: rounded to the
//! snapshot's type, in files without names from which the generation engine reads. What names a version
//! that is not kept is not simply believed: one that comes with the next publication has to wait for it,
//! and one that was let go counts as stale. Two kinds pass without an audit, and are counted: versions
//! from before the learner's start whose policies are gone ([`restore_audit`](crate::run::restore_audit)
//! finds those of its checkpoints), of nodes with a record alone ([`SamplingAudit::gone_since_before`]),
//! and versions that an earlier process published already and this one publishes again, which nodes may
//! hold with other weights.
//!
//! Whole groups are checked as often as their nodes' records say, by the learner or by verifiers.
//! One trajectory of every other group is checked all the same ([`SamplingAudit::glance`]): it
//! costs a part of the whole, and what is wrong with all trajectories of a group is found in any.
//!
//! A group is audited in the precision that it declares. Of versions whose groups come in others
//! than are published, policies are made in memory as they are asked for, as many as `[admission]
//! max_copy_bytes` allows. What cannot be audited is refused, and nobody is blamed. Where caches
//! were kept over a change of version, the audit keeps its own.

use crate::common::workload::{Workload, dtype};
use crate::intake::admission::{Refusal, Rejection};
use crate::reputation::Fault;
use crate::training::sequences;
use crate::verification::republished::Republished;
use echo_policy::audit::{
    AuditError, Auditor, CannotAudit, ClaimedSample, NearMisses, SampleFinding, Standard, VersionWeights,
};
use echo_policy::model::weights::Weights;
use echo_policy::training::decoder::{Decoder, DecoderError};
use echo_protocol::run::precision::Caches;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::Purpose;
use echo_protocol::work::submission::RefuseReason;
use echo_protocol::work::trajectory::TrajectoryGroup;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most policies that are kept, where the staleness budget admits more. A group that verifiers look
/// at keeps those that it names until it is decided ([`SamplingAudit::all_policies_of`]).
pub const MAX_POLICIES: usize = 8;

/// Checks groups against the policies that they name.
#[derive(Debug)]
pub struct SamplingAudit {
    workload: Arc<Workload>,
    /// On whose disk policies lie.
    dir: PathBuf,
    policies: Mutex<Policies>,
    /// Computes with them in the precision that a group declares.
    auditor: Auditor,
    /// Groups that passed although a policy that they name could not be asked.
    unaudited: AtomicU64,
}

/// The policies that are kept.
#[derive(Debug, Default)]
struct Policies {
    /// The version with which this process began.
    first: Option<PolicyVersion>,
    /// Versions that were published, and published again.
    again: Republished,
    /// The newest version that was let go.
    let_go: Option<PolicyVersion>,
    by_version: BTreeMap<PolicyVersion, Arc<VersionWeights>>,
}

/// What is known about a version.
enum Known {
    Policy(Arc<VersionWeights>),
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
    /// An audit of the groups of `workload`, without any policy yet. Those that come lie
    /// on the disk of `dir`; what is made of them in other precisions takes at most so
    /// many bytes of memory.
    #[must_use]
    pub fn new(workload: Arc<Workload>, dir: &Path, max_copy_bytes: usize) -> Self {
        let (policies, unaudited) = (Mutex::default(), AtomicU64::new(0));
        Self { workload, dir: dir.to_owned(), policies, auditor: Auditor::new(max_copy_bytes), unaudited }
    }

    /// The weights that nodes make of a snapshot of `decoder`: its parameters rounded to the
    /// snapshot's type, mapped from a file.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn as_nodes_have_it(&self, decoder: &Decoder) -> Result<Weights, DecoderError> {
        decoder.to_image(dtype(self.workload.charter.snapshot_type), &self.dir)
    }

    /// Goes on from the checkpoint of `at`, with the `policies` of this version and earlier ones.
    /// What names a version that is published `again` cannot be judged.
    pub fn resume(
        &self,
        at: PolicyVersion,
        again: Republished,
        policies: impl IntoIterator<Item = VersionWeights>,
    ) {
        let mut kept = self.policies.lock();
        kept.first = Some(at);
        kept.again = again;
        let policies = policies.into_iter().map(|policy| (PolicyVersion(policy.version()), Arc::new(policy)));
        kept.by_version.extend(policies);
    }

    /// Groups that passed although a policy that they name could not be asked, since the process started.
    #[must_use]
    pub fn unaudited(&self) -> u64 {
        self.unaudited.load(Ordering::Relaxed)
    }

    /// Takes a policy in that is about to be published, and lets those go that nothing is admitted
    /// under any more. Waits for no audit.
    pub fn publish(&self, policy: VersionWeights) {
        let version = PolicyVersion(policy.version());
        let staleness = self.workload.charter.staleness;
        let mut policies = self.policies.lock();
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
    /// [`RefuseReason::Sampling`], which is held against nobody where the group cannot be audited
    /// here; [`RefuseReason::Stale`] for a version whose policy was let go; [`Rejection::Retry`]
    /// for one that is not published yet, and when a policy could not be asked.
    pub fn check(&self, group: &TrajectoryGroup) -> Result<(), Rejection> {
        self.look_at_all(group).map(drop)
    }

    /// Checks a group, and says what its near misses come to, for the record of its node.
    ///
    /// # Errors
    /// Those of [`SamplingAudit::check`].
    pub fn look_at_all(&self, group: &TrajectoryGroup) -> Result<NearMisses, Rejection> {
        self.check_part(group, 0..group.trajectories.len())
    }

    /// Checks one of a group's trajectories, chosen by `draw`: so much of every group is looked at
    /// whoever vouches for it.
    ///
    /// # Errors
    /// Those of [`SamplingAudit::check`], for the one trajectory that is looked at.
    pub fn glance(&self, group: &TrajectoryGroup, draw: u64) -> Result<(), Rejection> {
        self.look_at_one(group, draw).map(drop)
    }

    /// Checks one of a group's trajectories, and says what its near misses come to.
    ///
    /// # Errors
    /// Those of [`SamplingAudit::glance`].
    pub fn look_at_one(&self, group: &TrajectoryGroup, draw: u64) -> Result<NearMisses, Rejection> {
        let at = draw.checked_rem(group.trajectories.len() as u64).unwrap_or(0) as usize;
        self.check_part(group, at..(at + 1).min(group.trajectories.len()))
    }

    fn check_part(&self, group: &TrajectoryGroup, part: Range<usize>) -> Result<NearMisses, Rejection> {
        let (policies, all) = self.policies_of(group)?;
        let found = self.find_in_part(group, part, &policies)?;
        if found.fault.is_none() && !all {
            self.unaudited.fetch_add(1, Ordering::Relaxed);
        }
        verdict(group, &found)?;
        Ok(found.near_misses)
    }

    /// What is wrong with a group, by [all the policies that it
    /// names](SamplingAudit::all_policies_of), and how certain that is. A fault is
    /// no refusal yet ([`verdict`]).
    ///
    /// # Errors
    /// [`RefuseReason::Sampling`], held against nobody, where the group cannot be audited here;
    /// [`Rejection::Retry`] when a policy could not be asked.
    pub fn find(
        &self,
        group: &TrajectoryGroup,
        policies: &[Arc<VersionWeights>],
    ) -> Result<SampleFinding, Rejection> {
        self.find_in_part(group, 0..group.trajectories.len(), policies)
    }

    fn find_in_part(
        &self,
        group: &TrajectoryGroup,
        part: Range<usize>,
        policies: &[Arc<VersionWeights>],
    ) -> Result<SampleFinding, Rejection> {
        let params = self.workload.sampling();
        let standard = Standard::of(group.precision.as_str(), params.temperature);
        let standard = standard.map_err(|error| cannot(group, &error))?;
        let order = self.workload.order(Purpose::Train, group.counter.0);
        let trajectories = &group.trajectories[part.clone()];
        let sequences = sequences::of_order(&self.workload, &order, trajectories);
        let sequences = sequences.map_err(|error| Rejection::retry(&error))?;
        let Some(prompt) = sequences.first().map(|sequence| sequence.prompt.as_slice()) else {
            return Ok(SampleFinding::default());
        };
        let seed = order.sampler_seed();
        let samples = part.zip(trajectories).zip(&sequences).map(|((index, trajectory), sequence)| {
            let tokens = sequence.tokens().skip(sequence.prompt.len());
            let versions = trajectory.token_versions().map(|version| version.0);
            let sample = ClaimedSample::new(index as u32, tokens, &trajectory.logprobs, versions);
            match group.caches {
                Caches::Recomputed => sample,
                Caches::Kept => sample.with_kept_caches(group.recomputed.clone()),
            }
        });
        let found = self.auditor.examine(policies, &standard, prompt, &seed, &params, samples);
        found.map_err(|error| match error {
            AuditError::Cannot(error) => cannot(group, &error),
            AuditError::Engine(error) => Rejection::retry(&error),
        })
    }

    /// The policies that a group names, if all of them can be asked, so that an audit says
    /// something about each of its tokens. Whoever holds them can look at the group later, whatever
    /// was let go by then.
    pub fn all_policies_of(&self, group: &TrajectoryGroup) -> Option<Vec<Arc<VersionWeights>>> {
        let (policies, all) = self.policies_of(group).ok()?;
        all.then_some(policies)
    }

    /// The first version that a group names of those from before the learner's start whose policies are gone.
    /// What names one passes without an audit.
    pub fn gone_since_before(&self, group: &TrajectoryGroup) -> Option<PolicyVersion> {
        let policies = self.policies.lock();
        let mut versions = group.trajectories.iter().flat_map(|t| &t.versions).map(|span| span.version);
        versions.find(|version| matches!(policies.known(*version), Known::Before))
    }

    /// The policies that a group names, save those that cannot be asked; and whether these are all.
    fn policies_of(&self, group: &TrajectoryGroup) -> Result<(Vec<Arc<VersionWeights>>, bool), Rejection> {
        let versions = group.trajectories.iter().flat_map(|t| &t.versions).map(|span| span.version);
        let (mut found, mut all) = (BTreeMap::new(), true);
        for version in versions {
            if found.contains_key(&version) {
                continue;
            }
            match self.policies.lock().known(version) {
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
        Ok((found.into_values().collect(), all))
    }
}

/// The refusal of a group that cannot be audited. It is held against nobody: the charter lets a
/// node compute in what it declares.
fn cannot(group: &TrajectoryGroup, error: &CannotAudit) -> Rejection {
    let refusal = Refusal::new(RefuseReason::Sampling, error.to_string()).held(Fault::Innocent);
    refusal.of(group.counter).into()
}

/// What a finding means for its group.
///
/// # Errors
/// [`RefuseReason::Sampling`], which is held against the node.
pub fn verdict(group: &TrajectoryGroup, found: &SampleFinding) -> Result<(), Rejection> {
    match found.fault {
        None => Ok(()),
        Some(fault) => Err(Refusal::new(RefuseReason::Sampling, fault.to_string()).of(group.counter).into()),
    }
}

impl Policies {
    fn known(&self, version: PolicyVersion) -> Known {
        let newest = self.by_version.last_key_value().map(|(version, _)| *version);
        let let_go = self.let_go.is_some_and(|let_go| version <= let_go);
        match self.by_version.get(&version) {
            Some(_) if self.again.contains(version) => Known::Again,
            Some(policy) => Known::Policy(policy.clone()),
            None if newest.is_none_or(|newest| version > newest) => Known::NotYet,
            None if !let_go && self.first.is_some_and(|first| version < first) => Known::Before,
            None => Known::LetGo,
        }
    }
}

#[cfg(test)]
mod tests;
