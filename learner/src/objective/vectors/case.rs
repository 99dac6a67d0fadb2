//! One recorded case: its input, and what the reference made of it.

use candle_core::{Device, Tensor, Var};
use serde::Deserialize;

use super::{GRADIENT_ROUNDING, LOSS_FLOOR, Precision};
use crate::objective::checked::host;
use crate::objective::{Clip, DecoupledPpo, Gepo, ObjectiveError, ObjectiveInput, Preset};

#[derive(Deserialize)]
struct Params {
    clip_low: Option<f64>,
    clip_high: Option<f64>,
    clip: Option<bool>,
    behav_weight_cap: Option<f64>,
    cppo_kl_beta: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Case {
    pub(super) objective: String,
    params: Params,
    groups: Vec<usize>,
    mask: Vec<Vec<f64>>,
    logp: Vec<Vec<f64>>,
    behav_logp: Vec<Vec<f64>>,
    prox_logp: Option<Vec<Vec<f64>>>,
    advantages: Vec<f64>,
    loss: f64,
    grad_logp: Vec<Vec<f64>>,
}

impl Case {
    /// `(N, T)`, once all parts are known to have it.
    pub(super) fn shape(&self) -> Result<(usize, usize), String> {
        let (rows, cols) = (self.logp.len(), self.logp.first().map_or(0, Vec::len));
        let matrices = [
            ("mask", Some(&self.mask)),
            ("logp", Some(&self.logp)),
            ("behav_logp", Some(&self.behav_logp)),
            ("prox_logp", self.prox_logp.as_ref()),
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
        Ok((rows, cols))
    }

    pub(super) fn preset(&self) -> Option<Preset> {
        let bounds = self.params.clip_low.zip(self.params.clip_high).map(|(low, high)| Clip { low, high });
        match self.objective.as_str() {
            "gepo" | "gepo_cppo_kl" => Some(Preset::Gepo(Gepo {
                clip: bounds.filter(|_| self.params.clip.unwrap_or(true)),
                cppo_kl_beta: self.params.cppo_kl_beta.unwrap_or(0.0),
            })),
            "decoupled_ppo" => Some(Preset::DecoupledPpo(DecoupledPpo {
                clip: bounds?,
                behaviour_weight_cap: self.params.behav_weight_cap,
            })),
            _ => None,
        }
    }

    /// Relative errors of the loss and of the gradient.
    pub(super) fn errors(&self, preset: &Preset, precision: Precision) -> Result<(f64, f64), ObjectiveError> {
        let shape = (self.logp.len(), self.logp.first().map_or(0, Vec::len));
        let tensor = |rows: &[Vec<f64>]| -> Result<Tensor, ObjectiveError> {
            Ok(Tensor::from_vec(rows.concat(), shape, &Device::Cpu)?.to_dtype(precision.dtype())?)
        };
        let logp = Var::from_tensor(&tensor(&self.logp)?)?;
        let input = ObjectiveInput {
            logp: logp.as_tensor().clone(),
            behaviour_logp: tensor(&self.behav_logp)?,
            proximal_logp: self.prox_logp.as_deref().map(tensor).transpose()?,
            mask: tensor(&self.mask)?,
            advantages: Tensor::new(self.advantages.as_slice(), &Device::Cpu)?.to_dtype(precision.dtype())?,
            groups: self.groups.clone(),
            entropy: None,
        };
        let loss = preset.objective().loss(&input)?.loss;
        let gradients = loss.backward()?;
        let found = match gradients.get(&logp) {
            Some(gradient) => host(gradient)?,
            None => vec![0.0; shape.0 * shape.1],
        };
        let wanted = self.grad_logp.concat();
        let magnitude = wanted.iter().fold(f64::MIN_POSITIVE, |top, g| top.max(g.abs()));
        let gradient = found.iter().zip(&wanted).map(|(f, w)| (f - w).abs()).fold(0.0, worse);
        let loss = worse(0.0, (host(&loss)?[0] - self.loss).abs()) / self.loss.abs().max(LOSS_FLOOR);
        Ok((loss, (gradient - GRADIENT_ROUNDING).max(0.0) / magnitude))
    }
}

/// The larger error, where NaN counts as infinite: `f64::max` would drop it.
fn worse(a: f64, b: f64) -> f64 {
    if b.is_nan() { f64::INFINITY } else { a.max(b) }
}
