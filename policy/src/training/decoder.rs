//! The training pass: a decoder whose parameters are candle variables.
//!
//! A pass has two halves, so that any loss can be worked out on the host between them:
//! [`Decoder::score_for_training`] gives log-probs and entropies of a pack, and
//! [`ScoredPack::backward`] takes the loss's derivatives with respect to those and adds to the
//! [`Gradients`] of the parameters.
//!
//! The decoder is described once, in `places`, and implemented twice. `cpu` has kernels and a
//! backward written by hand, which reuse their buffers and add gradients in place. `autograd`, for
//! every other device and for bf16 ([`Compute`]), is composed of candle's differentiable
//! operations, a layer at a time. Tests hold one to the other, and both to finite differences.

mod autograd;
mod batch;
mod compute;
mod cpu;
mod error;
mod gradients;
mod parameter_map;
mod scored;

pub use compute::Compute;
pub use error::DecoderError;
pub use gradients::{Gradient, Gradients};
pub use scored::{Activations, ScoredPack, Scores};

use std::path::Path;

use candle_core::{DType as CandleType, Device, Var};

use crate::model::config::ModelConfig;
use crate::model::weights::{DType, ImageWriter, RawTensor, Weights, WeightsError, expected_tensors};
use crate::training::packed::{Packed, Target};
use batch::Batch;
use parameter_map::Places;

/// Most logits that [`Decoder::logits`] gives at once.
pub const MAX_LOGITS: usize = 1 << 28;

/// A decoder with trainable f32 parameters.
pub struct Decoder {
    config: ModelConfig,
    device: Device,
    vars: Vec<(String, Var)>,
    places: Places,
    compute: Compute,
    /// What logits are divided by before they are scored.
    temperature: f32,
    engine: Engine,
    /// Buffers of the last pass on the CPU, for the next one.
    workspace: cpu::WorkspaceSlot,
}

/// Which implementation a decoder runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Cpu,
    Autograd,
}

impl Engine {
    fn of(device: &Device, compute: Compute) -> Self {
        match (device, compute) {
            (Device::Cpu, Compute::F32) => Self::Cpu,
            _ => Self::Autograd,
        }
    }
}

/// What a pass holds between its halves.
enum Kept<'a> {
    Cpu(cpu::KeptWorkspace<'a>),
    Autograd(autograd::KeptTensors),
}

impl Decoder {
    /// Makes variables of `weights` (converted to f32) on `device`.
    ///
    /// # Errors
    /// When the weights are not those of `config`, or the device cannot hold them.
    pub fn trainable(config: &ModelConfig, weights: &Weights, device: &Device) -> Result<Self, DecoderError> {
        let vars = weights
            .iter()
            .map(|tensor| Ok((tensor.name().to_owned(), Var::from_tensor(&tensor.to_tensor(device)?)?)))
            .collect::<Result<_, DecoderError>>()?;
        Self::new(config, vars, device)
    }

    /// Builds the decoder over variables that exist already; they must be f32 and in
    /// the order of [`expected_tensors`].
    ///
    /// # Errors
    /// When a variable is missing or has another name, place, shape or element type.
    pub fn new(
        config: &ModelConfig,
        vars: Vec<(String, Var)>,
        device: &Device,
    ) -> Result<Self, DecoderError> {
        let expected = expected_tensors(config);
        for (index, spec) in expected.iter().enumerate() {
            let Some((name, var)) = vars.get(index) else {
                return Err(WeightsError::Missing { name: spec.name.clone() }.into());
            };
            if *name != spec.name {
                return Err(WeightsError::Unexpected { name: name.clone() }.into());
            }
            if var.dims() != spec.shape {
                let (name, expected) = (name.clone(), spec.shape.clone());
                return Err(WeightsError::Shape { name, found: var.dims().to_vec(), expected }.into());
            }
            if var.dtype() != CandleType::F32 {
                let dtype = format!("{:?}", var.dtype());
                return Err(WeightsError::Dtype { name: name.clone(), dtype }.into());
            }
        }
        if let Some((name, _)) = vars.get(expected.len()) {
            return Err(WeightsError::Unexpected { name: name.clone() }.into());
        }
        let places = Places::new(config, &expected)?;
        let (compute, engine) = (Compute::F32, Engine::of(device, Compute::F32));
        let (config, device) = (config.clone(), device.clone());
        let workspace = cpu::WorkspaceSlot::default();
        Ok(Self { config, device, vars, places, compute, temperature: 1.0, engine, workspace })
    }

    /// The same decoder with its matrix products in another precision. It begins with f32; bf16 on
    /// a CPU is for comparisons, as it is slower there.
    #[must_use]
    pub fn with_compute(self, compute: Compute) -> Self {
        let engine = Engine::of(&self.device, compute);
        Self { compute, engine, ..self }
    }

    /// The same decoder composed of candle's operations where it has kernels of our own, and
    /// slower: what these, and the backends of the generation engine, are held against.
    #[must_use]
    pub fn composed(self) -> Self {
        Self { engine: Engine::Autograd, ..self }
    }

    /// The same decoder scoring at a softmax temperature above 0, which is the one that its
    /// samples were drawn at: log π is that of the distribution softmax(logits / temperature).
    /// It begins with 1.
    #[must_use]
    pub fn with_temperature(self, temperature: f32) -> Self {
        Self { temperature, ..self }
    }

