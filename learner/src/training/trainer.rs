//! One update: from a batch of groups, or of supervised examples, to new weights.

mod claims;
mod effort;
mod gaps;
pub mod grouping;
mod master_weights;
mod rows;

use crate::common::workload::{Workload, WorkloadError};
use crate::intake::buffer::StoredGroup;
use crate::training::batch::{BatchError, Heard, Sequence, micro_batches, pack};
use crate::training::device::TrainDeviceError;
use crate::training::objective::{
    Known, Objective, ObjectiveError, ObjectiveStats, RewardedResponse, ScoredResponse, step_ends,
};
use crate::training::optimizer::{AdamW, AdamWConfig, OptimizerError, SkipCause, StepOutcome, StepReport};
use crate::training::options::TrainSection;
use crate::training::precision_weights::PrecisionWeights;
use crate::training::sequences;
use crate::training::sequences::SequenceError;
use candle_core::{Device, Tensor, Var};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::{DType, Weights, expected_tensors};
use echo_policy::training::decoder::{Activations, Decoder, DecoderError, Gradients};
use echo_policy::training::flops::ScoringWork;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::order::Purpose;
use echo_protocol::work::trajectory::{Trajectory, TrajectoryGroup};
use echo_sandbox::task::episode::EpisodeStep;
use echo_sandbox::task::{Response, TaskError};
use gaps::Differences;
use grouping::tags;
use master_weights::MasterWeights;
use rows::{ResponseScores, rows, scores};
use std::collections::BTreeMap;
use std::time::Instant;

pub use claims::CLAIMED_WITHIN;
pub use effort::Effort;
pub use gaps::{Gap, LogpGaps};
pub use grouping::GroupBy;

/// Lowest temperature that responses may be drawn at: below it nearly all are the likeliest one,
/// and there is nothing to compare.
pub const MIN_TEMPERATURE: f32 = 0.01;

/// The policy being trained, with its optimizer and objective.
pub struct Trainer {
    decoder: Decoder,
    /// What the optimizer steps on, where that is not the decoder's own weights.
    masters: Option<MasterWeights>,
    optimizer: AdamW,
    objective: Objective,
    /// The run's first policy, where it is asked for.
    reference: Option<Decoder>,
    group_by: GroupBy,
    /// Of the batch in work.
    gradients: Gradients,
    minibatches: usize,
    micro_batch_tokens: usize,
    activations: Activations,
    precision_weight: PrecisionWeights,
}

/// Why an update cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The decoder failed, or its device did.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// The device that the run file asks for cannot be used.
    #[error(transparent)]
    Device(#[from] TrainDeviceError),
    /// The sequences cannot be packed.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The objective refuses the batch or a setting.
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
    /// The optimizer refuses the gradients or a setting.
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
    /// The tensor library refused an operation.
    #[error("training: {0}")]
    Tensor(#[from] candle_core::Error),
    /// A prompt cannot be derived.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A response of the batch.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// The environment of a supervised example failed.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// A supervised update diverged.
    #[error("the gradients of a supervised update are not finite: lower [warmup] learning_rate")]
    NotFinite,
    /// Responses that are all the same.
    #[error(
        "responses are drawn at temperature {0}, and training needs at least {MIN_TEMPERATURE}: found the run anew with another [sampling] temperature"
    )]
    Temperature(f32),
    /// A checkpoint of another model.
    #[error("the checkpoint lacks the parameter {0}: it belongs to another model")]
    Checkpoint(String),
}

