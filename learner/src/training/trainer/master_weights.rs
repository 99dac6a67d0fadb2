//! The weights that the optimizer steps on, where the policy has them rounded.
//!
//! Nodes sample from a snapshot, whose numbers are rounded to its element type. At the learning rate
//! of a real model most steps are smaller than half the distance to the next number of bf16. So the
//! optimizer adds its steps up in f32, and the passes use what nodes get: the gradient of the
//! rounded weights is taken for that of the others (a straight-through estimate, as mixed precision
//! makes). At lag 0 the log-probs of nodes and trainer then differ by their kernels alone.

use super::TrainError;
use candle_core::{DType as CandleType, Tensor, Var};
use echo_policy::model::weights::DType;
use echo_policy::training::decoder::Decoder;
use rayon::prelude::*;

/// The weights before they are rounded.
pub(super) struct MasterWeights {
    weights: Decoder,
    dtype: DType,
}

impl MasterWeights {
    /// Keeps the `weights`, and makes a policy of them that has them rounded to `dtype`.
    pub(super) fn keep(weights: Decoder, dtype: DType) -> Result<(Self, Decoder), TrainError> {
        let rounded = |(name, var): &(String, Var)| {
            Ok((name.clone(), Var::from_tensor(&round(var.as_detached_tensor(), dtype)?)?))
        };
        let vars = weights.vars().iter().map(rounded).collect::<Result<_, TrainError>>()?;
        let policy = Decoder::new(weights.config(), vars, weights.device())?
            .with_compute(weights.compute())
            .with_temperature(weights.temperature());
        Ok((Self { weights, dtype }, policy))
    }

    /// The weights in f32.
    pub(super) fn weights(&self) -> &Decoder {
        &self.weights
    }

    /// What they are rounded to.
    pub(super) fn dtype(&self) -> DType {
        self.dtype
    }

    /// Rounds the weights as they are now into `policy`, which [`MasterWeights::keep`] made.
    pub(super) fn round_into(&self, policy: &Decoder) -> Result<(), TrainError> {
        let set = |((_, master), (_, var)): (&(String, Var), &(String, Var))| {
            var.set(&round(master.as_detached_tensor(), self.dtype)?)
        };
        if policy.device().is_cpu() {
            self.weights.vars().par_iter().zip(policy.vars()).try_for_each(set)?;
        } else {
            self.weights.vars().iter().zip(policy.vars()).try_for_each(set)?;
        }
        Ok(())
    }
}

/// The values of a tensor as `dtype` has them, rounded to nearest even; in f32.
fn round(tensor: Tensor, dtype: DType) -> candle_core::Result<Tensor> {
    let narrow = match dtype {
        DType::F32 => CandleType::F32,
        DType::BF16 => CandleType::BF16,
        DType::F16 => CandleType::F16,
    };
    tensor.to_dtype(narrow)?.to_dtype(CandleType::F32)
}
