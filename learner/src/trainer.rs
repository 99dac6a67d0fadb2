//! One update: from a batch of groups, or of supervised examples, to new weights.

use crate::batch::{BatchError, PaddedBatch, Sequence, micro_batches};
use crate::buffer::StoredGroup;
use crate::checkpoint::Checkpoint;
use crate::config::TrainSection;
use crate::objective::{Known, Objective, ObjectiveError, ObjectiveStats, Outcome, Plan, Scored, step_ends};
use crate::optimizer::{AdamW, AdamWConfig, OptimizerError, StepReport};
use crate::workload::{Workload, WorkloadError};
use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor, Var};
use echo_policy::config::ModelConfig;
use echo_policy::decoder::Decoder;
use echo_policy::error::DecoderError;
use echo_policy::logprob::{entropy, token_logprobs};
use echo_policy::weights::{Weights, expected_tensors};
use echo_protocol::order::Purpose;
use echo_protocol::trajectory::Trajectory;

/// Stack of a thread that goes backwards: candle recurses over the graph, so a deep model needs a deep stack.
pub const BACKWARD_STACK: usize = 64 << 20;

/// The policy being trained, with its optimizer and objective.
pub struct Trainer {
    decoder: Decoder,
    optimizer: AdamW,
    objective: Objective,
    /// The run's first policy, for objectives that are anchored to it.
    reference: Option<Decoder>,
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
        let (objective, micro_batch_tokens) = (train.objective.objective, train.micro_batch_tokens);
        Ok(Self { decoder, optimizer, objective, reference: None, micro_batch_tokens })
    }

    /// Gives the run's first policy to an objective that is anchored to it ([`Objective::needs_reference`]); others ignore it.
    pub fn with_reference(mut self, weights: &Weights) -> Result<Self, TrainError> {
        if self.objective.needs_reference() {
            self.reference = Some(Decoder::trainable(self.decoder.config(), weights, self.decoder.device())?);
        }
        Ok(self)
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
        let sequences = sequences(workload, groups)?;
        let whole_groups = self.objective.needs_whole_groups();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let parts = micro_batches(&sequences, self.micro_batch_tokens, 1, whole_groups)?;
        let mut known = self.known(workload, groups)?;
        if self.objective.plans_with_proximal() {
            let scores = scores(&self.decoder, &sequences, &parts)?;
            known.iter_mut().zip(scores).for_each(|(known, logp)| known.proximal = Some(logp));
        }
        if let Some(reference) = &self.reference {
            let scores = scores(reference, &sequences, &parts)?;
            known.iter_mut().zip(scores).for_each(|(known, logp)| known.reference = Some(logp));
        }
        let limit = workload.charter.sampling.max_new_tokens as usize;
        let plan = self.objective.plan(known, limit)?;
        let (mut loss, mut stats) = (0.0, ObjectiveStats::default());
        // As many parts at once as there are cores. They are added up in their own order, so the cores change no bit of the result.
        for wave in parts.chunks(threads) {
            for result in self.differentiate(&plan, &sequences, wave) {
                let part = result?;
                loss += part.loss;
                stats.merge(&part.stats);
                self.optimizer.accumulate(&part.gradients)?;
            }
        }
        Ok(UpdateReport { loss, stats, step: self.optimizer.step()? })
    }

    /// What is known of a batch's responses before the policy scores them, in the order of [`sequences`].
    fn known(&self, workload: &Workload, groups: &[StoredGroup]) -> Result<Vec<Known>, TrainError> {
        let (mut known, mut outcomes) = (Vec::new(), Vec::new());
        for (group, stored) in groups.iter().enumerate() {
            for (trajectory, &succeeded) in stored.group.trajectories.iter().zip(&stored.correct) {
                let (reward, length) = (f64::from(trajectory.reward), trajectory.response.len());
                outcomes.push(Outcome { reward, length, group });
                let behaviour = trajectory.logprobs.iter().map(|logp| f64::from(*logp)).collect();
                let step_ends = match self.objective.echo_clip {
                    Some(_) => step_ends(trajectory.response.iter().map(|id| workload.has_newline(*id))),
                    None => Vec::new(),
                };
                known.push(Known { group, behaviour, succeeded, step_ends, ..Known::default() });
            }
        }
        let advantages = self.objective.advantage.of(&outcomes)?;
        known.iter_mut().zip(advantages).for_each(|(known, advantage)| known.advantage = vec![advantage]);
        Ok(known)
    }

    /// Loss and gradients of each part, each on a thread of its own.
    fn differentiate(
        &self,
        plan: &Plan,
        sequences: &[Sequence],
        parts: &[Vec<usize>],
    ) -> Vec<Result<PartReport, TrainError>> {
        let work = |part: &Vec<usize>| differentiate(&self.decoder, plan, sequences, part);
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
        let all: Vec<usize> = (0..examples.len()).collect();
        let forward = Forward::new(&self.decoder, examples, &all)?;
        let tokens = forward.logp.iter().map(Vec::len).sum::<usize>().max(1) as f64;
        let loss = -forward.logp.iter().flatten().sum::<f64>() / tokens;
        let d_logp: Vec<Vec<f64>> = forward.logp.iter().map(|row| vec![-1.0 / tokens; row.len()]).collect();
        self.optimizer.accumulate(&forward.backward(&d_logp, &[])?)?;
        self.optimizer.step()?;
        Ok(loss)
    }
}

