//! One update: from a batch of groups, or of supervised examples, to new weights.

use crate::batch::{BatchError, MicroBatch, PaddedBatch, Sequence, split_by_tokens};
use crate::buffer::StoredGroup;
use crate::checkpoint::Checkpoint;
use crate::config::TrainSection;
use crate::objective::{Objective, ObjectiveError, ObjectiveStats, Preset};
use crate::optimizer::{AdamW, AdamWConfig, OptimizerError, StepReport};
use crate::workload::{Workload, WorkloadError};
use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Var};
use echo_policy::config::ModelConfig;
use echo_policy::decoder::Decoder;
use echo_policy::error::DecoderError;
use echo_policy::logprob::{entropy, token_logprobs};
use echo_policy::weights::{Weights, expected_tensors};
use echo_protocol::order::Purpose;

/// Stack of a thread that goes backwards: candle recurses over the graph, so a deep model needs a deep stack.
pub const BACKWARD_STACK: usize = 64 << 20;

/// The policy being trained, with its optimizer and objective.
pub struct Trainer {
    decoder: Decoder,
    optimizer: AdamW,
    objective: Preset,
    micro_batch_tokens: usize,
}

/// Why an update cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The decoder.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// The batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The objective.
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
    /// The optimizer.
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
    /// Tensors.
    #[error("training: {0}")]
    Tensor(#[from] candle_core::Error),
    /// A prompt cannot be derived.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The system gave no thread.
    #[error("no thread for a part of the batch: {0}")]
    Thread(std::io::Error),
    /// A checkpoint of another model.
    #[error("the checkpoint lacks the parameter {0}: it belongs to another model")]
    Checkpoint(String),
}

/// What an update did.
#[derive(Clone, Debug)]
pub struct UpdateReport {
    /// The objective's loss over the batch.
    pub loss: f64,
    /// Importance weights, KL, entropy.
    pub stats: ObjectiveStats,
    /// Gradient norm, learning rate, and whether the step was taken.
    pub step: StepReport,
}

impl Trainer {
    /// A trainer that begins with `weights`.
    pub fn new(config: &ModelConfig, weights: &Weights, train: &TrainSection) -> Result<Self, TrainError> {
        let decoder = Decoder::trainable(config, weights, &Device::Cpu)?;
        Self::over(decoder, train)
    }

    /// A trainer that goes on from a checkpoint, bit for bit.
    pub fn resume(
        config: &ModelConfig,
        checkpoint: &Checkpoint,
        train: &TrainSection,
    ) -> Result<Self, TrainError> {
        let mut trainer = Self::over(decoder_of(config, checkpoint)?, train)?;
        trainer.optimizer.load_state(&checkpoint.optimizer)?;
        Ok(trainer)
    }

    fn over(decoder: Decoder, train: &TrainSection) -> Result<Self, TrainError> {
        let config = AdamWConfig {
            weight_decay: train.weight_decay,
            max_gradient_norm: train.max_grad_norm,
            ..AdamWConfig::default()
        };
        let optimizer = AdamW::new(decoder.vars().to_vec(), config, train.schedule)?;
        let (objective, micro_batch_tokens) = (train.objective, train.micro_batch_tokens);
        Ok(Self { decoder, optimizer, objective, micro_batch_tokens })
    }

    /// The policy.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The optimizer.
    pub fn optimizer(&self) -> &AdamW {
        &self.optimizer
    }

    /// One update of the objective on a batch of groups. The same batch and state give the same weights, bit for bit.
    pub fn update(
        &mut self,
        workload: &Workload,
        groups: &[StoredGroup],
    ) -> Result<UpdateReport, TrainError> {
        let preset = self.objective;
        let objective = preset.objective();
        let sequences = sequences(workload, groups, objective)?;
        // Groups stay whole: one that is wider than the budget gets its room. It must not end the run, which would only replay it.
        let longest = sequences.iter().map(Sequence::positions).max().unwrap_or(0);
        let budget = self.micro_batch_tokens.max(longest * workload.charter.group_size as usize);
        let parts = split_by_tokens(&sequences, budget, self.decoder.device())?;
        let (mut loss, mut stats) = (0.0, ObjectiveStats::default());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        // As many parts at once as there are cores. They are added up in their own order, so the cores change no bit of the result.
        for wave in parts.chunks(threads) {
            for result in self.differentiate(objective, wave) {
                let part = result?;
                loss += part.loss;
                stats.merge(&part.stats);
                self.optimizer.accumulate(&part.gradients)?;
            }
        }
        Ok(UpdateReport { loss, stats, step: self.optimizer.step()? })
    }

