//! Whether a response was drawn from a policy as its order says.
//!
//! Every draw has its own number u ([`crate::sampling::uniform`]), so whoever has the policy's
//! weights and the finished response can tell for each token whether u selects it, with one prefill
//! instead of a decode for every token. Another machine computes slightly other logits, so a token
//! counts as drawn when u is within [`Tolerance::border`] of its interval; and the log-probability
//! that was reported for it has to be near the policy's own.
//!
//! What this finds: another policy or version, another temperature, tokens that somebody chose
//! (edited ones, a copied answer, the best of several samples), and made-up log-probabilities.
//! For an honest node that computes in f32 the differences are rounding: 1e-5 and less in a
//! log-probability.
//!
//! Who draws knows u before it picks a token. By intervals ([`DrawRule::Intervals`]) some 1 + 2 ·
//! border · V tokens of a vocabulary of V are within the tolerance of u, so this rule holds for
//! small vocabularies alone. In a race ([`DrawRule::Race`]) a second token comes within δ nats of
//! the first with a chance of δ · (1 − Σ p²), whatever V is. Who takes the second token where the
//! tolerance allows it does so more often than rounding, and [`NearMisses`] finds that, over
//! a group here and over a node's record by whoever keeps one.
//!
//! [`DrawRule::Intervals`]: crate::sampling::DrawRule::Intervals
//! [`DrawRule::Race`]: crate::sampling::DrawRule::Race
//!
//! Whoever audits, learner or verifier, computes in what a group declares ([`Standard`]): an
//! [`Auditor`] makes policies of that precision from the weights of the versions that it is given
//! ([`VersionWeights`]), and keeps as many of them as its memory allows.
//!
//! May import `model`, `sampling` and `generation`.
//!
//! ```text
//! VersionWeights of each version, Standard::of what the group declares
//!   -> Auditor::examine -> policies from its cache, or made and kept
//!   -> Audit: one prefill of the prompt, then Backend::place for each sample
//!   -> Evidence, held to Tolerance -> SampleFinding
//! ```

mod auditor;
mod error;
mod near_misses;
mod policy_cache;
mod samples;
mod tolerance;
mod version;

use crate::generation::EngineError;
use crate::generation::backend::{Backend, Feed, MAX_CALL_TOKENS, TokenClaim, Want};
use crate::generation::cpu::CpuBackend;
use crate::generation::policy::Policy;
use crate::sampling;
use crate::sampling::SamplingParams;

pub use auditor::Auditor;
pub use error::AuditError;
pub use near_misses::{NearMisses, RaceLimits};
pub use samples::{ClaimedSample, SampleFinding, examine};
pub use tolerance::{CannotAudit, Standard, Tolerance};
pub use version::VersionWeights;

/// Rows of logits computed at once: bounds memory at large vocabularies.
const ROWS_PER_CALL: usize = 256;
const _: () = assert!(ROWS_PER_CALL <= MAX_CALL_TOKENS);
/// Rows of the first call for a sample that is held to limits: what is made up is mostly seen in
/// these, and whoever sends it does not have a machine read the rest.
const FIRST_ROWS: usize = 32;

/// A token that somebody says they drew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// Where it stands among the tokens that follow the prompt: it was drawn after the prompt
    /// and those before it.
    pub at: usize,
    /// Its number among the sample's draws: `t` of [`crate::sampling::uniform`].
    pub position: u32,
    /// The log-probability that was reported, under the sampling distribution.
    pub logprob: f32,
}

/// What a policy says of the samples of one order. Its prompt is prefilled once for all of them.
pub struct Audit<'a, B: Backend = CpuBackend> {
    policy: &'a Policy<B>,
    /// The prompt's last token; those before it are in the cache.
    last: u32,
    prompt: B::Cache,
    seed: &'a [u8; 32],
    params: &'a SamplingParams,
}

/// How far a sample was read.
struct Read<C> {
    cache: C,
    /// Tokens in the cache after those that all samples share, the prompt's last one included.
    tokens: usize,
}

/// What an audit saw, of one claim or of several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Distance of u from each token's interval, in probability.
    distances: Vec<f64>,
    /// |Δ log p| of each token.
    differences: Vec<f32>,
    /// By how much each token was first, where tokens race; as many as distances then, and none otherwise.
    leads: Vec<f64>,
}

