//! The differentiated importance ratio: of what, to what.

use serde::{Deserialize, Serialize};

use super::ObjectiveError;
use super::error::{finite_above_zero, finite_from_zero};

/// Log-ratios are clamped to ± this before they are exponentiated: e^20 ≈ 4.9e8, and a product
/// of two such weights is still far from overflow. A term beyond the limit has a constant weight
/// and thus no gradient.
pub const LOG_RATIO_LIMIT: f64 = 20.0;

/// Upper limit of a sequence's mean log-ratio (GSPO as its authors compute it).
pub const SEQUENCE_LOG_RATIO_LIMIT: f64 = 10.0;

/// The denominator of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The policy that sampled the token, as reported by the node.
    Behaviour,
    /// The policy at the start of the step, recomputed by the trainer (AReaL §5.2).
    Proximal,
}

/// What stands before the advantage and is differentiated: π_θ over something, for each
/// token or each response.
///
/// p = exp(mean_t log π_θ) and q = exp(mean_t log π_behaviour) are the length-normalised
/// probabilities of a response.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "level", rename_all = "snake_case", deny_unknown_fields)]
pub enum Ratio {
    /// π_θ / π of each token: GRPO and PPO.
    Token {
        /// π: the denominator of each token's ratio.
        against: Against,
    },
    /// p / q of each response: GSPO.
    Sequence {
        /// The policy of the denominator q.
        against: Against,
    },
    /// p / E with E = Σ q² / Σ q over the responses of the same prompt, constant in θ: GEPO eq. 2 and 3.
    Group {},
    /// p / (ε sg(p) + (1 - ε) E): GEPO's defensive denominator (eq. 37), ε = min(1, `scale` ·
    /// Var(q)) with the population variance of q over the group, which is at most 1/4.
    GroupDefensive {
        /// ε over Var(q), 0 or above; ε is at most 1.
        scale: f64,
    },
    /// exp of the mean over tokens of log(π_θ / π), each clipped to [-low, high] where that
    /// lowers the objective: GMPO.
    Geometric {
        /// π: the denominator of each token's ratio.
        against: Against,
        /// Clip below, in nats.
        low: f64,
        /// Clip above, in nats.
        high: f64,
    },
}

/// Log-ratios of one response.
pub(super) enum LogRatio {
    /// One log-ratio for each trained token, in order.
    Tokens(Vec<f64>),
    /// One for the response, and its derivative by each token's log-probability.
    Response { value: f64, slopes: Vec<f64> },
}

/// What a group's behaviour log-probabilities say about all of its responses.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct GroupExpectation {
    /// log E, E = Σ q² / Σ q (GEPO eq. 2).
    pub(super) log_e: f64,
    /// Population variance of q.
    pub(super) variance: f64,
}

impl GroupExpectation {
    /// From the mean behaviour log-probability of each response that has tokens. In log space, so
    /// that it holds for q far below the smallest float. An empty group has log E = 0.
    pub(super) fn new(log_q: &[f64]) -> Self {
        let Some(top) = log_q.iter().copied().reduce(f64::max) else { return Self::default() };
        let squares: f64 = log_q.iter().map(|q| (2.0 * (q - top)).exp()).sum();
        let sum: f64 = log_q.iter().map(|q| (q - top).exp()).sum();
        let count = log_q.len() as f64;
        let mean = log_q.iter().map(|q| q.exp()).sum::<f64>() / count;
        let variance = log_q.iter().map(|q| (q.exp() - mean).powi(2)).sum::<f64>() / count;
        Self { log_e: top + squares.ln() - sum.ln(), variance }
    }
}

/// What a ratio is computed from: one response with at least one trained token.
pub(super) struct Numbers<'a> {
    pub(super) logp: &'a [f64],
    pub(super) behaviour: &'a [f64],
    /// The policy at the start of the step.
    pub(super) proximal: &'a [f64],
    pub(super) group: GroupExpectation,
    pub(super) advantage: f64,
}

impl Ratio {
    /// Refuses numbers of a ratio that are out of their domain.
    pub(super) fn validate(&self) -> Result<(), ObjectiveError> {
        match *self {
            Self::Token { .. } | Self::Sequence { .. } | Self::Group {} => Ok(()),
            Self::GroupDefensive { scale } => finite_from_zero("ratio.scale", scale),
            Self::Geometric { low, high, .. } => {
                finite_above_zero("ratio.low", low)?;
                finite_above_zero("ratio.high", high)
            }
        }
    }

    /// Whether the policy at the start of the step is needed.
    #[must_use]
    pub fn is_proximal(&self) -> bool {
        match self {
            Self::Token { against } | Self::Sequence { against } | Self::Geometric { against, .. } => {
                *against == Against::Proximal
            }
            Self::Group {} | Self::GroupDefensive { .. } => false,
        }
    }

    /// The log-ratios, before any clamp.
    pub(super) fn log(&self, numbers: &Numbers<'_>) -> LogRatio {
        let logp = numbers.logp;
        let against = |against: Against| match against {
            Against::Behaviour => numbers.behaviour,
            Against::Proximal => numbers.proximal,
        };
        let each = 1.0 / logp.len() as f64;
        let of_response = |value| LogRatio::Response { value, slopes: vec![each; logp.len()] };
        match *self {
            Self::Token { against: policy } => {
                LogRatio::Tokens(logp.iter().zip(against(policy)).map(|(p, q)| p - q).collect())
            }
            Self::Sequence { against: policy } => {
                let value = mean_difference(logp, against(policy));
                if value > SEQUENCE_LOG_RATIO_LIMIT {
                    let slopes = vec![0.0; logp.len()];
                    return LogRatio::Response { value: SEQUENCE_LOG_RATIO_LIMIT, slopes };
                }
                of_response(value)
            }
            Self::Group {} => of_response(mean(logp) - numbers.group.log_e),
            Self::GroupDefensive { scale } => {
                let epsilon = (scale * numbers.group.variance).min(1.0);
                let log_p = mean(logp);
                // log(ε p + (1 - ε) E), where one part may be absent.
                let denominator = match (epsilon.ln() + log_p, (1.0 - epsilon).ln() + numbers.group.log_e) {
                    (a, b) if a > b => a + (b - a).exp().ln_1p(),
                    (a, b) => b + (a - b).exp().ln_1p(),
                };
                of_response(log_p - denominator)
            }
            Self::Geometric { against: policy, low, high } => {
                let sign = if numbers.advantage < 0.0 { -1.0 } else { 1.0 };
                let clipped = logp.iter().zip(against(policy)).map(|(p, q)| {
                    let log_ratio = p - q;
                    let kept = sign * log_ratio <= sign * log_ratio.clamp(-low, high);
                    if kept { (log_ratio, each) } else { (log_ratio.clamp(-low, high), 0.0) }
                });
                let (values, slopes): (Vec<f64>, Vec<f64>) = clipped.unzip();
                LogRatio::Response { value: mean(&values), slopes }
            }
        }
    }
}

/// exp of a clamped log-ratio, and whether the clamp leaves a gradient.
pub(super) fn exp_clamped(log_ratio: f64) -> (f64, bool) {
    let clamped = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);
    (clamped.exp(), clamped == log_ratio)
}

/// The mean of what is not empty.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn mean_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a - b).sum::<f64>() / a.len() as f64
}