/// What an update did.
#[derive(Clone, Debug)]
pub struct UpdateReport {
    /// The objective's loss: the mean over the minibatches that made a step. None where none did.
    pub loss: Option<f64>,
    /// Importance weights, KL, entropy: of the minibatches that were scored.
    pub stats: ObjectiveStats,
    /// Gradient norm, learning rate, and whether the step was taken: of the last minibatch that
    /// was, or of the last.
    pub step: StepReport,
    /// Minibatches of the update, one optimizer step each.
    pub steps: u32,
    /// Minibatches that were skipped.
    pub skipped: u32,
    /// Why the last of those was.
    pub skip_cause: Option<SkipCause>,
    /// How far log-probabilities lie apart.
    pub gaps: LogpGaps,
    /// Tokens whose reported log-probability was not taken at its word ([`CLAIMED_WITHIN`]), by the
    /// node that reported it.
    pub bounded: BTreeMap<PublicKey, u64>,
    /// Tokens that went through the decoder, for FLOPs and rates.
    pub effort: Effort,
}

impl UpdateReport {
    /// The report of one minibatch. `loss` is that of its step, if it made one.
    fn of(loss: Option<f64>, stats: ObjectiveStats, step: StepReport) -> Self {
        let skip_cause = match step.outcome {
            StepOutcome::Skipped(cause) => Some(cause),
            StepOutcome::Applied => None,
        };
        let (gaps, bounded, effort) = (LogpGaps::default(), BTreeMap::new(), Effort::default());
        let skipped = skip_cause.is_some().into();
        Self { loss, stats, step, steps: 1, skipped, skip_cause, gaps, bounded, effort }
    }

    fn add(&mut self, next: Self) {
        let [before, more] = [&*self, &next].map(|report| f64::from(report.steps - report.skipped));
        self.loss = match (self.loss, next.loss) {
            (Some(mean), Some(loss)) => Some(mean + (loss - mean) * more / (before + more)),
            (mean, loss) => mean.or(loss),
        };
        self.steps += next.steps;
        self.skipped += next.skipped;
        self.skip_cause = next.skip_cause.or(self.skip_cause);
        self.stats.merge(&next.stats);
        if self.step.outcome != StepOutcome::Applied || next.step.outcome == StepOutcome::Applied {
            self.step = next.step;
        }
    }

    /// Why no step at all was made, if none was.
    #[must_use]
    pub fn all_skipped(&self) -> Option<SkipCause> {
        self.skip_cause.filter(|_| self.skipped == self.steps)
    }
}

/// The groups of each of `minibatches`, as even as can be; fewer where there are fewer groups.
fn deal(groups: usize, minibatches: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let count = minibatches.min(groups).max(1);
    (0..count).map(move |i| i * groups / count..(i + 1) * groups / count)
}

impl Trainer {
    /// A trainer that begins with `weights`.
    pub fn new(config: &ModelConfig, weights: &Weights, train: &TrainSection) -> Result<Self, TrainError> {
        let device = train.device.open(train.compute)?;
        let decoder = Decoder::trainable(config, weights, &device)?;
        Self::over(decoder.with_compute(train.compute), train)
    }

    /// A trainer that goes on from a checkpoint's weights and optimizer state, bit for bit on the CPU.
    pub fn resume(
        config: &ModelConfig,
        weights: &BTreeMap<String, Tensor>,
        optimizer: &BTreeMap<String, Tensor>,
        train: &TrainSection,
    ) -> Result<Self, TrainError> {
        let decoder = decoder_of(config, weights, &train.device.open(train.compute)?)?;
        let mut trainer = Self::over(decoder.with_compute(train.compute), train)?;
        trainer.optimizer.load_state(optimizer)?;
        Ok(trainer)
    }

    fn over(decoder: Decoder, train: &TrainSection) -> Result<Self, TrainError> {
        let config = AdamWConfig {
            weight_decay: train.weight_decay,
            max_gradient_norm: train.max_grad_norm,
            guard: train.guard,
            ..AdamWConfig::default()
        };
        let optimizer = AdamW::new(decoder.vars().to_vec(), config, train.schedule)?;
        let gradients = Gradients::zeros(&decoder)?;
        Ok(Self {
            decoder,
            masters: None,
            optimizer,
            objective: train.objective.objective,
            reference: None,
            group_by: train.group_by,
            gradients,
            minibatches: train.minibatches.max(1),
            micro_batch_tokens: train.micro_batch_tokens,
            activations: train.activations,
            precision_weight: train.precision_weight,
        })
    }

