//! Trajectories τ = (x, y, r, v, Ω) and the groups they travel in.
//!
//! x, the prompt, is not sent: it follows from the group's order number ([`crate::work::order`]),
//! so a node cannot choose it. The G trajectories of an order are one signed message, because the
//! group is the unit of advantage and is accepted whole or not at all.

mod reading;

use crate::run::charter::{Charter, RunId, Takeover};
use crate::run::precision::{Caches, PrecisionName};
use crate::run::version::PolicyVersion;
use crate::wire::identity::PublicKey;
use crate::wire::signed::Signable;
use crate::work::lease::LeaseId;
use crate::work::order::OrderCounter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

pub use reading::GroupHead;

/// Longest encoded group, in bytes: [`MAX_GROUP_TOKENS`](crate::run::charter::MAX_GROUP_TOKENS) of
/// 5 bytes for the id and 5 for each of two log-probs, and Ω.
pub const MAX_GROUP_BYTES: usize = 8 << 20;
/// Most entries of one Ω.
pub const MAX_OMEGA_ENTRIES: usize = 16;
/// Longest key or text of an entry of Ω, in bytes.
pub const MAX_OMEGA_TEXT: usize = 128;
/// Most turns of the policy in one trajectory.
pub const MAX_TURNS: usize = 64;

/// Consecutive tokens that one version produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionSpan {
    /// The version whose weights produced these tokens.
    pub version: PolicyVersion,
    /// How many tokens; at least 1.
    pub tokens: u32,
}

/// A value of Ω.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MetaValue {
    /// `true` or `false`, a CBOR boolean.
    Flag(bool),
    /// A whole number, such as the guesses that a game took.
    Integer(i64),
    /// A real number, a CBOR float.
    Number(f64),
    /// Text of at most [`MAX_OMEGA_TEXT`] bytes.
    Text(String),
}

/// Ω: what a task says about an episode beside its reward.
pub type Omega = BTreeMap<String, MetaValue>;

/// One response to an order's prompt: all that the policy said, in one turn or several.
///
/// What the environment said in between is not sent: like the prompt, it follows from the order,
/// and from what the policy said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// y: token ids, all turns one after the other, each with the end token when the policy produced it.
    pub response: Vec<u32>,
    /// How many tokens of `response` each turn has, at most [`MAX_TURNS`] of them; empty when it
    /// is all one turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<u32>,
    /// Log-probability of each token of `response` under the distribution that it was sampled from.
    pub logprobs: Vec<f32>,
    /// The same at temperature 1, without truncation. Empty where these are the same numbers
    /// ([`Sampling::is_raw`](crate::run::charter::Sampling::is_raw)), and from who does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raw_logprobs: Vec<f32>,
    /// v: which version produced each token, in order; the spans' lengths add up to the response's.
    pub versions: Vec<VersionSpan>,
    /// r, in [0, 1].
    pub reward: f32,
    /// Whether the policy came to the end itself; otherwise it was cut at the longest length,
    /// which all turns share.
    pub stopped: bool,
    /// Ω: what the task says besides, at most [`MAX_OMEGA_ENTRIES`] entries.
    #[serde(deserialize_with = "reading::omega")]
    pub omega: Omega,
}

/// The G trajectories of one order, signed by the node that made them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryGroup {
    /// The run that the order belongs to.
    pub run: RunId,
    /// The lease under which the work was done.
    pub lease: LeaseId,
    /// The order's number, from which the prompt follows.
    pub counter: OrderCounter,
    /// Who did the work, and signs.
    pub node: PublicKey,
    /// Sample i of the order at position i.
    #[serde(deserialize_with = "reading::trajectories")]
    pub trajectories: Vec<Trajectory>,
    /// In what the tokens were computed.
    #[serde(default, skip_serializing_if = "PrecisionName::is_default")]
    pub precision: PrecisionName,
    /// What became of caches where the tokens are of several versions.
    #[serde(default, skip_serializing_if = "Caches::is_default")]
    pub caches: Caches,
    /// Where caches were kept: before which tokens of each response they were computed anew all the
    /// same, under the version of that token, though they held another's work. Positions count the
    /// policy's own tokens, and grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recomputed: Vec<u32>,
}

