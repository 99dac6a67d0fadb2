//! One parameter with its moments and its accumulated gradient.

use std::cell::RefCell;
use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Storage, Tensor, Var};

use super::fused::{Coefficients, FusedUpdate, HostState, square_sum};
use super::{FIRST_MOMENT_PREFIX, OptimizerError, SECOND_MOMENT_PREFIX, decays};

#[derive(Debug)]
pub(super) struct Slot {
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
    Tensors { first: Tensor, second: Tensor, gradient: Tensor },
}

impl Slot {
    pub(super) fn new(name: String, var: Var, fused: bool) -> Result<Self, OptimizerError> {
        if var.dtype() != DType::F32 || !var.is_contiguous() {
            return Err(OptimizerError::NotMaster { name });
        }
        let state = if fused {
            let zeros = || vec![0f32; var.elem_count()];
            State::Fused(HostState { first: zeros(), second: zeros(), gradient: zeros() })
        } else {
            State::Tensors {
                first: var.zeros_like()?,
                second: var.zeros_like()?,
                gradient: var.zeros_like()?,
            }
        };
        Ok(Self { decays: decays(&name, var.rank()), name, var, state })
    }

    pub(super) fn named_var(&self) -> (&str, &Var) {
        (&self.name, &self.var)
    }

    /// This parameter's gradient, contiguous and in f32.
    pub(super) fn gradient(&self, gradients: &GradStore) -> Result<Tensor, OptimizerError> {
        let gradient = gradients
            .get(&self.var)
            .ok_or_else(|| OptimizerError::MissingGradient { name: self.name.clone() })?;
        if gradient.dims() != self.var.dims() {
            return Err(OptimizerError::GradientShape {
                name: self.name.clone(),
                found: gradient.dims().to_vec(),
                expected: self.var.dims().to_vec(),
            });
        }
        Ok(gradient.detach().to_dtype(DType::F32)?.contiguous()?)
    }

    /// Adds a gradient from [`Slot::gradient`], or replaces what is there.
    pub(super) fn accumulate(&mut self, new: &Tensor, add: bool) -> Result<(), OptimizerError> {
        match &mut self.state {
            State::Fused(host) => with_slice(new, |new| {
                if add {
                    host.gradient.iter_mut().zip(new).for_each(|(sum, &g)| *sum += g);
                } else {
                    host.gradient.copy_from_slice(new);
                }
            })?,
            State::Tensors { gradient, .. } => {
                *gradient = if add { (&*gradient + new)? } else { new.clone() };
            }
        }
        Ok(())
    }

    pub(super) fn gradient_square_sum(&self) -> Result<f64, OptimizerError> {
        match &self.state {
            State::Fused(host) => Ok(square_sum(&host.gradient)),
            State::Tensors { gradient, .. } => {
                Ok(gradient.to_dtype(DType::F64)?.sqr()?.sum_all()?.to_scalar::<f64>()?)
            }
        }
    }

    pub(super) fn update(&mut self, c: &Coefficients) -> Result<(), OptimizerError> {
        let decays = self.decays;
        match &mut self.state {
            State::Fused(host) => {
                let update = FusedUpdate { state: RefCell::new(host), coefficients: *c, decays };
                self.var.inplace_op1(&update)?;
            }
            State::Tensors { first, second, gradient } => {
                let g = (&*gradient * c.gradient_scale)?;
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
            State::Tensors { first, second, .. } => {
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

    /// Takes over moments from [`Slot::checked_moments`].
    pub(super) fn set_moments(&mut self, (m, v): (&Tensor, &Tensor)) -> Result<(), OptimizerError> {
        match &mut self.state {
            State::Fused(host) => {
                host.first = m.flatten_all()?.to_vec1()?;
                host.second = v.flatten_all()?.to_vec1()?;
            }
            State::Tensors { first, second, .. } => {
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

/// Runs `use_it` on the values of a contiguous f32 CPU tensor without copying them.
fn with_slice(tensor: &Tensor, use_it: impl FnOnce(&[f32])) -> Result<(), OptimizerError> {
    let (storage, layout) = tensor.storage_and_layout();
    let (Storage::Cpu(storage), Some((start, end))) = (&*storage, layout.contiguous_offsets()) else {
        return Err(candle_core::Error::Msg("gradient is not a contiguous CPU tensor".to_owned()).into());
    };
    use_it(&storage.as_slice::<f32>()?[start..end]);
    Ok(())
}
