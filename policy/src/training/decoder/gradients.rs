//! Gradients of a decoder's parameters, added up over any number of passes.

use candle_core::{D, DType, Tensor};
use rayon::prelude::*;

use super::{Decoder, DecoderError};

/// Elements that one parallel task sums up.
const TASK_ELEMENTS: usize = 1 << 16;

/// One gradient per parameter, in the order of [`Decoder::vars`].
pub struct Gradients {
    buffers: Vec<Gradient>,
}

/// The gradient of one parameter, f32: where the parameter is.
#[derive(Debug, Clone)]
pub enum Gradient {
    /// On the CPU, row-major.
    Host(Vec<f32>),
    /// On another device, in the parameter's shape.
    Device(Tensor),
}

impl Gradient {
    /// Σ g², in f64. On the CPU the same bits whatever the number of threads.
    ///
    /// # Errors
    /// When the device fails.
    pub fn square_sum(&self) -> Result<f64, DecoderError> {
        match self {
            // The sums of fixed blocks are added in their order.
            Self::Host(values) => {
                let blocks: Vec<f64> = values.par_chunks(TASK_ELEMENTS).map(block_square_sum).collect();
                Ok(blocks.iter().sum())
            }
            // Rows first: one sum over everything runs on a corner of a GPU.
            Self::Device(tensor) => {
                Ok(tensor.to_dtype(DType::F64)?.sqr()?.sum(D::Minus1)?.sum_all()?.to_scalar::<f64>()?)
            }
        }
    }
}

/// Eight independent sums let the loop run in vector registers; their order is fixed.
fn block_square_sum(values: &[f32]) -> f64 {
    let mut sums = [0f64; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (sum, &x) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(x) * f64::from(x);
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>()
}

impl Gradients {
    /// Zeros for every parameter of `decoder`.
    ///
    /// # Errors
    /// When the device runs out of memory.
    pub fn zeros(decoder: &Decoder) -> Result<Self, DecoderError> {
        let zeros = |tensor: &Tensor| {
            Ok(if tensor.device().is_cpu() {
                Gradient::Host(vec![0.0; tensor.elem_count()])
            } else {
                Gradient::Device(tensor.zeros_like()?)
            })
        };
        let buffers =
            decoder.vars().iter().map(|(_, var)| zeros(var)).collect::<Result<_, DecoderError>>()?;
        Ok(Self { buffers })
    }

    /// The gradients, in the order of [`Decoder::vars`].
    #[must_use]
    pub fn buffers(&self) -> &[Gradient] {
        &self.buffers
    }

    /// Forgets what was added up.
    ///
    /// # Errors
    /// When a device fails.
    pub fn zero(&mut self) -> Result<(), DecoderError> {
        for buffer in &mut self.buffers {
            match buffer {
                Gradient::Host(values) => values.fill(0.0),
                Gradient::Device(tensor) => *tensor = tensor.zeros_like()?,
            }
        }
        Ok(())
    }

    /// Multiplies every gradient by `factor`.
    ///
    /// # Errors
    /// When a device fails.
    pub fn scale(&mut self, factor: f32) -> Result<(), DecoderError> {
        for buffer in &mut self.buffers {
            match buffer {
                Gradient::Host(values) => values.iter_mut().for_each(|value| *value *= factor),
                Gradient::Device(tensor) => *tensor = (&*tensor * f64::from(factor))?,
            }
        }
        Ok(())
    }

    /// Whether there is a buffer of the right size for each parameter.
    pub(super) fn check(&self, decoder: &Decoder) -> Result<(), DecoderError> {
        let fits = |(buffer, (_, var)): (&Gradient, &(String, candle_core::Var))| match buffer {
            Gradient::Host(values) => var.device().is_cpu() && values.len() == var.elem_count(),
            Gradient::Device(tensor) => {
                tensor.device().same_device(var.device()) && tensor.dims() == var.dims()
            }
        };
        let matching =
            self.buffers.len() == decoder.vars().len() && self.buffers.iter().zip(decoder.vars()).all(fits);
        if matching { Ok(()) } else { Err(DecoderError::ForeignGradients) }
    }

    /// All buffers as slices, when all are on the CPU.
    pub(super) fn host(&mut self) -> Result<Vec<&mut [f32]>, DecoderError> {
        let slices = self.buffers.iter_mut().map(|buffer| match buffer {
            Gradient::Host(values) => Ok(values.as_mut_slice()),
            Gradient::Device(_) => Err(DecoderError::ForeignGradients),
        });
        slices.collect()
    }

    /// Adds what candle found for one parameter.
    pub(super) fn add(&mut self, index: usize, found: &Tensor) -> Result<(), DecoderError> {
        match self.buffers.get_mut(index) {
            Some(Gradient::Host(values)) => {
                let found = found.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
                values.iter_mut().zip(&found).for_each(|(sum, value)| *sum += value);
            }
            Some(Gradient::Device(sum)) => *sum = (&*sum + found.detach().to_dtype(DType::F32)?)?,
            None => return Err(DecoderError::ForeignGradients),
        }
        Ok(())
    }
}
