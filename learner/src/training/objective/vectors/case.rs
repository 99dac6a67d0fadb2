//! One recorded case: its input, and what the reference made of it.

use serde::Deserialize;

use super::{ADVANTAGE_ROUNDING, CheckArithmetic, GRADIENT_ROUNDING, LOSS_FLOOR};
use crate::training::objective::{
    Advantage, Aggregation, Anchor, Correction, Estimator, Evaluation, Kl, Known, Level, Objective,
    ObjectiveError, Preset, RewardedResponse, ScoredResponse, Surrogate, WeightBound,
};

/// verl bounds its k3 estimate by this.
const KL_CAP: f64 = 10.0;
/// verl adds this to the length by which it divides a response's sum.
const LENGTH_GUARD: f64 = 1e-8;

#[derive(Deserialize)]
struct Params {
    clip_low: Option<f64>,
    clip_high: Option<f64>,
    dual_clip: Option<f64>,
    clip: Option<bool>,
    behav_weight_cap: Option<f64>,
    cppo_kl_beta: Option<f64>,
    max_len: Option<usize>,
}

#[derive(Deserialize)]
pub(super) struct ObjectiveCase {
    pub(super) objective: String,
    source: Option<String>,
    params: Params,
    groups: Vec<usize>,
    mask: Vec<Vec<f64>>,
    logp: Vec<Vec<f64>>,
    behav_logp: Vec<Vec<f64>>,
    prox_logp: Option<Vec<Vec<f64>>>,
    ref_logp: Option<Vec<Vec<f64>>>,
    rewards: Option<Vec<f64>>,
    advantages: Vec<f64>,
    loss: f64,
    grad_logp: Vec<Vec<f64>>,
}

/// How far what is computed here is from what the reference made of a case.
pub(super) struct Errors {
    /// Relative error of the loss.
    pub(super) loss: f64,
    /// Relative error of the gradient.
    pub(super) gradient: f64,
    /// Relative error of the advantages; zero where they cannot be compared.
    pub(super) advantages: f64,
}

impl ObjectiveCase {
    /// That all parts have the same `N` rows and `T` columns.
    pub(super) fn check(&self) -> Result<(), String> {
        let (rows, cols) = (self.logp.len(), self.logp.first().map_or(0, Vec::len));
        let matrices = [
            ("mask", Some(&self.mask)),
            ("logp", Some(&self.logp)),
            ("behav_logp", Some(&self.behav_logp)),
            ("prox_logp", self.prox_logp.as_ref()),
            ("ref_logp", self.ref_logp.as_ref()),
            ("grad_logp", Some(&self.grad_logp)),
        ];
        for (name, matrix) in matrices {
            if matrix.is_some_and(|m| m.len() != rows || m.iter().any(|row| row.len() != cols)) {
                return Err(format!("`{name}` is not {rows} by {cols}"));
            }
        }
        if self.groups.len() != rows || self.advantages.len() != rows {
            return Err(format!("`groups` or `advantages` does not have {rows} entries"));
        }
        if self.rewards.as_ref().is_some_and(|rewards| rewards.len() != rows) {
            return Err(format!("`rewards` does not have {rows} entries"));
        }
        Ok(())
    }

    /// The objective that the case names: a preset, or one of the other names of the format.
    pub(super) fn objective(&self) -> Option<Objective> {
        let params = &self.params;
        let estimator = |estimator| {
            let kl = Kl { estimator, beta: 1.0, anchor: Anchor::Reference, cap: None };
            let surrogate = Surrogate::None {};
            Objective {
                surrogate,
                aggregation: Aggregation::PerToken {},
                kl: Some(kl),
                ..Preset::Grpo.objective()
            }
        };
        let mut objective = match self.objective.as_str() {
            "grpo_dual_clip" => Preset::Dapo.objective(),
            "gepo_cppo_kl" => Preset::Gepo.objective(),
            "kl_k1" => estimator(Estimator::K1),
            "kl_k2" => estimator(Estimator::K2),
            "kl_k3" => estimator(Estimator::K3),
            name => Preset::named(name)?.objective(),
        };
        if let Some(Kl { estimator: Estimator::K3, cap, .. }) = &mut objective.kl {
            *cap = Some(KL_CAP);
        }
        if params.clip == Some(false) {
            objective.surrogate = Surrogate::Ratio {};
        }
        match &mut objective.surrogate {
            Surrogate::PpoClip { low, high, dual } => {
                (*low, *high) = (params.clip_low.unwrap_or(*low), params.clip_high.unwrap_or(*high));
                *dual = params.dual_clip;
            }
            Surrogate::Cispo { low, high } => {
                (*low, *high) = (params.clip_low.unwrap_or(*low), params.clip_high.unwrap_or(*high));
            }
            _ => {}
        }
        if objective.correction.is_some() {
            let bound = params
                .behav_weight_cap
                .map_or(WeightBound::Unbounded {}, |cap| WeightBound::Truncate { cap });
            objective.correction = Some(Correction { level: Level::Token, bound });
        }
        if let Some(beta) = params.cppo_kl_beta.filter(|beta| *beta > 0.0) {
            objective.kl = Some(Kl { estimator: Estimator::K3, beta, anchor: Anchor::Behaviour, cap: None });
        }
        Some(objective)
    }