impl Signable for TrajectoryGroup {
    const CONTEXT: &'static str = "echo trajectory group 1";
    const MAX_BYTES: usize = MAX_GROUP_BYTES;
}

/// What is wrong with the form of a trajectory, before anything is recomputed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SchemaError {
    /// A length that contradicts another, or exceeds its limit.
    #[error("{what}: {found}, expected {expected}")]
    Length {
        /// The length, in the words of the message.
        what: &'static str,
        /// The length that the trajectory has.
        found: u64,
        /// The length or range that is required.
        expected: String,
    },
    /// A log-probability that is no log-probability, or a reward outside [0, 1].
    #[error("{what} {found} at position {position}")]
    Value {
        /// The kind of value, in the words of the message.
        what: &'static str,
        /// The value that is out of range.
        found: f32,
        /// Its index among the response's tokens; 0 for a reward.
        position: usize,
    },
    /// Versions that do not grow within one response.
    #[error("policy versions do not increase within a response")]
    VersionsDecrease,
    /// Versions of a response that are not those of the group's longest one, as far as it goes.
    #[error(
        "trajectory {trajectory}: its tokens are of other versions than those of the group's longest one"
    )]
    Schedule {
        /// Its place in the group.
        trajectory: usize,
    },
    /// A precision that the charter does not list.
    #[error("computed in {found}: the run takes {taken}")]
    Precision {
        /// The precision that the group declares.
        found: PrecisionName,
        /// What the charter lists.
        taken: String,
    },
    /// Caches that were kept where the charter does not allow it, or where all tokens are of one version.
    #[error("caches kept from one version to the next: {0}")]
    Caches(&'static str),
}

/// What of a charter a trajectory's form depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// G: how many trajectories a group has.
    pub group_size: u32,
    /// Longest response, in tokens, all turns together.
    pub max_new_tokens: u32,
    /// Ids at or above this are no tokens.
    pub vocabulary: u32,
    /// In what nodes may compute.
    pub precisions: Vec<PrecisionName>,
    /// Whether caches may be kept when a newer version takes over.
    pub keeps_caches: bool,
    /// Whether tokens are drawn from the policy's own distribution, so that there are no
    /// other log-probs of them.
    pub is_raw: bool,
}

impl Form {
    /// The form of a run's groups; `vocabulary` is the model's.
    pub fn of(charter: &Charter, vocabulary: u32) -> Self {
        Self {
            group_size: charter.group_size,
            max_new_tokens: charter.sampling.max_new_tokens,
            vocabulary,
            precisions: charter.precisions.clone(),
            keeps_caches: charter.takeover == Takeover::Keep,
            is_raw: charter.sampling.is_raw(),
        }
    }
}

impl TrajectoryGroup {
    /// What it begins with.
    pub fn head(&self) -> GroupHead {
        GroupHead { run: self.run, lease: self.lease, counter: self.counter, node: self.node }
    }

    /// Checks lengths, ranges and the order of versions against the run's form.
    pub fn check_form(&self, form: &Form) -> Result<(), SchemaError> {
        length("trajectories in the group", self.trajectories.len(), form.group_size as usize)?;
        self.trajectories.iter().try_for_each(|t| t.check_form(form))?;
        self.check_schedule()?;
        self.check_declared(form)
    }

    /// What is declared has to be allowed, and is said in one way.
    fn check_declared(&self, form: &Form) -> Result<(), SchemaError> {
        if !form.precisions.contains(&self.precision) {
            let taken = form.precisions.iter().map(PrecisionName::as_str).collect::<Vec<_>>().join(", ");
            return Err(SchemaError::Precision { found: self.precision.clone(), taken });
        }
        match self.caches {
            Caches::Recomputed if !self.recomputed.is_empty() => {
                Err(SchemaError::Caches("positions are told where nothing was kept"))
            }
            Caches::Recomputed => Ok(()),
            Caches::Kept if !form.keeps_caches => Err(SchemaError::Caches("the run does not allow it")),
            Caches::Kept if self.oldest_version() == self.newest_version() => {
                Err(SchemaError::Caches("all tokens are of one version"))
            }
            Caches::Kept => self.check_recomputed(),
        }
    }