    /// Shape of the model that the parameters fit.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The precision of matrix products.
    pub fn compute(&self) -> Compute {
        self.compute
    }

    /// The softmax temperature of scores.
    pub fn temperature(&self) -> f32 {
        self.temperature
    }

    /// Where the parameters are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The parameters by Hugging Face name, in the order of [`expected_tensors`].
    pub fn vars(&self) -> &[(String, Var)] {
        &self.vars
    }

    /// A decoder on the CPU with a copy of the parameters, which further training does not change.
    ///
    /// # Errors
    /// When the device fails to give them.
    pub fn copy_to_host(&self) -> Result<Self, DecoderError> {
        let copied = |(name, var): &(String, Var)| {
            // Moving a tensor to the device on which it is would share its storage.
            Ok((name.clone(), Var::from_tensor(&var.as_detached_tensor().to_device(&Device::Cpu)?)?))
        };
        Self::new(
            &self.config,
            self.vars.iter().map(copied).collect::<Result<_, DecoderError>>()?,
            &Device::Cpu,
        )
    }

    /// Copies the parameters out, rounded to `dtype`.
    ///
    /// # Errors
    /// When the device fails to give them back.
    pub fn to_weights(&self, dtype: DType) -> Result<Weights, DecoderError> {
        let raw: Vec<RawTensor> = self.tensors(dtype).collect::<Result<_, _>>()?;
        Ok(Weights::from_raw(&self.config, raw)?)
    }

    /// The weights of [`Decoder::to_weights`] as an image on the disk of `dir`: memory holds one
    /// tensor at a time.
    ///
    /// # Errors
    /// When the device fails to give the parameters back, or the disk is full.
    pub fn to_image(&self, dtype: DType, dir: &Path) -> Result<Weights, DecoderError> {
        let mut image = ImageWriter::create(dir, &self.config, dtype)?;
        for tensor in self.tensors(dtype) {
            let tensor = tensor?;
            image.write(&tensor.name, &tensor.bytes)?;
        }
        Ok(image.finish()?)
    }

    /// Copies the parameters out one at a time, rounded to `dtype`, in the order of [`expected_tensors`].
    pub fn tensors(&self, dtype: DType) -> impl Iterator<Item = Result<RawTensor, DecoderError>> {
        self.vars.iter().map(move |(name, var)| {
            let values = var.flatten_all()?.to_vec1::<f32>()?;
            Ok(RawTensor::from_f32(name, var.dims(), &values, dtype))
        })
    }

    /// Scores `targets`: tokens that follow rows of the pack. Only the rows asked for pass the
    /// head, and nothing is kept.
    ///
    /// # Errors
    /// When a sequence is longer than the model's positions, an id or target is outside of the
    /// vocabulary, the targets' rows do not ascend, or the device runs out of memory.
    pub fn score(&self, packed: &Packed, targets: &[Target]) -> Result<Scores, DecoderError> {
        let batch = self.batch(packed, targets)?;
        Ok(match self.engine {
            Engine::Cpu => cpu::score(self, &batch, targets)?,
            Engine::Autograd => autograd::score(self, &batch, targets)?,
        })
    }

    /// Scores as [`Decoder::score`] does, bit for bit, and keeps what the way back needs.
    ///
    /// # Errors
    /// Those that [`Decoder::score`] fails with.
    pub fn score_for_training(
        &self,
        packed: &Packed,
        targets: &[Target],
        activations: Activations,
    ) -> Result<ScoredPack<'_>, DecoderError> {
        let batch = self.batch(packed, targets)?;
        let (scores, kept) = match self.engine {
            Engine::Cpu => {
                let (scores, kept) = cpu::score_for_training(self, &batch, targets, activations)?;
                (scores, Kept::Cpu(kept))
            }
            Engine::Autograd => {
                let (scores, kept) = autograd::score_for_training(self, &batch, targets, activations)?;
                (scores, Kept::Autograd(kept))
            }
        };
        Ok(ScoredPack { decoder: self, batch, targets: targets.to_vec(), scores, kept })
    }

    /// Logits of some rows of the pack, `[rows, vocabulary]`: for comparisons with other
    /// implementations. A loss should be made of [`Decoder::score`], which never holds the
    /// logits of many rows.
    ///
    /// # Errors
    /// As [`Decoder::score`], or when more than [`MAX_LOGITS`] are asked for.
    pub fn logits(&self, packed: &Packed, rows: &[usize]) -> Result<Vec<f32>, DecoderError> {
        let found = rows.len().saturating_mul(self.config.vocab_size);
        if found > MAX_LOGITS {
            return Err(DecoderError::TooManyLogits { found, limit: MAX_LOGITS });
        }
        let targets: Vec<Target> = rows.iter().map(|row| Target { row: *row, token: 0 }).collect();
        let batch = self.batch(packed, &targets)?;
        match self.engine {
            Engine::Cpu => cpu::logits(self, &batch, rows),
            Engine::Autograd => autograd::logits(self, &batch, rows),
        }
    }

    fn batch(&self, packed: &Packed, targets: &[Target]) -> Result<Batch, DecoderError> {
        let batch = Batch::new(&self.config, packed)?;
        batch.check_targets(&self.config, targets)?;
        Ok(batch)
    }
}

#[cfg(test)]
pub(crate) mod tests;