    /// Trains the policy that nodes have: its weights are rounded to `dtype`, the element type of
    /// snapshots, after each step, and the optimizer goes on with f32 weights of its own. It takes
    /// 4 bytes a parameter more, but for f32.
    ///
    /// # Errors
    /// When the device cannot hold both.
    pub fn publishing(self, dtype: DType) -> Result<Self, TrainError> {
        if dtype == DType::F32 {
            return Ok(self);
        }
        let (masters, decoder) = MasterWeights::keep(self.decoder, dtype)?;
        Ok(Self { decoder, masters: Some(masters), ..self })
    }

    /// Scores at the temperature that responses are drawn at, so that a policy's log-probabilities
    /// are those that its nodes report. It begins with 1.
    ///
    /// # Errors
    /// When the temperature is below [`MIN_TEMPERATURE`].
    pub fn at_temperature(self, temperature: f32) -> Result<Self, TrainError> {
        if temperature < MIN_TEMPERATURE {
            return Err(TrainError::Temperature(temperature));
        }
        let at = |decoder: Decoder| decoder.with_temperature(temperature);
        Ok(Self { decoder: at(self.decoder), reference: self.reference.map(at), ..self })
    }

    /// Gives the run's first policy: to an objective that is anchored to it
    /// ([`Objective::needs_reference`]), or to be told how far the policy is from it, which costs a
    /// scoring pass an update.
    pub fn with_reference(mut self, weights: &Weights) -> Result<Self, TrainError> {
        let dtype = self.masters.as_ref().map_or(DType::F32, MasterWeights::dtype);
        let weights = weights.to_dtype(dtype);
        let reference = Decoder::trainable(self.decoder.config(), &weights, self.decoder.device())?;
        let (compute, temperature) = (self.decoder.compute(), self.decoder.temperature());
        self.reference = Some(reference.with_compute(compute).with_temperature(temperature));
        Ok(self)
    }

    /// Which responses a reward is compared with.
    pub fn group_by(&self) -> GroupBy {
        self.group_by
    }

    /// The policy as it is now, as nodes get it; a step changes it in place.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// What the optimizer steps on: what a checkpoint holds, and snapshots are rounded from.
    pub fn master_weights(&self) -> &Decoder {
        self.masters.as_ref().map_or(&self.decoder, MasterWeights::weights)
    }

