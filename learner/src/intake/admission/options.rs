//! `[admission]`

use crate::common::option_error::OptionError;
use echo_policy::audit::Standard;
use echo_policy::generation::cpu::computes_as_known;
use echo_policy::model::precision::Precision;
use echo_protocol::run::precision::{MAX_PRECISIONS, PrecisionName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// `[admission]`: how closely groups are looked at, and which are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionSection {
    /// Whether tokens and log-probabilities are checked against the policy and the order's
    /// randomness. It keeps each policy that nodes may still work under on the disk of the run
    /// directory, and costs about a tenth of generating on the learner's processor, less where
    /// nodes are known and where volunteers verify.
    pub audit: bool,
    /// Most bytes of memory for what the audit makes of policies to compute as groups declare,
    /// where that is not as policies are published.
    pub max_copy_bytes: u64,
    /// In what nodes may compute, `f32` among them. The charter lists what stands here when the run
    /// is founded; later the list can be made shorter.
    pub precisions: Vec<PrecisionName>,
}

impl Default for AdmissionSection {
    fn default() -> Self {
        Self { audit: true, max_copy_bytes: 16 << 30, precisions: vec![PrecisionName::default()] }
    }
}

impl AdmissionSection {
    pub(crate) fn validate(&self, temperature: f32) -> Result<(), OptionError> {
        let distinct: BTreeSet<&PrecisionName> = self.precisions.iter().collect();
        let known = |name: &&PrecisionName| name.as_str().parse::<Precision>().is_ok();
        let can_audit = |name: &&PrecisionName| {
            let standard = Standard::of(name.as_str(), temperature);
            standard.is_ok_and(|standard| computes_as_known(standard.precision))
        };
        let listed = self.precisions.len() == distinct.len() && distinct.len() <= MAX_PRECISIONS;
        let rule = if !listed || !distinct.contains(&PrecisionName::default()) {
            "at most 8, each once, f32 among them: every node can compute in it, and older ones do nothing else"
        } else if !distinct.iter().all(known) {
            "known are f32, bf16, int8 and int4"
        } else if self.audit && !distinct.iter().all(can_audit) {
            "for some of them it is not measured how far honest nodes are off, or this processor does not compute them to the bit as others do, so not all can be audited: leave those out, or set audit = false"
        } else {
            return Ok(());
        };
        let found = self.precisions.iter().map(PrecisionName::as_str).collect::<Vec<_>>().join(", ");
        Err(OptionError::Setting { field: "admission.precisions", found: format!("[{found}]"), rule })
    }
}
