//! One group: form, rules, rewards and tokens, as the learner checks them.

use std::collections::BTreeSet;
use std::fmt::Display;

use echo_policy::audit::{ClaimedSample, SampleFinding, Standard};
use echo_policy::text::tokenizer::{Tokenizer, TokenizerError};
use echo_protocol::run::precision::Caches;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::signed::{Signed, SignedError};
use echo_protocol::work::submission::RefuseReason;
use echo_protocol::work::trajectory::TrajectoryGroup;
use echo_protocol::work::verification::{Opinion, Report};
use echo_sandbox::rollout::judge::judge;
use echo_sandbox::rollout::replay::{Heard, ReplayError, TextDecoder, heard, interleave};

use super::policy_cache::VersionCache;
use crate::workload::NodeWorkload;

/// What the policy heard has no tokens.
#[derive(Debug, thiserror::Error)]
enum HeardError {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

/// The run's tokenizer, as judging needs it.
struct Text<'a> {
    tokenizer: &'a Tokenizer,
    ends: Vec<u32>,
    vocabulary: u32,
}

impl TextDecoder for Text<'_> {
    fn decode(&self, ids: &[u32]) -> Result<String, String> {
        self.tokenizer.decode(ids, false).map_err(|e| e.to_string())
    }

    fn is_end(&self, id: u32) -> bool {
        self.ends.contains(&id)
    }

    fn vocabulary(&self) -> u32 {
        self.vocabulary
    }
}

/// Reports on the group in `frame` by the policies that are held, in the precision that it declares.
/// Blocks for about as long as the prefill of all its tokens takes.
///
/// # Errors
/// When the frame is no signed message, so that nothing in it has a name.
pub(super) fn check(
    workload: &NodeWorkload,
    cache: &VersionCache,
    frame: &[u8],
) -> Result<Report, SignedError> {
    let signed = Signed::<TrajectoryGroup>::from_bytes(frame)?;
    let opinion = match signed.open() {
        Ok(group) => look(workload, cache, &group).err().unwrap_or(Opinion::Sound),
        Err(error) => lie(RefuseReason::Signature, &error),
    };
    Ok(Report { run: workload.run, group: signed.body_id(), opinion })
}

fn lie(reason: RefuseReason, what: &impl Display) -> Opinion {
    Opinion::lie(reason, &what.to_string())
}

/// A failure here says nothing about the group.
fn unable(why: &impl Display) -> Opinion {
    Opinion::unable(&why.to_string())
}

/// # Errors
/// The opinion of a group that is not sound, or cannot be checked.
fn look(workload: &NodeWorkload, cache: &VersionCache, group: &TrajectoryGroup) -> Result<(), Opinion> {
    if group.run != workload.run {
        return Err(lie(RefuseReason::Run, &group.run));
    }
    let form = workload.form();
    group.check_form(form).map_err(|error| lie(RefuseReason::Schema, &error))?;
    // Before anything is computed.
    let standard = Standard::of(group.precision.as_str(), workload.sampling().temperature)
        .map_err(|error| unable(&error))?;
    let named: BTreeSet<PolicyVersion> =
        group.trajectories.iter().flat_map(|t| &t.versions).map(|span| span.version).collect();
    let (Some(versions), Some(tokenizer)) = (cache.all_of(&named), cache.tokenizer()) else {
        return Err(Opinion::unable("a policy that it names is not here"));
    };
    let ends = tokenizer.end_ids();
    if ends.is_empty() {
        return Err(Opinion::unable("nothing ends a turn"));
    }
    let text = Text { tokenizer, ends, vocabulary: form.vocabulary };
    let (order, assignment) = workload.assignment(group.counter).map_err(|error| unable(&error))?;
    let limit = form.max_new_tokens as usize;
    for (position, trajectory) in group.trajectories.iter().enumerate() {
        judge(&assignment, trajectory, limit, &text).map_err(|error| match error.reason() {
            Some(reason) => lie(reason, &format!("trajectory {position}: {error}")),
            None => unable(&error),
        })?;
    }
    let encode = |text: &str| Ok::<_, HeardError>(tokenizer.heard(text)?);
    let between = |trajectory| heard(assignment.play(), trajectory, limit, &text, encode);
    let between: Vec<Vec<Heard>> = group
        .trajectories
        .iter()
        .map(between)
        .collect::<Result<_, HeardError>>()
        .map_err(|error| unable(&error))?;
    let samples = (0..).zip(&group.trajectories).zip(&between).map(|((index, trajectory), heard)| {
        let versions = trajectory.token_versions().map(|version| version.0);
        let tokens = interleave(&trajectory.response, heard);
        let sample = ClaimedSample::new(index, tokens, &trajectory.logprobs, versions);
        match group.caches {
            Caches::Recomputed => sample,
            Caches::Kept => sample.with_kept_caches(group.recomputed.clone()),
        }
    });
    let prompt = tokenizer.prompt(&assignment.prompt().text).map_err(|error| unable(&error))?;
    let (auditor, seed) = (cache.auditor(), order.sampler_seed());
    match auditor.examine(&versions, &standard, &prompt, &seed, workload.sampling(), samples) {
        // The learner's machine may come to the opposite.
        Ok(SampleFinding { is_close: true, .. }) => {
            Err(Opinion::unable("it is too close to the tolerance to tell"))
        }
        Ok(SampleFinding { fault: Some(fault), .. }) => Err(lie(RefuseReason::Sampling, &fault)),
        Ok(SampleFinding { fault: None, .. }) => Ok(()),
        Err(error) => Err(unable(&error)),
    }
}

#[cfg(test)]
mod tests;
