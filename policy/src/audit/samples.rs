//! All samples of an order, each of their tokens under the policy that it names.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Audit, AuditFault, Draw, Evidence, NearMisses, Tolerance};
use crate::generation::EngineError;
use crate::generation::backend::Backend;
use crate::generation::policy::Policy;
use crate::sampling::SamplingParams;

/// How many times as near or as far off a claim has to be for its finding to be certain on every machine.
const MARGIN: f32 = 2.0;

/// What an audit of an order's samples came to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SampleFinding {
    /// What is wrong with them, if anything is: a fault that is certain before one that is not.
    pub fault: Option<AuditFault>,
    /// Whether nothing certain is wrong with them, and one lies so near the limits of
    /// [`Tolerance`], within half and twice of one, that an honest machine of another kind may come
    /// to the opposite: that nobody finds the same is held against nobody then.
    pub is_close: bool,
    /// What near misses of races come to, of the samples with which nothing is wrong: for the
    /// record of their node.
    pub near_misses: NearMisses,
}

/// What somebody says a sample of an order is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClaimedSample {
    /// Which of the order's samples.
    index: u32,
    /// All tokens that followed the prompt.
    tokens: Vec<u32>,
    /// Those that were drawn, in order, each with the version of the policy.
    draws: Vec<(u64, Draw)>,
    /// Where caches were kept from one version to the next: positions of draws before which they
    /// were computed anew all the same.
    kept: Option<Vec<u32>>,
}

impl ClaimedSample {
    /// Sample `index` of an order. `tokens` are all that followed the prompt, each with whether it
    /// was drawn; `logprobs` and `versions` are those of the drawn ones.
    #[must_use]
    pub fn new(
        index: u32,
        tokens: impl IntoIterator<Item = (u32, bool)>,
        logprobs: &[f32],
        versions: impl IntoIterator<Item = u64>,
    ) -> Self {
        let (tokens, drawn): (Vec<u32>, Vec<bool>) = tokens.into_iter().unzip();
        let places = (0..tokens.len()).filter(|&at| drawn[at]);
        let draws = (0..).zip(places).zip(logprobs).zip(versions);
        let draws =
            draws.map(|(((position, at), &logprob), version)| (version, Draw { at, position, logprob }));
        Self { index, tokens, draws: draws.collect(), kept: None }
    }

    /// Of a group that kept its caches when a newer version took over. What stands
    /// before the draws at these positions was computed anew, under the version of
    /// their token: see [`recomputed`](crate::generation::Completion::recomputed).
    #[must_use]
    pub fn with_kept_caches(self, mut recomputed: Vec<u32>) -> Self {
        recomputed.sort_unstable();
        Self { kept: Some(recomputed), ..self }
    }

    /// Whether some of its tokens may follow what older versions had fed, so that all versions are
    /// asked about them together.
    pub(super) fn has_kept_caches(&self) -> bool {
        self.kept.is_some()
    }

    /// What the policies that are there say of it, up to where it is hopeless by `limits`.
    fn look<B: Backend>(
        &self,
        audits: &BTreeMap<u64, Audit<'_, B>>,
        limits: &Tolerance,
    ) -> Result<Evidence, EngineError> {
        match &self.kept {
            None => self.look_by_version(audits, limits),
            Some(recomputed) => self.look_by_lineage(audits, recomputed, limits),
        }
    }

    /// Each version's tokens follow a cache of its own.
    fn look_by_version<B: Backend>(
        &self,
        audits: &BTreeMap<u64, Audit<'_, B>>,
        limits: &Tolerance,
    ) -> Result<Evidence, EngineError> {
        let mut evidence = Evidence::default();
        for (version, audit) in audits {
            let own = self.draws.iter().filter(|(of, _)| of == version);
            let own: Vec<Draw> = own.map(|(_, draw)| *draw).collect();
            let seen = audit.look_on(&mut audit.begin(), self.index, &self.tokens, &own, Some(limits))?;
            evidence.add(seen);
            if evidence.is_hopeless(limits) {
                break;
            }
        }
        Ok(evidence)
    }