    /// How the format makes advantages of rewards, for the objectives that it names. Its GPG and KL
    /// cases are normalised as those of GRPO are, whatever the preset does.
    fn advantage(&self) -> Option<Advantage> {
        match self.objective.as_str() {
            "dr_grpo" | "gepo" | "gepo_cppo_kl" => Some(Preset::DrGrpo.objective().advantage),
            "grpo" | "grpo_dual_clip" | "dapo" | "gspo" | "cispo" | "gpg" | "decoupled_ppo" | "kl_k1"
            | "kl_k2" | "kl_k3" => Some(Preset::Grpo.objective().advantage),
            _ => None,
        }
    }

    /// Relative errors of the loss, of the gradient and of the advantages.
    pub(super) fn errors(
        &self,
        objective: &Objective,
        precision: CheckArithmetic,
    ) -> Result<Errors, ObjectiveError> {
        let known = (0..self.groups.len()).map(|row| Known {
            group: self.groups[row],
            behaviour: self.trained(row, &self.behav_logp, precision),
            proximal: self.prox_logp.as_ref().map(|logp| self.trained(row, logp, precision)),
            reference: self.ref_logp.as_ref().map(|logp| self.trained(row, logp, precision)),
            advantage: vec![precision.round(self.advantages[row])],
            ..Known::default()
        });
        let plan = objective.plan(known.collect(), self.params.max_len.unwrap_or(0))?;
        let logp: Vec<Vec<f64>> =
            (0..self.groups.len()).map(|row| self.trained(row, &self.logp, precision)).collect();
        let (mut loss, mut found) = (0.0, Vec::new());
        for (response, logp) in logp.iter().enumerate() {
            let Evaluation { loss: part, d_logp, .. } =
                plan.evaluate(&[ScoredResponse { response, logp, entropy: &[] }])?;
            let scale = self.scale(logp.len());
            loss += scale * part;
            found.extend(d_logp.into_iter().flatten().map(|d| precision.round(scale * d)));
        }
        let wanted: Vec<f64> = (0..self.groups.len())
            .flat_map(|row| self.trained(row, &self.grad_logp, CheckArithmetic::F64))
            .collect();
        let magnitude = wanted.iter().fold(f64::MIN_POSITIVE, |top, g| top.max(g.abs()));
        let gradient = found.iter().zip(&wanted).map(|(f, w)| (f - w).abs()).fold(0.0, worse);
        let loss = worse(0.0, (precision.round(loss) - self.loss).abs()) / self.loss.abs().max(LOSS_FLOOR);
        let gradient = (gradient - GRADIENT_ROUNDING).max(0.0) / magnitude;
        Ok(Errors { loss, gradient, advantages: self.advantage_error(precision)? })
    }

    /// Relative error of the advantages. A response that is alone in its group is not compared:
    /// implementations differ in whether it has any advantage.
    fn advantage_error(&self, precision: CheckArithmetic) -> Result<f64, ObjectiveError> {
        let (Some(rewards), Some(advantage)) = (&self.rewards, self.advantage()) else { return Ok(0.0) };
        let outcomes: Vec<RewardedResponse> = rewards
            .iter()
            .zip(&self.groups)
            .map(|(&reward, &group)| RewardedResponse { reward: precision.round(reward), length: 0, group })
            .collect();
        let found = advantage.of(&outcomes)?;
        let alone = |group: usize| self.groups.iter().filter(|other| **other == group).count() == 1;
        let (mut error, mut magnitude) = (0.0, f64::MIN_POSITIVE);
        for ((found, wanted), &group) in found.iter().zip(&self.advantages).zip(&self.groups) {
            if !alone(group) {
                error = worse(error, (precision.round(*found) - wanted).abs());
                magnitude = wanted.abs().max(magnitude);
            }
        }
        Ok((error - ADVANTAGE_ROUNDING).max(0.0) / magnitude)
    }

    /// What the reference makes of a response beside what the formula says.
    fn scale(&self, tokens: usize) -> f64 {
        let verl = self.source.as_deref().is_some_and(|source| source.starts_with("verl"));
        let by_length = ["grpo", "gspo", "gmpo", "sapo"].contains(&self.objective.as_str());
        if verl && by_length { tokens as f64 / (tokens as f64 + LENGTH_GUARD) } else { 1.0 }
    }

    /// The entries of a row that the mask lets through.
    fn trained(&self, row: usize, matrix: &[Vec<f64>], precision: CheckArithmetic) -> Vec<f64> {
        let entries = matrix[row].iter().zip(&self.mask[row]).filter(|(_, mask)| **mask != 0.0);
        entries.map(|(value, _)| precision.round(*value)).collect()
    }
}

/// The larger error, where NaN counts as infinite: `f64::max` would drop it.
fn worse(a: f64, b: f64) -> f64 {
    if b.is_nan() { f64::INFINITY } else { a.max(b) }
}