    /// Positions are those of tokens, each said once, and a change of version is left at
    /// which something was kept.
    fn check_recomputed(&self) -> Result<(), SchemaError> {
        let longest = self.trajectories.iter().max_by_key(|t| t.response.len());
        let changes = longest.map_or(0, |t| t.version_changes().count());
        // Between two of them a version took over: caches that hold one version's work alone are as
        // good as new. Each costs an audit a prefill of its own.
        if self.recomputed.len() > changes {
            return Err(SchemaError::Caches("more positions than versions change"));
        }
        let longest = longest.map_or(0, |t| t.response.len());
        let grow = self.recomputed.is_sorted_by(|a, b| a < b);
        let are_tokens = self.recomputed.iter().all(|&position| (1..longest).contains(&(position as usize)));
        if !(grow && are_tokens) {
            return Err(SchemaError::Caches("positions that grow, behind the first token, are expected"));
        }
        let mut changes = self.trajectories.iter().flat_map(Trajectory::version_changes);
        // Sorted, as was just seen: a frame may name a million of each.
        if changes.any(|at| self.recomputed.binary_search(&at).is_err()) {
            Ok(())
        } else {
            Err(SchemaError::Caches("nothing was kept at any change of version"))
        }
    }

    /// All responses of an order are generated together: each that is not over gets one token of
    /// its own at a time, whatever it hears in between, so a newer version takes over after the
    /// same number of tokens in each. Who could choose that for every response by itself would have
    /// many to choose from, all of them rightly drawn.
    fn check_schedule(&self) -> Result<(), SchemaError> {
        let longest = self.trajectories.iter().max_by_key(|t| t.response.len());
        let differs = |t: &Trajectory| {
            longest.is_some_and(|longest| {
                t.token_versions().zip(longest.token_versions()).any(|(own, theirs)| own != theirs)
            })
        };
        match self.trajectories.iter().position(differs) {
            Some(trajectory) => Err(SchemaError::Schedule { trajectory }),
            None => Ok(()),
        }
    }

    /// The oldest version that produced any token.
    pub fn oldest_version(&self) -> Option<PolicyVersion> {
        self.trajectories.iter().flat_map(|t| &t.versions).map(|span| span.version).min()
    }

    /// The newest version that produced any token.
    pub fn newest_version(&self) -> Option<PolicyVersion> {
        self.trajectories.iter().flat_map(|t| &t.versions).map(|span| span.version).max()
    }
}

impl Trajectory {
    fn check_form(&self, form: &Form) -> Result<(), SchemaError> {
        let tokens = self.response.len();
        if tokens == 0 || tokens > form.max_new_tokens as usize {
            let expected = format!("1 to {}", form.max_new_tokens);
            return Err(SchemaError::Length { what: "response tokens", found: tokens as u64, expected });
        }
        length("log-probs", self.logprobs.len(), tokens)?;
        self.check_raw(form)?;
        self.check_turns()?;
        if let Some(position) = self.response.iter().position(|&id| id >= form.vocabulary) {
            let found = self.response[position] as f32;
            return Err(SchemaError::Value { what: "token id beyond the vocabulary", found, position });
        }
        possible("impossible log-prob", &self.logprobs)?;
        possible("impossible raw log-prob", &self.raw_logprobs)?;
        if !(0.0..=1.0).contains(&self.reward) {
            return Err(SchemaError::Value {
                what: "reward outside [0, 1]",
                found: self.reward,
                position: 0,
            });
        }
        let spanned: u64 = self.versions.iter().map(|span| u64::from(span.tokens)).sum();
        length("tokens covered by versions", spanned as usize, tokens)?;
        if self.versions.iter().any(|span| span.tokens == 0) {
            return Err(SchemaError::Length {
                what: "tokens of a version span",
                found: 0,
                expected: "at least 1".into(),
            });
        }
        if self.versions.windows(2).any(|pair| pair[0].version >= pair[1].version) {
            return Err(SchemaError::VersionsDecrease);
        }
        let texts = self.omega.iter().flat_map(|(key, value)| {
            let text = if let MetaValue::Text(text) = value { text.len() } else { 0 };
            [key.len(), text]
        });
        let longest = texts.max().unwrap_or(0);
        if self.omega.len() > MAX_OMEGA_ENTRIES || longest > MAX_OMEGA_TEXT {
            let found = self.omega.len().max(longest) as u64;
            return Err(SchemaError::Length {
                what: "metadata",
                found,
                expected: "16 entries of 128 bytes".into(),
            });
        }
        Ok(())
    }

