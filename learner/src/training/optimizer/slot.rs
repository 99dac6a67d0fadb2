//! One parameter with its moments.

use std::cell::RefCell;
use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use echo_policy::training::decoder::Gradient;

use super::fused::{Coefficients, FusedUpdate, HostState};
use super::{FIRST_MOMENT_PREFIX, OptimizerError, SECOND_MOMENT_PREFIX, decays};

#[derive(Debug)]
pub(super) struct ParameterSlot {
    name: String,
    var: Var,
    decays: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Updated in place by one pass over slices.
    Fused(HostState),
    /// Updated by tensor operations on the variable's device.
    Tensors { first: Tensor, second: Tensor },
}

impl ParameterSlot {
    pub(super) fn new(name: String, var: Var, fused: bool) -> Result<Self, OptimizerError> {
        if var.dtype() != DType::F32 || !var.is_contiguous() {
            return Err(OptimizerError::NotMaster { name });
        }
        let state = if fused {
            let zeros = || vec![0f32; var.elem_count()];
            State::Fused(HostState { first: zeros(), second: zeros() })
        } else {
            State::Tensors { first: var.zeros_like()?, second: var.zeros_like()? }
        };
        Ok(Self { decays: decays(&name, var.rank()), name, var, state })
    }

    pub(super) fn named_var(&self) -> (&str, &Var) {
        (&self.name, &self.var)
    }

    /// Whether a gradient fits this parameter.
    pub(super) fn check(&self, gradient: &Gradient) -> Result<(), OptimizerError> {
        let fits = match gradient {
            Gradient::Host(values) => values.len() == self.var.elem_count(),
            // The kernel over slices cannot reach another device.
            Gradient::Device(tensor) => {
                tensor.dims() == self.var.dims() && matches!(self.state, State::Tensors { .. })
            }
        };
        if fits { Ok(()) } else { Err(OptimizerError::Gradient { name: self.name.clone() }) }
    }

    pub(super) fn update(&mut self, gradient: &Gradient, c: &Coefficients) -> Result<(), OptimizerError> {
        let decays = self.decays;
        match (&mut self.state, gradient) {
            (State::Fused(host), Gradient::Host(gradient)) => {
                let update = FusedUpdate { state: RefCell::new(host), gradient, coefficients: *c, decays };
                self.var.inplace_op1(&update)?;
            }
            (State::Fused(_), Gradient::Device(_)) => {
                return Err(OptimizerError::Gradient { name: self.name.clone() });
            }
            (State::Tensors { first, second }, gradient) => {
                let gradient = match gradient {
                    Gradient::Device(tensor) => tensor.clone(),
                    Gradient::Host(values) => {
                        Tensor::from_slice(values, self.var.shape(), self.var.device())?
                    }
                };
                let g = (gradient * c.gradient_scale)?;
                *first = ((&*first * c.beta1)? + (&g * (1.0 - c.beta1))?)?;
                *second = ((&*second * c.beta2)? + (g.sqr()? * (1.0 - c.beta2))?)?;
                let denominator = ((second.sqrt()? * c.root_correction)? + c.epsilon)?;
                let step = ((&*first / denominator)? * c.step_size)?;
                let keep = if decays { c.keep } else { 1.0 };
                self.var.set(&((self.var.as_detached_tensor() * keep)? - step)?)?;
            }
        }
        Ok(())
    }

    /// First and second moment on the CPU, in the parameter's shape.
    pub(super) fn moments(&self) -> Result<(Tensor, Tensor), OptimizerError> {
        Ok(match &self.state {
            State::Fused(host) => (
                Tensor::from_slice(&host.first, self.var.shape(), &Device::Cpu)?,
                Tensor::from_slice(&host.second, self.var.shape(), &Device::Cpu)?,
            ),
            State::Tensors { first, second } => {
                (first.to_device(&Device::Cpu)?, second.to_device(&Device::Cpu)?)
            }
        })
    }

    /// This parameter's moments out of an exported state, if they are ones.
    pub(super) fn checked_moments<'a>(
        &self,
        state: &'a BTreeMap<String, Tensor>,
    ) -> Result<(&'a Tensor, &'a Tensor), OptimizerError> {
        let moment = |prefix: &str, usable: fn(f32) -> bool, problem| {
            let name = format!("{prefix}{}", self.name);
            let tensor = named(state, &name)?;
            if tensor.dims() != self.var.dims() || tensor.dtype() != DType::F32 {
                return Err(OptimizerError::State { name, problem: "has another shape or dtype" });
            }
            if !tensor.flatten_all()?.to_vec1::<f32>()?.into_iter().all(usable) {
                return Err(OptimizerError::State { name, problem });
            }
            Ok(tensor)
        };
        Ok((
            moment(FIRST_MOMENT_PREFIX, f32::is_finite, "holds values that are not finite")?,
            moment(
                SECOND_MOMENT_PREFIX,
                |v| v.is_finite() && v >= 0.0,
                "holds values that are negative or not finite",
            )?,
        ))
    }

    /// Takes over moments from [`ParameterSlot::checked_moments`].
    pub(super) fn set_moments(&mut self, (m, v): (&Tensor, &Tensor)) -> Result<(), OptimizerError> {
        match &mut self.state {
            State::Fused(host) => {
                host.first = m.flatten_all()?.to_vec1()?;
                host.second = v.flatten_all()?.to_vec1()?;
            }
            State::Tensors { first, second } => {
                *first = m.to_device(self.var.device())?;
                *second = v.to_device(self.var.device())?;
            }
        }
        Ok(())
    }
}

/// The tensor of this name, or an error that names it.
pub(super) fn named<'a>(
    state: &'a BTreeMap<String, Tensor>,
    name: &str,
) -> Result<&'a Tensor, OptimizerError> {
    state.get(name).ok_or_else(|| OptimizerError::State { name: name.to_owned(), problem: "is missing" })
}
