//! GEPO: group expectation policy optimization (GEPO §3.1).

use serde::{Deserialize, Serialize};

use super::aggregate::{mean_of_responses, response_means};
use super::checked::Checked;
use super::clip::surrogate;
use super::stats::{ObjectiveStats, WeightTerm};
use super::weight::{exp_clamped, host_exp_clamped, log_group_expectation};
use super::{AdvantageRule, Aggregation, Clip, Objective, ObjectiveError, ObjectiveInput, ObjectiveOutput};

/// loss = -(1/N) Σ_i min(w_i A_i, clip(w_i) A_i) + β (1/N) Σ_i mean_t(e^d - d - 1), with
///
/// - w_i = p_i / E (eq. 3), p_i = exp(mean_t log π_θ) of response i,
/// - E = Σ q² / Σ q over the responses of the same prompt (eq. 2), constant with respect to θ,
/// - d = log q_t - log p_t per token, the CPPO-KL term, which keeps the policy near the behaviour policy.
///
/// The paper's equation has no clip; with `clip` absent this is that equation. Under long delays training
/// without the clip collapses, so it is on by default.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gepo {
    /// PPO clip of the weight; `None` (`false` in a run file) leaves the weight as it is.
    #[serde(with = "super::off")]
    pub clip: Option<Clip>,
    /// β of the CPPO-KL term; zero leaves the term out.
    pub cppo_kl_beta: f64,
}

impl Default for Gepo {
    fn default() -> Self {
        Self { clip: Some(Clip::default()), cppo_kl_beta: 0.0 }
    }
}

impl Gepo {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`ObjectiveError::Setting`] for a clip out of its domain, or a β that is negative or not finite.
    pub fn validate(&self) -> Result<(), ObjectiveError> {
        if !(self.cppo_kl_beta >= 0.0 && self.cppo_kl_beta.is_finite()) {
            return Err(ObjectiveError::Setting {
                setting: "cppo_kl_beta",
                value: self.cppo_kl_beta,
                domain: "zero or above, and finite",
            });
        }
        self.clip.map_or(Ok(()), |clip| clip.validate())
    }
}

impl Objective for Gepo {
    fn name(&self) -> &'static str {
        "gepo"
    }

    fn aggregation(&self) -> Aggregation {
        Aggregation::PerResponse
    }

    fn advantage_rule(&self) -> AdvantageRule {
        AdvantageRule::GroupMean
    }

    fn needs_proximal(&self) -> bool {
        false
    }

    fn loss(&self, input: &ObjectiveInput) -> Result<ObjectiveOutput, ObjectiveError> {
        self.validate()?;
        let checked = Checked::new(input)?;
        let log_e = log_group_expectation(&checked);
        let stats = self.stats(&checked, &log_e)?;

        let log_p = response_means(&input.logp, &checked)?;
        let weight = exp_clamped(&(log_p - checked.column(log_e)?)?)?;
        let advantages = checked.column(checked.advantages.clone())?;
        let terms = surrogate(&weight, &advantages, self.clip.as_ref())?;
        let mut loss = mean_of_responses(&terms, &checked)?.neg()?;
        if self.cppo_kl_beta > 0.0 {
            let d = (checked.masked(&input.behaviour_logp)?.detach() - checked.masked(&input.logp)?)?;
            let estimate = ((exp_clamped(&d)? - &d)? - 1.0)?;
            let kl = mean_of_responses(&response_means(&estimate, &checked)?, &checked)?;
            loss = (loss + (kl * self.cppo_kl_beta)?)?;
        }
        Ok(ObjectiveOutput { loss, stats })
    }
}

impl Gepo {
    fn stats(&self, checked: &Checked<'_>, log_e: &[f64]) -> Result<ObjectiveStats, ObjectiveError> {
        let log_p = checked.host_response_means(&checked.logp);
        let terms = (0..checked.rows).filter(|&i| checked.lengths[i] > 0).map(|i| {
            let weight = host_exp_clamped(log_p[i] - log_e[i]);
            WeightTerm { weight, clipped: self.clip.is_some_and(|c| c.cuts(weight, checked.advantages[i])) }
        });
        ObjectiveStats::new(checked, terms)
    }
}
