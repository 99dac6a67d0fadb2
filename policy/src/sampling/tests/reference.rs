//! The rule in f64 with everything sorted and stored: what the sampler has to agree with.

use super::*;

pub(super) struct Exact {
    /// exp((logit − top) / temperature); 0 where ruled out.
    weights: Vec<f64>,
    total: f64,
    raw: Vec<f64>,
    kept: Vec<bool>,
    /// Sums of the falling prefixes beside what is enough for top-p.
    prefixes: Vec<f64>,
    enough: f64,
}

impl Exact {
    pub(super) fn new(logits: &[f32], params: &SamplingParams) -> Self {
        let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let depth = |logit: &f32| f64::from(*logit) - f64::from(top);
        let (greedy, divisor) = (params.temperature == 0.0, f64::from(params.temperature));
        let divisor = if greedy { 1.0 } else { divisor };
        let mut weights: Vec<f64> = logits.iter().map(|logit| libm::exp(depth(logit) / divisor)).collect();
        let log_total = libm::log(logits.iter().map(|logit| libm::exp(depth(logit))).sum());
        let raw = logits.iter().map(|logit| depth(logit) - log_total).collect();
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|a, b| logits[*b].partial_cmp(&logits[*a]).unwrap());
        let k = if greedy { 1 } else { params.top_k as usize };
        let mut keep = if k > 0 { k.min(order.len()) } else { order.len() };
        let mut sum = 0.0;
        let mut prefixes = Vec::new();
        let mut enough = f64::INFINITY;
        if params.top_p < 1.0 {
            enough = f64::from(params.top_p) * order[..keep].iter().map(|id| weights[*id]).sum::<f64>();
            for id in &order[..keep] {
                sum += weights[*id];
                prefixes.push(sum);
            }
            keep = prefixes.iter().position(|sum| *sum >= enough).map_or(keep, |last| last + 1);
        }
        let mut kept = vec![false; logits.len()];
        order[..keep].iter().for_each(|id| kept[*id] = logits[*id] > f32::NEG_INFINITY);
        weights.iter_mut().zip(&kept).for_each(|(weight, kept)| *weight *= f64::from(u8::from(*kept)));
        Self { total: weights.iter().sum(), weights, raw, kept, prefixes, enough }
    }

    /// Whether rounding may let top-p cut elsewhere.
    pub(super) fn near_a_prefix(&self, share: f64) -> bool {
        self.prefixes.iter().any(|sum| *sum != self.enough && (sum / self.enough - 1.0).abs() < share)
    }

    pub(super) fn keeps(&self, token: usize) -> bool {
        self.kept[token]
    }

    pub(super) fn draw(&self, u: f64) -> usize {
        let mut sum = 0.0;
        let found = self.weights.iter().position(|weight| {
            sum += weight;
            sum > u * self.total
        });
        found.unwrap()
    }

    pub(super) fn span(&self, token: usize) -> (f64, f64) {
        let before: f64 = self.weights[..token].iter().sum();
        (before / self.total, (before + self.weights[token]) / self.total)
    }

    pub(super) fn logprob(&self, token: usize) -> f64 {
        libm::log(self.weights[token] / self.total)
    }

    pub(super) fn raw_logprob(&self, token: usize) -> f64 {
        self.raw[token]
    }
}