/// What one part of a batch contributes.
struct PartReport {
    loss: f64,
    stats: ObjectiveStats,
    gradients: GradStore,
}

fn differentiate(
    decoder: &Decoder,
    plan: &Plan,
    sequences: &[Sequence],
    part: &[usize],
) -> Result<PartReport, TrainError> {
    let forward = Forward::new(decoder, sequences, part)?;
    let rows = part.iter().zip(forward.logp.iter().zip(&forward.entropy));
    let scored: Vec<Scored<'_>> =
        rows.map(|(&response, (logp, entropy))| Scored { response, logp, entropy }).collect();
    let evaluation = plan.evaluate(&scored)?;
    let gradients = forward.backward(&evaluation.d_logp, &evaluation.d_entropy)?;
    Ok(PartReport { loss: evaluation.loss, stats: evaluation.stats, gradients })
}

/// log π of every sequence's response tokens, part by part.
fn scores(
    decoder: &Decoder,
    sequences: &[Sequence],
    parts: &[Vec<usize>],
) -> Result<Vec<Vec<f64>>, TrainError> {
    let mut scores = vec![Vec::new(); sequences.len()];
    for part in parts {
        let forward = Forward::new(decoder, sequences, part)?;
        part.iter().zip(forward.logp).for_each(|(&row, logp)| scores[row] = logp);
    }
    Ok(scores)
}

/// Some of a batch's sequences, scored by a policy.
struct Forward {
    batch: PaddedBatch,
    log_probabilities: Tensor,
    entropies: Tensor,
    /// log π_θ of the response tokens of each sequence.
    logp: Vec<Vec<f64>>,
    /// Entropies of the distributions that they were drawn from.
    entropy: Vec<Vec<f64>>,
}

impl Forward {
    fn new(decoder: &Decoder, sequences: &[Sequence], part: &[usize]) -> Result<Self, TrainError> {
        let rows: Vec<&Sequence> = part.iter().map(|&row| &sequences[row]).collect();
        let batch = PaddedBatch::new(&rows, decoder.device())?;
        let logits = decoder.logits(&decoder.forward(&batch.ids)?)?;
        let (log_probabilities, entropies) =
            (token_logprobs(&logits, &batch.targets)?.flatten_all()?, entropy(&logits)?.flatten_all()?);
        let of_responses = |tensor: &Tensor| -> Result<Vec<Vec<f64>>, TrainError> {
            let values = tensor.to_vec1::<f32>()?;
            let wide = |range: &std::ops::Range<usize>| {
                values[range.clone()].iter().map(|v| f64::from(*v)).collect()
            };
            Ok(batch.responses.iter().map(wide).collect())
        };
        let (logp, entropy) = (of_responses(&log_probabilities)?, of_responses(&entropies)?);
        Ok(Self { batch, log_probabilities, entropies, logp, entropy })
    }

    /// Gradients of a loss whose derivatives by log-probabilities and entropies are given, by sequence.
    fn backward(&self, d_logp: &[Vec<f64>], d_entropy: &[Vec<f64>]) -> Result<GradStore, TrainError> {
        let mut loss = (&self.log_probabilities * self.seed(d_logp)?)?.sum_all()?;
        if d_entropy.iter().any(|row| !row.is_empty()) {
            loss = (loss + (&self.entropies * self.seed(d_entropy)?)?.sum_all()?)?;
        }
        Ok(loss.backward()?)
    }

    fn seed(&self, derivatives: &[Vec<f64>]) -> Result<Tensor, TrainError> {
        let mut seed = vec![0f32; self.log_probabilities.elem_count()];
        for (range, row) in self.batch.responses.iter().zip(derivatives) {
            seed[range.clone()].iter_mut().zip(row).for_each(|(seed, d)| *seed = *d as f32);
        }
        Ok(Tensor::from_vec(seed, self.log_probabilities.shape(), self.log_probabilities.device())?)
    }
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

/// A batch's responses in the order of its groups.
fn sequences(workload: &Workload, groups: &[StoredGroup]) -> Result<Vec<Sequence>, TrainError> {
    let mut sequences = Vec::new();
    for (group, stored) in groups.iter().enumerate() {
        let prompt = workload.prompt(&workload.order(Purpose::Train, stored.group.counter.0))?;
        let of_response =
            |t: &Trajectory| Sequence { prompt: prompt.clone(), response: t.response.clone(), group };
        sequences.extend(stored.group.trajectories.iter().map(of_response));
    }
    Ok(sequences)
}

/// A supervised example: the prompt of a warm-up order and its task's own solution, ended.
pub fn example(workload: &Workload, counter: u64) -> Result<Sequence, TrainError> {
    let order = workload.order(Purpose::WarmUp, counter);
    let solution = workload.assignment(&order).solution();
    let mut response = workload.tokenizer.encode(&solution).map_err(WorkloadError::from)?;
    response.push(workload.end());
    Ok(Sequence { prompt: workload.prompt(&order)?, response, group: 0 })
}

#[cfg(test)]
mod tests;
