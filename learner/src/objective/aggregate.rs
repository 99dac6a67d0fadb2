//! Aggregation: from per-token or per-response terms to one scalar.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::ObjectiveError;
use super::checked::Checked;

/// The outermost mean of a loss.
///
/// When a batch is split into micro-batches, the batch loss is Σ share_k · loss_k, where share_k is the part of
/// the batch's responses or trained tokens that micro-batch k holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// (1/N) Σ over responses; empty responses count in N.
    PerResponse,
    /// Σ over trained tokens / number of trained tokens of the batch.
    PerToken,
}

/// (1/|y_i|) Σ_t `terms`\[i, t\] over trained tokens: `[N, T]` to `[N]`, zero for an empty response.
pub(super) fn response_means(terms: &Tensor, checked: &Checked<'_>) -> Result<Tensor, ObjectiveError> {
    let inverse = checked.lengths.iter().map(|&n| 1.0 / n.max(1) as f64).collect();
    Ok((checked.masked(terms)?.sum(1)? * checked.column(inverse)?)?)
}

/// (1/N) Σ_i `terms`\[i\], where empty responses add nothing: `[N]` to a scalar.
pub(super) fn mean_of_responses(terms: &Tensor, checked: &Checked<'_>) -> Result<Tensor, ObjectiveError> {
    let share = 1.0 / checked.rows as f64;
    let weights = checked.lengths.iter().map(|&n| if n > 0 { share } else { 0.0 }).collect();
    Ok((terms * checked.column(weights)?)?.sum_all()?)
}

/// Σ of `terms` over trained tokens / their number: `[N, T]` to a scalar, zero when there is none.
pub(super) fn mean_of_tokens(terms: &Tensor, checked: &Checked<'_>) -> Result<Tensor, ObjectiveError> {
    Ok((checked.masked(terms)?.sum_all()? / checked.tokens().max(1) as f64)?)
}
