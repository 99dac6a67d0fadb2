//! The gradient norms of the last updates, which the guard compares with.

use std::collections::VecDeque;

use candle_core::{Device, Tensor};

use super::OptimizerError;

/// Name of the guard's norms in an exported state; absent while it has none.
pub const NORMS_NAME: &str = "optimizer.norms";
/// Updates whose norms the guard remembers.
pub const NORM_WINDOW: usize = 64;
/// Fewer norms than this have no median worth comparing with.
pub(super) const MIN_NORMS: usize = 8;

/// Norms of the last updates, oldest first.
#[derive(Debug, Default)]
pub(super) struct Norms(pub(super) VecDeque<f64>);

impl Norms {
    pub(super) fn push(&mut self, norm: f64) {
        if self.0.len() == NORM_WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(norm);
    }

    pub(super) fn median(&self) -> Option<f64> {
        if self.0.len() < MIN_NORMS {
            return None;
        }
        let mut norms: Vec<f64> = self.0.iter().copied().collect();
        let middle = norms.len() / 2;
        Some(*norms.select_nth_unstable_by(middle, f64::total_cmp).1)
    }

    /// For a checkpoint: what is skipped after a resume must be what would have been skipped without it.
    pub(super) fn to_tensor(&self) -> Result<Option<Tensor>, OptimizerError> {
        let norms: Vec<f64> = self.0.iter().copied().collect();
        if norms.is_empty() { Ok(None) } else { Ok(Some(Tensor::new(norms, &Device::Cpu)?)) }
    }

    pub(super) fn from_tensor(tensor: &Tensor) -> Result<Self, OptimizerError> {
        let norms = tensor.to_vec1::<f64>().ok();
        let usable = |norms: &Vec<f64>| {
            norms.len() <= NORM_WINDOW && norms.iter().all(|norm| norm.is_finite() && *norm >= 0.0)
        };
        let problem = "is no list of norms";
        let norms =
            norms.filter(usable).ok_or(OptimizerError::State { name: NORMS_NAME.to_owned(), problem })?;
        Ok(Self(norms.into()))
    }
}