    /// Raw log-probs are all there or none, and none where they are the others again.
    fn check_raw(&self, form: &Form) -> Result<(), SchemaError> {
        let found = self.raw_logprobs.len();
        match (found, form.is_raw) {
            (0, _) => Ok(()),
            (_, true) => length("raw log-probs at temperature 1", found, 0),
            (_, false) => length("raw log-probs", found, self.response.len()),
        }
    }

    /// One turn is written as none, so that a response has one encoding.
    fn check_turns(&self) -> Result<(), SchemaError> {
        if self.turns.is_empty() {
            return Ok(());
        }
        if !(2..=MAX_TURNS).contains(&self.turns.len()) {
            let expected = format!("none, or 2 to {MAX_TURNS}");
            return Err(SchemaError::Length { what: "turns", found: self.turns.len() as u64, expected });
        }
        if self.turns.contains(&0) {
            let expected = "at least 1".into();
            return Err(SchemaError::Length { what: "tokens of a turn", found: 0, expected });
        }
        let said: u64 = self.turns.iter().map(|&tokens| u64::from(tokens)).sum();
        length("tokens of all turns", said as usize, self.response.len())
    }

    /// Where each turn lies in the response, in order. The turns must have been checked.
    pub fn turn_ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let ends = self.turns.iter().scan(0, |end, &tokens| {
            *end += tokens as usize;
            Some(*end)
        });
        // The last turn goes to the end of the response, and so does the only one.
        let ends = ends.take(self.turns.len().saturating_sub(1)).chain([self.response.len()]);
        ends.scan(0, |begin, end| Some(std::mem::replace(begin, end)..end))
    }

    /// Positions of tokens that are the first of another version.
    fn version_changes(&self) -> impl Iterator<Item = u32> + '_ {
        let ends = self.versions.iter().scan(0u32, |end, span| {
            *end = end.saturating_add(span.tokens);
            Some(*end)
        });
        ends.take(self.versions.len().saturating_sub(1))
    }

    /// The version of every token, in order.
    pub fn token_versions(&self) -> impl Iterator<Item = PolicyVersion> + '_ {
        self.versions.iter().flat_map(|span| std::iter::repeat_n(span.version, span.tokens as usize))
    }
}

/// The lengths of turns as a trajectory writes them: none where there is only one.
pub fn turns(lengths: Vec<u32>) -> Vec<u32> {
    if lengths.len() > 1 { lengths } else { Vec::new() }
}

/// Joins per-token versions into spans.
pub fn spans(versions: impl IntoIterator<Item = PolicyVersion>) -> Vec<VersionSpan> {
    let mut spans: Vec<VersionSpan> = Vec::new();
    for version in versions {
        match spans.last_mut() {
            Some(last) if last.version == version => last.tokens += 1,
            _ => spans.push(VersionSpan { version, tokens: 1 }),
        }
    }
    spans
}

fn length(what: &'static str, found: usize, expected: usize) -> Result<(), SchemaError> {
    if found == expected {
        return Ok(());
    }
    Err(SchemaError::Length { what, found: found as u64, expected: expected.to_string() })
}

fn possible(what: &'static str, logprobs: &[f32]) -> Result<(), SchemaError> {
    match logprobs.iter().position(|p| !p.is_finite() || *p > 1e-4) {
        Some(position) => Err(SchemaError::Value { what, found: logprobs[position], position }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
