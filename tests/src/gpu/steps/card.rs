//! How fast a device copies and multiplies: the ceilings of everything else.

use crate::harness::statistics::median;
use candle_core::{DType, Device, Tensor};
use echo_learner::training::device::TrainDevice;
use echo_policy::training::decoder::Compute;
use serde::Serialize;
use std::time::Instant;

/// Copies and products that are timed, after one of each that is not; the median counts.
const TIMES: usize = 20;

/// What a device can do at most.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CardCeilings {
    /// Copying within its memory, bytes read and written, in GB/s.
    pub(super) copy_gb_s: f64,
    /// Products of matrices, bf16 on a card and f32 on the processor, in TFLOP/s.
    pub(super) product_tflop_s: f64,
}

/// The device that the learner would train on: the first card, or in a rehearsal the processor.
pub(super) fn learner_device(rehearse: bool) -> anyhow::Result<Device> {
    Ok(match rehearse {
        true => TrainDevice::Cpu.open(Compute::F32)?,
        false => TrainDevice::Cuda(0).open(Compute::Bf16)?,
    })
}

/// Measures with random numbers: products of zeros are faster.
pub(super) fn ceilings(device: &Device) -> candle_core::Result<CardCeilings> {
    let cpu = device.is_cpu();
    let (bytes, side) = if cpu { (1usize << 26, 512usize) } else { (1 << 30, 8192) };
    let from = Tensor::zeros(bytes / 4, DType::F32, device)?;
    let copy = seconds(device, || from.copy().map(drop))?;
    drop(from);
    let dtype = if cpu { DType::F32 } else { DType::BF16 };
    let operand = || Tensor::randn(0f32, 1.0, (side, side), device)?.to_dtype(dtype);
    let (a, b) = (operand()?, operand()?);
    let product = seconds(device, || a.matmul(&b).map(drop))?;
    Ok(CardCeilings {
        copy_gb_s: 2.0 * bytes as f64 / copy / 1e9,
        product_tflop_s: 2.0 * (side as f64).powi(3) / product / 1e12,
    })
}

/// The median time of `work`, which is asynchronous on a card.
fn seconds(device: &Device, work: impl Fn() -> candle_core::Result<()>) -> candle_core::Result<f64> {
    let mut taken = Vec::new();
    for _ in 0..=TIMES {
        device.synchronize()?;
        let since = Instant::now();
        work()?;
        device.synchronize()?;
        taken.push(since.elapsed().as_secs_f64());
    }
    Ok(median(taken.into_iter().skip(1)))
}