/// What is wrong with a claim.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum AuditFault {
    /// Tokens that the order's randomness does not select.
    #[error("{off} of {tokens} tokens are not those that the policy and the order's randomness select")]
    Tokens {
        /// Tokens whose interval is too far from their u.
        off: usize,
        /// Tokens that were looked at.
        tokens: usize,
    },
    /// More tokens that only just lost their race than rounding explains.
    #[error(
        "{second} of {tokens} tokens only just lost their race to another one: more than chance explains"
    )]
    Chosen {
        /// Tokens that were drawn although another one was first.
        second: usize,
        /// Tokens that were looked at.
        tokens: usize,
    },
    /// Log-probabilities of another distribution.
    #[error("log-probabilities are not the policy's: off by {mean:.1e} in the mean, {max:.1e} at most")]
    Logprobs {
        /// Mean of |Δ log p|.
        mean: f64,
        /// Largest |Δ log p| of a token.
        max: f32,
    },
}

impl<'a, B: Backend> Audit<'a, B> {
    /// Prefills the prompt of the order whose seed is `seed`.
    ///
    /// # Errors
    /// When the prompt is empty or does not fit the model.
    pub fn new(
        policy: &'a Policy<B>,
        prompt: &[u32],
        seed: &'a [u8; 32],
        params: &'a SamplingParams,
    ) -> Result<Self, EngineError> {
        let (&last, before) = prompt.split_last().ok_or(EngineError::EmptyPrompt { request: 0 })?;
        let backend = policy.backend();
        let mut cache = backend.new_cache();
        for tokens in before.chunks(MAX_CALL_TOKENS) {
            backend.forward(&mut [Feed { tokens, cache: &mut cache }], Want::Nothing)?;
        }
        Ok(Self { policy, last, prompt: cache, seed, params })
    }

    /// Looks at draws of sample `sample`, in order; `tokens` are all that followed the prompt.
    ///
    /// # Errors
    /// When a draw is not among the tokens, or these do not fit the model.
    pub fn look(&self, sample: u32, tokens: &[u32], draws: &[Draw]) -> Result<Evidence, EngineError> {
        self.look_on(&mut self.begin(), sample, tokens, draws, None)
    }

    /// A sample of which nothing but the prompt is read.
    fn begin(&self) -> Read<B::Cache> {
        Read { cache: self.prompt.clone(), tokens: 0 }
    }

    /// Looks at draws as [`Audit::look`] does, and reads on from where `read` ends: what was read
    /// before may be another version's. Where there are `limits`, it ends soon after a draw that is
    /// [hopeless](Evidence::is_hopeless) by them.
    fn look_on(
        &self,
        read: &mut Read<B::Cache>,
        sample: u32,
        tokens: &[u32],
        draws: &[Draw],
        limits: Option<&Tolerance>,
    ) -> Result<Evidence, EngineError> {
        let mut evidence = Evidence::default();
        let Some(end) = draws.iter().map(|draw| draw.at + 1).max() else { return Ok(evidence) };
        if end > tokens.len() {
            return Err(EngineError::TooLong { tokens: end, limit: tokens.len() });
        }
        // A draw follows the token before it, the first one the prompt's last.
        let inputs: Vec<u32> = std::iter::once(self.last).chain(tokens[..end - 1].iter().copied()).collect();
        let (backend, cache) = (self.policy.backend(), &mut read.cache);
        let mut draws = draws.iter().peekable();
        let mut waiting = inputs.get(read.tokens..).unwrap_or_default();
        while !waiting.is_empty() && limits.is_none_or(|limits| !evidence.is_hopeless(limits)) {
            let first = read.tokens;
            let rows = if first == 0 && limits.is_some() { FIRST_ROWS } else { ROWS_PER_CALL };
            let (inputs, rest) = waiting.split_at(rows.min(waiting.len()));
            waiting = rest;
            read.tokens += inputs.len();
            // The number of each row that was drawn; the others are not looked at.
            let mut numbers = vec![0.0; inputs.len()];
            let mut upcoming = draws.clone();
            while let Some(draw) = upcoming.next_if(|draw| draw.at < read.tokens) {
                if let Some(number) = draw.at.checked_sub(first).and_then(|row| numbers.get_mut(row)) {
                    *number = sampling::uniform(self.seed, sample, draw.position);
                }
            }
            let claim = |(token, u): (&u32, &f64)| TokenClaim { params: self.params, token: *token, u: *u };
            let claims: Vec<_> = tokens[first..read.tokens].iter().zip(&numbers).map(claim).collect();
            let placed = backend.place(&mut [Feed { tokens: inputs, cache }], &claims)?;
            for ((row, placed), u) in (first..).zip(placed).zip(&numbers) {
                if let Some(draw) = draws.next_if(|draw| draw.at == row) {
                    evidence.distances.push(placed.distance(*u));
                    evidence.leads.extend(placed.lead);
                    evidence.differences.push((placed.logprob - draw.logprob).abs());
                }
            }
        }
        Ok(evidence)
    }
}

