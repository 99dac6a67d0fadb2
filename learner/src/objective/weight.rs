//! Importance weights: the stable exponential they share, and GEPO's group expectation.

use candle_core::Tensor;

use super::ObjectiveError;
use super::advantage::members;
use super::checked::Checked;

/// Log-ratios are clamped to ± this before they are exponentiated: e^20 ≈ 4.9e8, and a product of two such
/// weights still fits f32. A term beyond the limit has a constant weight and thus no gradient.
pub const LOG_RATIO_LIMIT: f64 = 20.0;

/// exp(clamp(`log_ratio`)): a weight that is finite for every finite log-ratio.
pub(super) fn exp_clamped(log_ratio: &Tensor) -> Result<Tensor, ObjectiveError> {
    Ok(log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)?.exp()?)
}

/// The same on the host.
pub(super) fn host_exp_clamped(log_ratio: f64) -> f64 {
    log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
}

/// log E of each response's group, where E = Σ q_i² / Σ q_i (GEPO eq. 2) and q_i is exp of the mean behaviour
/// log-probability of response i. Computed in log space in f64, so that it holds for q_i far below the smallest
/// float. Responses without trained tokens are left out of E; a group of nothing else has log E = 0.
pub(super) fn log_group_expectation(checked: &Checked<'_>) -> Vec<f64> {
    let log_q = checked.host_response_means(&checked.behaviour);
    let mut log_e = vec![0.0; checked.rows];
    for rows in members(&checked.input.groups).values() {
        let sampled: Vec<f64> = rows.iter().filter(|&&i| checked.lengths[i] > 0).map(|&i| log_q[i]).collect();
        let Some(top) = sampled.iter().copied().reduce(f64::max) else { continue };
        let square_sum: f64 = sampled.iter().map(|q| (2.0 * (q - top)).exp()).sum();
        let sum: f64 = sampled.iter().map(|q| (q - top).exp()).sum();
        let value = top + square_sum.ln() - sum.ln();
        for &row in rows {
            log_e[row] = value;
        }
    }
    log_e
}
