//! The optimizer's state as named tensors, for checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use candle_core::{Device, Tensor};

use super::norms::{NORMS_NAME, Norms};
use super::slot;
use super::{AdamW, OptimizerError};

/// Name of the update counter in an exported state.
pub const STEP_NAME: &str = "optimizer.step";
/// Prefix of the first moments in an exported state; the parameter's name follows.
pub const FIRST_MOMENT_PREFIX: &str = "optimizer.m.";
/// Prefix of the second moments in an exported state; the parameter's name follows.
pub const SECOND_MOMENT_PREFIX: &str = "optimizer.v.";
impl AdamW {
    /// The state as named tensors for a checkpoint, bit-exact: `optimizer.m.NAME` and
    /// `optimizer.v.NAME` in f32 with the parameter's shape, `optimizer.step`, i64 of shape
    /// `[1]`, and with a guard that compares norms `optimizer.norms`, f64. All on the CPU.
    /// Weights are not included.
    ///
    /// # Errors
    /// [`OptimizerError::Tensor`] when a device cannot be read.
    pub fn state(&self) -> Result<BTreeMap<String, Tensor>, OptimizerError> {
        let mut state = BTreeMap::new();
        let updates = i64::try_from(self.updates).unwrap_or(i64::MAX);
        state.insert(STEP_NAME.to_owned(), Tensor::new(&[updates], &Device::Cpu)?);
        for slot in &self.slots {
            let (name, _) = slot.named_var();
            let (first, second) = slot.moments()?;
            state.insert(format!("{FIRST_MOMENT_PREFIX}{name}"), first);
            state.insert(format!("{SECOND_MOMENT_PREFIX}{name}"), second);
        }
        if let Some(norms) = self.norms.to_tensor()? {
            state.insert(NORMS_NAME.to_owned(), norms);
        }
        Ok(state)
    }

    /// Takes over an exported state.
    ///
    /// # Errors
    /// [`OptimizerError::State`] when a tensor is missing, unexpected, of another shape or dtype,
    /// or holds values no optimizer produces. Nothing is changed then.
    pub fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<(), OptimizerError> {
        let norms = state.get(NORMS_NAME).map(Norms::from_tensor).transpose()?;
        let expected = 1 + 2 * self.slots.len() + usize::from(norms.is_some());
        let step = slot::named(state, STEP_NAME)?;
        let updates = match step.to_vec1::<i64>().as_deref() {
            Ok(&[updates]) => u64::try_from(updates).ok(),
            _ => None,
        };
        let updates = updates.ok_or_else(|| OptimizerError::State {
            name: STEP_NAME.to_owned(),
            problem: "is not one non-negative i64",
        })?;
        let moments =
            self.slots.iter().map(|slot| slot.checked_moments(state)).collect::<Result<Vec<_>, _>>()?;
        if state.len() != expected {
            let known: BTreeSet<String> = self.state_names().collect();
            let name = state.keys().find(|name| !known.contains(*name)).cloned().unwrap_or_default();
            return Err(OptimizerError::State { name, problem: "belongs to no parameter of this model" });
        }
        for (slot, moments) in self.slots.iter_mut().zip(moments) {
            slot.set_moments(moments)?;
        }
        self.updates = updates;
        self.norms = norms.unwrap_or_default();
        Ok(())
    }

    fn state_names(&self) -> impl Iterator<Item = String> + '_ {
        let moments = self.slots.iter().flat_map(|slot| {
            let (name, _) = slot.named_var();
            [format!("{FIRST_MOMENT_PREFIX}{name}"), format!("{SECOND_MOMENT_PREFIX}{name}")]
        });
        [STEP_NAME, NORMS_NAME].map(str::to_owned).into_iter().chain(moments)
    }
}
