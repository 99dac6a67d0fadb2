//! Who audits: one sequence of samples at a time, in the precision that they declare.

use std::sync::Arc;

use parking_lot::Mutex;

use super::policy_cache::Copies;
use super::samples::examine_in_turn;
use super::{AuditError, CannotAudit, ClaimedSample, SampleFinding, Standard, VersionWeights, examine};
use crate::generation::cpu::computes_as_known;
use crate::sampling::SamplingParams;

/// Audits with policies that it makes, in whatever precision is declared, of the weights that others hold.
///
/// One audit is made at a time, as it uses every core, and memory for a whole sequence. So two that
/// want a policy that is not there make it once, and what policies take is bounded. Nobody but
/// other audits waits for one.
#[derive(Debug)]
pub struct Auditor {
    copies: Mutex<Copies>,
}

impl Auditor {
    /// One whose policies take at most `copied_bytes` of memory beside the weights that they are
    /// made of ([`VersionWeights::copied_bytes`]). It keeps those that were used last, none longer
    /// than others hold the weights.
    #[must_use]
    pub fn new(copied_bytes: usize) -> Self {
        Self { copies: Mutex::new(Copies::new(copied_bytes)) }
    }

    /// What is wrong with samples of the order whose seed is `seed`, and how certain that is, by
    /// `standard`: what [`examine`] finds with the policies of `versions` in that precision. Where
    /// these do not fit into memory together, they are asked one after the other, and the finding
    /// is the same. Blocks, for other audits too.
    ///
    /// # Errors
    /// [`CannotAudit::NoRoom`] where a single policy does not fit, or caches were kept and those of
    /// all versions do not; [`CannotAudit::Processor`] where this machine has to be exact and is
    /// not; what [`examine`] fails with.
    pub fn examine(
        &self,
        versions: &[Arc<VersionWeights>],
        standard: &Standard,
        prompt: &[u32],
        seed: &[u8; 32],
        params: &SamplingParams,
        samples: impl IntoIterator<Item = ClaimedSample>,
    ) -> Result<SampleFinding, AuditError> {
        let Standard { precision, tolerance } = standard;
        if !computes_as_known(*precision) {
            return Err(CannotAudit::Processor { precision: *precision }.into());
        }
        let samples: Vec<ClaimedSample> = samples.into_iter().collect();
        let mut copies = self.copies.lock();
        copies.sweep();
        if copies.have_room_for(versions, *precision) || samples.iter().any(ClaimedSample::has_kept_caches) {
            let policies = copies.policies(versions, *precision)?;
            return Ok(examine(&policies, prompt, seed, params, samples, tolerance)?);
        }
        let mut versions = versions.to_vec();
        versions.sort_by_key(|version| version.version());
        let lend = versions.chunks(1).map(|version| copies.policies(version, *precision));
        examine_in_turn(lend, prompt, seed, params, &samples, tolerance)
    }
}

#[cfg(test)]
mod tests;
