//! Decoupled PPO (AReaL §5.2, eq. 5).

use serde::{Deserialize, Serialize};

use super::aggregate::mean_of_tokens;
use super::checked::Checked;
use super::clip::surrogate;
use super::stats::{ObjectiveStats, WeightTerm};
use super::weight::{exp_clamped, host_exp_clamped};
use super::{AdvantageRule, Aggregation, Clip, Objective, ObjectiveError, ObjectiveInput, ObjectiveOutput};

/// loss = -(1/tokens) Σ_{i,t} b_{i,t} · min(u A_i, clip(u) A_i), with
///
/// - u = π_θ / π_prox, clipped around one: the trust region lies around the recent, proximal policy,
/// - b = min(π_prox / π_behav, cap), constant with respect to θ: it corrects for the policy that sampled.
///
/// Tokens of one response may come from several policy versions: each carries its own behaviour log-probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DecoupledPpo {
    /// Clip of the ratio to the proximal policy.
    pub clip: Clip,
    /// Cap of the behaviour weight; `None` (`false` in a run file) leaves only the clamp of its logarithm
    /// ([`LOG_RATIO_LIMIT`](super::weight::LOG_RATIO_LIMIT)).
    #[serde(with = "super::off")]
    pub behaviour_weight_cap: Option<f64>,
}

impl Default for DecoupledPpo {
    fn default() -> Self {
        Self { clip: Clip::default(), behaviour_weight_cap: Some(5.0) }
    }
}

impl DecoupledPpo {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`ObjectiveError::Setting`] for a clip out of its domain, or a cap that is not positive and finite.
    pub fn validate(&self) -> Result<(), ObjectiveError> {
        if let Some(cap) = self.behaviour_weight_cap
            && !(cap > 0.0 && cap.is_finite())
        {
            return Err(ObjectiveError::Setting {
                setting: "behaviour_weight_cap",
                value: cap,
                domain: "above 0 and finite",
            });
        }
        self.clip.validate()
    }

    fn stats(&self, checked: &Checked<'_>, proximal: &[f64]) -> Result<ObjectiveStats, ObjectiveError> {
        let terms = checked.trained_tokens().map(|(row, at)| {
            let ratio = host_exp_clamped(checked.logp[at] - proximal[at]);
            let behaviour = host_exp_clamped(proximal[at] - checked.behaviour[at]);
            WeightTerm {
                weight: ratio * self.behaviour_weight_cap.map_or(behaviour, |cap| behaviour.min(cap)),
                clipped: self.clip.cuts(ratio, checked.advantages[row]),
            }
        });
        ObjectiveStats::new(checked, terms)
    }
}

impl Objective for DecoupledPpo {
    fn name(&self) -> &'static str {
        "decoupled_ppo"
    }

    fn aggregation(&self) -> Aggregation {
        Aggregation::PerToken
    }

    fn advantage_rule(&self) -> AdvantageRule {
        AdvantageRule::GroupNormalised
    }

    fn needs_proximal(&self) -> bool {
        true
    }

    fn loss(&self, input: &ObjectiveInput) -> Result<ObjectiveOutput, ObjectiveError> {
        self.validate()?;
        let checked = Checked::new(input)?;
        let (Some(proximal_logp), Some(host_proximal)) = (&input.proximal_logp, &checked.proximal) else {
            return Err(ObjectiveError::MissingProximal { objective: self.name() });
        };
        let stats = self.stats(&checked, host_proximal)?;

        let proximal = checked.masked(proximal_logp)?.detach();
        let behaviour = checked.masked(&input.behaviour_logp)?.detach();
        let ratio = exp_clamped(&(checked.masked(&input.logp)? - &proximal)?)?;
        let mut correction = exp_clamped(&(proximal - behaviour)?)?;
        if let Some(cap) = self.behaviour_weight_cap {
            correction = correction.minimum(cap)?;
        }
        let advantages = checked.column(checked.advantages.clone())?.unsqueeze(1)?;
        let terms = (surrogate(&ratio, &advantages, Some(&self.clip))? * correction)?;
        Ok(ObjectiveOutput { loss: mean_of_tokens(&terms, &checked)?.neg()?, stats })
    }
}
