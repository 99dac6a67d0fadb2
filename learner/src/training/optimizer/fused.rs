//! The update itself, on contiguous f32 slices in one pass without temporaries.

use std::cell::RefCell;

use candle_core::{CpuStorage, CudaStorage, InplaceOp1, Layout, MetalStorage};

use rayon::prelude::*;

use super::AdamWConfig;

/// Elements that one parallel task works on.
const TASK_ELEMENTS: usize = 1 << 16;

/// The scalars of one update, worked out in f64 and rounded once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coefficients {
    /// s, the clip of the global norm.
    pub(super) gradient_scale: f64,
    pub(super) beta1: f64,
    pub(super) beta2: f64,
    /// η / (1-β₁ᵗ): the rate, with the first moment's bias corrected.
    pub(super) step_size: f64,
    /// 1 / √(1-β₂ᵗ): corrects the bias of the second moment's root.
    pub(super) root_correction: f64,
    pub(super) epsilon: f64,
    /// 1 - ηλ, for parameters that decay.
    pub(super) keep: f64,
}

impl Coefficients {
    /// For the `update`-th update, counted from one.
    pub(super) fn new(config: &AdamWConfig, learning_rate: f64, gradient_scale: f64, update: u64) -> Self {
        let exponent = update as f64;
        Self {
            gradient_scale,
            beta1: config.beta1,
            beta2: config.beta2,
            step_size: learning_rate / (1.0 - config.beta1.powf(exponent)),
            root_correction: 1.0 / (1.0 - config.beta2.powf(exponent)).sqrt(),
            epsilon: config.epsilon,
            keep: 1.0 - learning_rate * config.weight_decay,
        }
    }
}

/// Moments of one parameter, row-major.
#[derive(Debug)]
pub(super) struct HostState {
    pub(super) first: Vec<f32>,
    pub(super) second: Vec<f32>,
}

/// The update as an in-place operation on a variable's storage.
pub(super) struct FusedUpdate<'a> {
    // candle hands operations out by shared reference; the call below is the only user.
    pub(super) state: RefCell<&'a mut HostState>,
    pub(super) gradient: &'a [f32],
    pub(super) coefficients: Coefficients,
    pub(super) decays: bool,
}

impl InplaceOp1 for FusedUpdate<'_> {
    fn name(&self) -> &'static str {
        "fused-adamw"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let (CpuStorage::F32(weights), Some((start, end))) = (storage, layout.contiguous_offsets()) else {
            candle_core::bail!("fused-adamw needs a contiguous f32 variable")
        };
        let (coefficients, decays) = (&self.coefficients, self.decays);
        let mut state = self.state.borrow_mut();
        let HostState { first, second } = &mut **state;
        let moments = first.par_chunks_mut(TASK_ELEMENTS).zip(second.par_chunks_mut(TASK_ELEMENTS));
        weights[start..end]
            .par_chunks_mut(TASK_ELEMENTS)
            .zip(self.gradient.par_chunks(TASK_ELEMENTS))
            .zip(moments)
            .for_each(|((w, g), (m, v))| update(w, g, m, v, coefficients, decays));
        Ok(())
    }

    fn cuda_fwd(&self, _: &mut CudaStorage, _: &Layout) -> candle_core::Result<()> {
        candle_core::bail!("fused-adamw runs on the CPU only")
    }

    fn metal_fwd(&self, _: &mut MetalStorage, _: &Layout) -> candle_core::Result<()> {
        candle_core::bail!("fused-adamw runs on the CPU only")
    }
}

fn update(
    weights: &mut [f32],
    gradients: &[f32],
    first: &mut [f32],
    second: &mut [f32],
    c: &Coefficients,
    decays: bool,
) {
    let gradient_scale = c.gradient_scale as f32;
    let (beta1, rest1) = (c.beta1 as f32, (1.0 - c.beta1) as f32);
    let (beta2, rest2) = (c.beta2 as f32, (1.0 - c.beta2) as f32);
    let (step_size, root_correction) = (c.step_size as f32, c.root_correction as f32);
    let epsilon = c.epsilon as f32;
    let keep = if decays { c.keep as f32 } else { 1.0 };
    let moments = first.iter_mut().zip(second);
    for ((weight, &gradient), (first, second)) in weights.iter_mut().zip(gradients).zip(moments) {
        let g = gradient * gradient_scale;
        *first = beta1 * *first + rest1 * g;
        *second = beta2 * *second + rest2 * g * g;
        *weight = keep * *weight - step_size * *first / (second.sqrt() * root_correction + epsilon);
    }
}