    /// Loss and gradients of each part, each on a thread of its own.
    fn differentiate(
        &self,
        objective: &dyn Objective,
        parts: &[MicroBatch],
    ) -> Vec<Result<PartReport, TrainError>> {
        let work = |part| differentiate(&self.decoder, objective, part);
        let [first, others @ ..] = parts else { return Vec::new() };
        std::thread::scope(|scope| {
            let spawn = |part| {
                std::thread::Builder::new().stack_size(BACKWARD_STACK).spawn_scoped(scope, move || work(part))
            };
            let running: Vec<_> = others.iter().map(spawn).collect();
            let mut results = vec![work(first)];
            results.extend(running.into_iter().map(|started| match started.map(|thread| thread.join()) {
                Ok(Ok(result)) => result,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(error) => Err(TrainError::Thread(error)),
            }));
            results
        })
    }

    /// One supervised update: mean negative log-likelihood of the response tokens. Returns the loss.
    pub fn imitate(&mut self, examples: &[Sequence]) -> Result<f64, TrainError> {
        let rows: Vec<&Sequence> = examples.iter().collect();
        let batch = PaddedBatch::new(&rows, self.decoder.device())?;
        let logits = self.decoder.logits(&self.decoder.forward(&batch.ids)?)?;
        let logp = token_logprobs(&logits, &batch.targets)?;
        let mask = batch.mask.to_dtype(logp.dtype())?;
        let loss = ((logp * mask)?.sum_all()?.neg()? / batch.response_tokens.max(1) as f64)?;
        self.optimizer.accumulate(&loss.backward()?)?;
        self.optimizer.step()?;
        Ok(f64::from(loss.to_scalar::<f32>()?))
    }
}

/// What one part of a batch contributes, scaled to its share.
struct PartReport {
    loss: f64,
    stats: ObjectiveStats,
    gradients: GradStore,
}

fn differentiate(
    decoder: &Decoder,
    objective: &dyn Objective,
    part: &MicroBatch,
) -> Result<PartReport, TrainError> {
    let logits = decoder.logits(&decoder.forward(&part.batch.ids)?)?;
    let logp = token_logprobs(&logits, &part.batch.targets)?;
    // Weights have not moved since the start of the step, so the proximal log-probs are these very ones.
    let proximal = objective.needs_proximal().then(|| logp.detach());
    let entropy = entropy(&logits.detach())?;
    let output = objective.loss(&part.batch.objective_input(logp, proximal, Some(entropy)))?;
    let scaled = (output.loss * part.share(objective.aggregation()))?;
    let loss = f64::from(scaled.to_dtype(DType::F32)?.to_scalar::<f32>()?);
    Ok(PartReport { loss, stats: output.stats, gradients: scaled.backward()? })
}

/// A checkpoint's weights in f32.
pub fn weights_of(config: &ModelConfig, checkpoint: &Checkpoint) -> Result<Weights, TrainError> {
    Ok(decoder_of(config, checkpoint)?.to_weights(echo_policy::weights::DType::F32)?)
}

fn decoder_of(config: &ModelConfig, checkpoint: &Checkpoint) -> Result<Decoder, TrainError> {
    let vars = expected_tensors(config).into_iter().map(|spec| {
        let tensor = checkpoint.weights.get(&spec.name);
        let tensor = tensor.ok_or_else(|| TrainError::Checkpoint(spec.name.clone()))?;
        Ok((spec.name, Var::from_tensor(tensor)?))
    });
    let vars = vars.collect::<Result<_, TrainError>>()?;
    Ok(Decoder::new(config, vars, &Device::Cpu)?)
}

/// A batch's responses in the order of its groups, with the advantages that the objective wants.
fn sequences(
    workload: &Workload,
    groups: &[StoredGroup],
    objective: &dyn Objective,
) -> Result<Vec<Sequence>, TrainError> {
    let trajectories =
        || groups.iter().enumerate().flat_map(|(at, g)| g.group.trajectories.iter().map(move |t| (at, t)));
    let rewards: Vec<f64> = trajectories().map(|(_, t)| f64::from(t.reward)).collect();
    let tags: Vec<usize> = trajectories().map(|(at, _)| at).collect();
    let advantages = objective.advantage_rule().advantages(&rewards, &tags)?;
    let prompts = groups.iter().map(|g| workload.prompt(&workload.order(Purpose::Train, g.group.counter.0)));
    let prompts = prompts.collect::<Result<Vec<_>, _>>()?;
    let rows = trajectories().zip(advantages).map(|((group, trajectory), advantage)| Sequence {
        prompt: prompts[group].clone(),
        response: trajectory.response.clone(),
        behaviour_logp: trajectory.logprobs.clone(),
        group,
        advantage,
    });
    Ok(rows.collect())
}

/// A supervised example: the prompt of a warm-up order and its task's own solution, ended.
pub fn example(workload: &Workload, counter: u64) -> Result<Sequence, TrainError> {
    let order = workload.order(Purpose::WarmUp, counter);
    let solution = workload.assignment(&order).solution();
    let mut response = workload.tokenizer.encode(&solution).map_err(WorkloadError::from)?;
    response.push(workload.end());
    let behaviour_logp = vec![0.0; response.len()];
    Ok(Sequence { prompt: workload.prompt(&order)?, response, behaviour_logp, group: 0, advantage: 0.0 })
}

#[cfg(test)]
mod tests;