impl Evidence {
    /// Takes what was seen of another claim in.
    pub fn add(&mut self, other: Self) {
        self.distances.extend(other.distances);
        self.differences.extend(other.differences);
        self.leads.extend(other.leads);
    }

    /// Forgets all but what was seen of the first `tokens`.
    pub fn truncate(&mut self, tokens: usize) {
        self.distances.truncate(tokens);
        self.differences.truncate(tokens);
        self.leads.truncate(tokens);
    }

    /// Tokens that were looked at.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.distances.len()
    }

    /// Share of tokens whose interval u misses by more than `border`; 0 without tokens.
    #[must_use]
    pub fn share_off(&self, border: f64) -> f64 {
        self.off(border) as f64 / self.tokens().max(1) as f64
    }

    fn off(&self, border: f64) -> usize {
        self.distances.iter().filter(|distance| **distance > border).count()
    }

    /// The largest distance of u from a token's interval, in probability; 0 without tokens.
    #[must_use]
    pub fn farthest(&self) -> f64 {
        self.distances.iter().copied().fold(0.0, f64::max)
    }

    /// Mean of |Δ log p|; 0 without tokens.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.differences.iter().map(|d| f64::from(*d)).sum::<f64>() / self.tokens().max(1) as f64
    }

    /// The |Δ log p| that `share` of the tokens do not exceed; 0 without tokens.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f32 {
        let mut sorted = self.differences.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        let rank = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// By how much each token rang before all others, in nats; negative where another one was
    /// first. Empty where tokens did not race.
    #[must_use]
    pub fn leads(&self) -> &[f64] {
        &self.leads
    }

    /// What near misses come to; nothing where tokens did not race.
    #[must_use]
    pub fn near_misses(&self, tolerance: &Tolerance) -> NearMisses {
        NearMisses::of(&self.leads, &tolerance.race)
    }

    /// By how much u may miss a token's interval, or a token its race, and which share of tokens
    /// may be further off.
    fn most_off(&self, tolerance: &Tolerance) -> (f64, f64) {
        if self.leads.is_empty() { (tolerance.border, tolerance.off) } else { (tolerance.race.most, 0.0) }
    }

    /// Whether a single token is beyond the limits, so that there is a [fault](Evidence::fault)
    /// whatever the others are.
    fn is_hopeless(&self, limits: &Tolerance) -> bool {
        let (border, share) = self.most_off(limits);
        let is_off = share == 0.0 && self.off(border) > 0;
        // What is no number is no log-probability.
        is_off || !self.differences.iter().all(|difference| *difference <= limits.max)
    }

    /// What is wrong with what was seen, if anything is.
    #[must_use]
    pub fn fault(&self, tolerance: &Tolerance) -> Option<AuditFault> {
        let (border, share) = self.most_off(tolerance);
        if self.share_off(border) > share {
            return Some(AuditFault::Tokens { off: self.off(border), tokens: self.tokens() });
        }
        if self.near_misses(tolerance).is_alarm() {
            let second = self.leads.iter().filter(|lead| **lead < 0.0).count();
            return Some(AuditFault::Chosen { second, tokens: self.tokens() });
        }
        let (mean, max) = (self.mean(), self.quantile(1.0));
        // Not `mean > limit`: what is no number is no log-probability.
        let near = mean <= tolerance.mean_of(self.tokens()) && max <= tolerance.max;
        (!near).then_some(AuditFault::Logprobs { mean, max })
    }
}

#[cfg(test)]
mod tests;