    /// Whether the weights are numbers. If some are not, their sum is not a number either.
    ///
    /// # Errors
    /// When the device fails.
    pub fn is_finite(&self) -> Result<bool, TrainError> {
        for (_, var) in self.decoder.vars() {
            if !var.as_tensor().sum_all()?.to_scalar::<f32>()?.is_finite() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The optimizer, with its moments and step count.
    pub fn optimizer(&self) -> &AdamW {
        &self.optimizer
    }

    /// One update of the objective on a batch of groups. The same batch and state give the same
    /// weights, bit for bit.
    ///
    /// With several minibatches the batch's groups are dealt out to them in order, and each makes a
    /// step of its own; what is measured against the policy at the start of the update is then
    /// scored before the first.
    pub fn update(
        &mut self,
        workload: &Workload,
        groups: &[StoredGroup],
    ) -> Result<UpdateReport, TrainError> {
        if groups.is_empty() {
            // Damage on the disk took all groups of a batch that is in the journal: the run's
            // order of batches stays.
            return Ok(UpdateReport::of(
                None,
                ObjectiveStats::default(),
                self.optimizer.skip(SkipCause::Empty),
            ));
        }
        let sequences = sequences(workload, groups)?;
        let mut known = self.known(workload, groups)?;
        let (mut effort, mut differences) = (Effort::default(), Differences::default());
        let moves_within = self.minibatches > 1 && self.objective.needs_proximal();
        if moves_within || self.objective.plans_with_proximal() {
            let since = Instant::now();
            let scores = scores(&self.decoder, &sequences, self.micro_batch_tokens, &mut effort.scored)?;
            for (known, logp) in known.iter_mut().zip(scores) {
                differences.bound(known, &logp);
                known.proximal = Some(logp);
            }
            effort.proximal_s = since.elapsed().as_secs_f64();
        }
        if let Some(reference) = &self.reference {
            let since = Instant::now();
            let scores = scores(reference, &sequences, self.micro_batch_tokens, &mut effort.scored)?;
            known.iter_mut().zip(scores).for_each(|(known, logp)| known.reference = Some(logp));
            effort.reference_s = since.elapsed().as_secs_f64();
        }
        let limit = workload.charter.sampling.max_new_tokens as usize;
        let mut known = known.into_iter();
        let mut report: Option<UpdateReport> = None;
        for groups in deal(groups.len(), self.minibatches) {
            let first = sequences.partition_point(|sequence| sequence.group < groups.start);
            let end = sequences.partition_point(|sequence| sequence.group < groups.end);
            let known = known.by_ref().take(end - first).collect();
            let sequences = &sequences[first..end];
            let step = self.step(sequences, known, limit, &mut differences, &mut effort.trained)?;
            match &mut report {
                Some(report) => report.add(step),
                None => report = Some(step),
            }
        }
        let report = report.ok_or(BatchError::Empty)?;
        let mut bounded: BTreeMap<PublicKey, u64> = BTreeMap::new();
        for (group, tokens) in differences.bounded() {
            *bounded.entry(groups[group].group.node).or_default() += tokens;
        }
        let precision = |group: usize| groups[group].group.precision.to_string();
        let version = |group: usize| published_version(&groups[group].group);
        Ok(UpdateReport { gaps: differences.gaps(precision, version), bounded, effort, ..report })
    }

    /// One step of the optimizer on these responses. A policy whose numbers are not finite makes none.
    fn step(
        &mut self,
        sequences: &[Sequence],
        known: Vec<Known>,
        limit: usize,
        differences: &mut Differences,
        work: &mut ScoringWork,
    ) -> Result<UpdateReport, TrainError> {
        // Of the whole minibatch or of none of it: the part before an overflow would look as
        // if all were well.
        let mut of_step = Differences::default();
        match self.add_gradients(sequences, known, limit, &mut of_step, work) {
            Ok((loss, stats)) => {
                differences.append(of_step);
                let step = self.apply()?;
                let loss = (step.outcome == StepOutcome::Applied).then_some(loss);
                Ok(UpdateReport::of(loss, stats, step))
            }
            // The policy's own numbers overflowed: no step can be made of them, and the next batch may do.
            Err(TrainError::Objective(ObjectiveError::NonFinite { what: "logp" | "proximal", .. })) => {
                Ok(UpdateReport::of(None, ObjectiveStats::default(), self.optimizer.skip(SkipCause::Logp)))
            }
            Err(error) => Err(error),
        }
    }

    /// Steps on the gradients, and gives the policy the weights that come of it.
    fn apply(&mut self) -> Result<StepReport, TrainError> {
        let step = self.optimizer.step(self.gradients.buffers())?;
        if let (Some(masters), StepOutcome::Applied) = (&self.masters, step.outcome) {
            masters.round_into(&self.decoder)?;
        }
        Ok(step)
    }

    /// The gradients of the objective on these responses, and its loss.
    fn add_gradients(
        &mut self,
        sequences: &[Sequence],
        known: Vec<Known>,
        limit: usize,
        differences: &mut Differences,
        work: &mut ScoringWork,
    ) -> Result<(f64, ObjectiveStats), TrainError> {
        let mut plan = self.objective.plan(known, limit)?;
        let whole_groups = self.objective.needs_whole_groups();
        let (mut loss, mut stats) = (0.0, ObjectiveStats::default());
        self.gradients.zero()?;
        for part in &micro_batches(sequences, self.micro_batch_tokens, 1, whole_groups)? {
            *work += self.pass(sequences, part, |scores| {
                let rows = part.iter().zip(scores);
                let scored: Vec<ScoredResponse<'_>> = rows
                    .map(|(&response, row)| ScoredResponse {
                        response,
                        logp: &row.logp,
                        entropy: &row.entropy,
                    })
                    .collect();
                // Known only now, where the policy was not scored before.
                scored.iter().for_each(|s| differences.bound(plan.known_mut(s.response), s.logp));
                let evaluation = plan.evaluate(&scored)?;
                scored.iter().for_each(|s| differences.add(plan.known(s.response), s.logp));
                loss += evaluation.loss;
                stats.merge(&evaluation.stats);
                Ok((evaluation.d_logp, evaluation.d_entropy))
            })?;
        }
        Ok((loss, stats))
    }

    /// What is known of a batch's responses before the policy scores them, in the order of [`sequences`].
    fn known(&self, workload: &Workload, groups: &[StoredGroup]) -> Result<Vec<Known>, TrainError> {
        let (mut known, mut outcomes) = (Vec::new(), Vec::new());
        for (group, stored) in groups.iter().enumerate() {
            let weight = self.precision_weight.of(&stored.group.precision);
            for (trajectory, &succeeded) in stored.group.trajectories.iter().zip(&stored.correct) {
                let (reward, length) = (f64::from(trajectory.reward), trajectory.response.len());
                outcomes.push(RewardedResponse { reward, length, group });
                let behaviour = trajectory.logprobs.iter().map(|logp| f64::from(*logp)).collect();
                let step_ends = match self.objective.echo_clip {
                    Some(_) => steps(workload, trajectory),
                    None => Vec::new(),
                };
                known.push(Known { group, behaviour, weight, succeeded, step_ends, ..Known::default() });
            }
        }
        outcomes.iter_mut().zip(tags(self.group_by, groups)).for_each(|(outcome, tag)| outcome.group = tag);
        let advantages = self.objective.advantage.of(&outcomes)?;
        known.iter_mut().zip(advantages).for_each(|(known, advantage)| known.advantage = vec![advantage]);
        Ok(known)
    }

    /// One supervised update: mean negative log-likelihood of the response tokens. Returns the loss.
    pub fn imitate(&mut self, examples: &[Sequence]) -> Result<f64, TrainError> {
        let tokens = examples.iter().map(|example| example.response.len()).sum::<usize>().max(1) as f64;
        let mut loss = 0.0;
        self.gradients.zero()?;
        for part in micro_batches(examples, self.micro_batch_tokens, 1, false)? {
            self.pass(examples, &part, |scores| {
                loss -= scores.iter().flat_map(|row| &row.logp).sum::<f64>() / tokens;
                let slopes = scores.iter().map(|row| vec![-1.0 / tokens; row.logp.len()]);
                Ok((slopes.collect(), Vec::new()))
            })?;
        }
        match self.apply()?.outcome {
            StepOutcome::Applied => Ok(loss),
            StepOutcome::Skipped(_) => Err(TrainError::NotFinite),
        }
    }

    /// Scores a part of a batch, asks `loss` for its derivatives by log-probabilities and
    /// entropies (by sequence; none where the list is empty), and adds the gradients.
    /// Returns what it computed.
    fn pass(
        &mut self,
        sequences: &[Sequence],
        part: &[usize],
        loss: impl FnOnce(&[ResponseScores]) -> Result<(Vec<Vec<f64>>, Vec<Vec<f64>>), TrainError>,
    ) -> Result<ScoringWork, TrainError> {
        let (packed, targets) = pack(sequences, part)?;
        let scored = self.decoder.score_for_training(&packed, &targets, self.activations)?;
        let (d_logp, d_entropy) = loss(&rows(scored.scores(), sequences, part))?;
        let narrow = |lists: Vec<Vec<f64>>| lists.into_iter().flatten().map(|d| d as f32).collect::<Vec<_>>();
        let (d_logp, d_entropy) = (narrow(d_logp), narrow(d_entropy));
        let d_entropy = (!d_entropy.is_empty()).then_some(d_entropy.as_slice());
        scored.backward(&d_logp, d_entropy, &mut self.gradients)?;
        Ok(ScoringWork::of(&packed, &targets))
    }
}

/// A checkpoint's weights, rounded to `dtype`.
pub fn weights_of(
    config: &ModelConfig,
    checkpoint: &BTreeMap<String, Tensor>,
    dtype: DType,
) -> Result<Weights, TrainError> {
    Ok(decoder_of(config, checkpoint, &Device::Cpu)?.to_weights(dtype)?)
}

/// The policy whose parameters are `weights`, those of a checkpoint.
pub(crate) fn decoder_of(
    config: &ModelConfig,
    weights: &BTreeMap<String, Tensor>,
    device: &Device,
) -> Result<Decoder, TrainError> {
    let vars = expected_tensors(config).into_iter().map(|spec| {
        let tensor = weights.get(&spec.name);
        let tensor = tensor.ok_or_else(|| TrainError::Checkpoint(spec.name.clone()))?;
        Ok((spec.name, Var::from_tensor(&tensor.to_device(device)?)?))
    });
    let vars = vars.collect::<Result<_, TrainError>>()?;
    Ok(Decoder::new(config, vars, device)?)
}

/// Ends of a response's steps: a turn ends one, as a newline does.
fn steps(workload: &Workload, trajectory: &Trajectory) -> Vec<usize> {
    let turns = trajectory.turn_ranges().flat_map(|turn| turn.clone().map(move |at| at + 1 == turn.end));
    step_ends(trajectory.response.iter().zip(turns).map(|(id, ends)| ends || workload.has_newline(*id)))
}

/// The version whose weights, as they were published, all tokens of a group are of: other precisions
/// than f32 round them once more.
fn published_version(group: &TrajectoryGroup) -> Option<u64> {
    let mut versions = group.trajectories.iter().flat_map(|t| &t.versions).map(|span| span.version.0);
    let first = versions.next().filter(|_| group.precision.is_default())?;
    versions.all(|version| version == first).then_some(first)
}

/// A batch's responses in the order of its groups.
fn sequences(workload: &Workload, groups: &[StoredGroup]) -> Result<Vec<Sequence>, TrainError> {
    let mut all = Vec::new();
    for (group, stored) in groups.iter().enumerate() {
        let order = workload.order(Purpose::Train, stored.group.counter.0);
        let of_order = sequences::of_order(workload, &order, &stored.group.trajectories)?;
        all.extend(of_order.into_iter().map(|sequence| Sequence { group, ..sequence }));
    }
    Ok(all)
}

/// A supervised example: the episode of a warm-up order, played as its task suggests.
pub fn example(workload: &Workload, counter: u64) -> Result<Sequence, TrainError> {
    let order = workload.order(Purpose::WarmUp, counter);
    let mut play = workload.assignment(&order).play();
    let (mut response, mut heard) = (Vec::new(), Vec::new());
    loop {
        let text = play.suggestion();
        response.extend(workload.encode(&text)?);
        response.push(workload.end());
        // What the last turn is worth is nobody's question, and judging may be slow.
        if play.turns_left() == 1 {
            break;
        }
        match play.turn(&Response { text: &text, finished: true }, usize::MAX)? {
            EpisodeStep::Heard(text) => {
                heard.push(Heard { after: response.len(), tokens: workload.heard(&text)? })
            }
            EpisodeStep::Over { .. } => break,
        }
    }
    Ok(Sequence { prompt: workload.prompt(&order)?, response, heard, group: 0 })
}

#[cfg(test)]
mod tests;