    /// A token was fed by the version of the next draw, up to where everything was computed anew.
    /// Behind the tokens of a version that is not there nothing is known until then.
    fn look_by_lineage<B: Backend>(
        &self,
        audits: &BTreeMap<u64, Audit<'_, B>>,
        recomputed: &[u32],
        limits: &Tolerance,
    ) -> Result<Evidence, EngineError> {
        let mut evidence = Evidence::default();
        let is_kept = |_: &_, (_, draw): &(u64, Draw)| recomputed.binary_search(&draw.position).is_err();
        for lineage in self.draws.chunk_by(is_kept) {
            let mut read = None;
            for leg in lineage.chunk_by(|(a, _), (b, _)| a == b) {
                let Some(audit) = audits.get(&leg[0].0) else { break };
                let draws: Vec<Draw> = leg.iter().map(|(_, draw)| *draw).collect();
                let read = read.get_or_insert_with(|| audit.begin());
                evidence.add(audit.look_on(read, self.index, &self.tokens, &draws, Some(limits))?);
                if evidence.is_hopeless(limits) {
                    return Ok(evidence);
                }
            }
        }
        Ok(evidence)
    }
}

/// What is wrong with these samples of the order whose seed is `seed` by the limits of `tolerance`, and
/// how certain that is. Tokens of versions that are not among `policies` are not looked at, and after the
/// first fault that is certain nothing is: a lie is not worth looking at any longer. Nor is a sample
/// behind a token that no machine would have drawn, so what is made up costs the reading of its first
/// tokens, however long it is. One fault that is not certain hides none that is: what follows is looked
/// at, and the means of the others are taken without it. Costs about as much computing as the prefill of
/// all tokens.
///
/// # Errors
/// When the prompt is empty, or a sample does not fit the model.
pub fn examine<B: Backend>(
    policies: &[Arc<Policy<B>>],
    prompt: &[u32],
    seed: &[u8; 32],
    params: &SamplingParams,
    samples: impl IntoIterator<Item = ClaimedSample>,
    tolerance: &Tolerance,
) -> Result<SampleFinding, EngineError> {
    let audits = audits(policies, prompt, seed, params)?;
    let certain = tolerance.times(MARGIN);
    weigh(samples.into_iter().map(|sample| sample.look(&audits, &certain)), tolerance)
}

/// As [`examine`], and finds the same, with some policies at a time: they come by version,
/// the oldest first, and are let go before the next ones are asked for.
///
/// Fails as [`examine`] does, and with what asking for a policy fails with.
///
/// Panics when caches were kept ([`ClaimedSample::has_kept_caches`]): such samples need all policies at once.
pub(super) fn examine_in_turn<B: Backend, E: From<EngineError>>(
    lend: impl IntoIterator<Item = Result<Vec<Arc<Policy<B>>>, E>>,
    prompt: &[u32],
    seed: &[u8; 32],
    params: &SamplingParams,
    samples: &[ClaimedSample],
    tolerance: &Tolerance,
) -> Result<SampleFinding, E> {
    assert!(
        !samples.iter().any(ClaimedSample::has_kept_caches),
        "where caches were kept, versions are asked together"
    );
    let mut seen = vec![Evidence::default(); samples.len()];
    let certain = tolerance.times(MARGIN);
    for policies in lend {
        let policies = policies?;
        let audits = audits(&policies, prompt, seed, params)?;
        for (sample, seen) in samples.iter().zip(&mut seen) {
            if !seen.is_hopeless(&certain) {
                seen.add(sample.look(&audits, &certain)?);
            }
            // What is found of this one is found whatever those behind it are.
            if seen.is_hopeless(&certain) {
                break;
            }
        }
    }
    Ok(weigh(seen.into_iter().map(Ok), tolerance)?)
}

/// Prefills the prompt under each version.
fn audits<'a, B: Backend>(
    policies: &'a [Arc<Policy<B>>],
    prompt: &[u32],
    seed: &'a [u8; 32],
    params: &'a SamplingParams,
) -> Result<BTreeMap<u64, Audit<'a, B>>, EngineError> {
    let audit =
        |policy: &'a Arc<Policy<B>>| Ok((policy.version(), Audit::new(&**policy, prompt, seed, params)?));
    policies.iter().map(audit).collect()
}

/// What comes of what was seen of sample after sample.
fn weigh(
    seen: impl Iterator<Item = Result<Evidence, EngineError>>,
    tolerance: &Tolerance,
) -> Result<SampleFinding, EngineError> {
    let (mut evidence, mut found) = (Evidence::default(), SampleFinding::default());
    for of_sample in seen {
        let before = evidence.tokens();
        evidence.add(of_sample?);
        let fault = evidence.fault(tolerance);
        if fault.is_some() && evidence.fault(&tolerance.times(MARGIN)).is_some() {
            return Ok(SampleFinding { fault, ..SampleFinding::default() });
        }
        found.is_close |= evidence.fault(&tolerance.times(1.0 / MARGIN)).is_some();
        if fault.is_some() {
            found.fault = found.fault.or(fault);
            evidence.truncate(before);
        }
    }
    found.near_misses = evidence.near_misses(tolerance);
    Ok(found)
}
