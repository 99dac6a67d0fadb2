//! The versions of a policy that nodes answer with, as they are published.

use super::{AuditStudy, Order, params};
use crate::models::in_process_training::{Practice, PracticeSetting};
use crate::models::random_weights;
use crate::output::console::Console;
use crate::study::statistics::Average;
use echo_learner::config::TrainSection;
use echo_learner::training::lr_schedule::Schedule;
use echo_learner::training::objective::{ObjectiveChoice, Preset};
use echo_policy::generation::wgpu::{Gpu, WgpuBackend};
use echo_policy::generation::{Backend, Completion, Generation, Policy, SampleRequest};
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::{DType, RawTensor, Weights};
use echo_policy::sampling::SamplingParams;
use echo_policy::text::tokenizer::CHARACTER_VOCABULARY;
use echo_protocol::run::charter::TaskSpec;
use echo_protocol::work::order::Purpose;
use std::ops::Range;
use std::sync::Arc;

/// Rates of reinforcement: the demo's, and one as large models are trained with.
pub(super) const RATES: [f64; 2] = [3e-4, 1e-6];
/// Updates between two publications.
pub(super) const KAPPA: u64 = 2;
/// Groups of an update, and responses of a group.
const GROUPS: u64 = 16;
const GROUP_SIZE: u32 = 8;
/// The supervised start: most updates, examples of each, their rate, and the accuracy with which it ends.
const IMITATION: (u64, u64, f64, f64) = (1_500, 32, 2e-3, 0.6);
/// Tokens of a response that is trained on; audited ones go on beyond.
const TRAINED_TOKENS: u32 = 24;
/// How far norms are off on another machine, and the stream of random numbers that says which way.
const JITTER: f32 = 1e-6;
const JITTER_STREAM: u64 = 77;
/// Orders that are asked of nodes begin here: after those of training.
const FIRST_ORDER: u64 = 1 << 20;

/// A policy in training.
pub(super) struct Versions {
    practice: Practice,
    /// Before any reinforcement, as published.
    newest: Weights,
    /// So many updates away from it at each rate: one publication, and four.
    pub(super) older: Vec<(f64, u64, Weights)>,
    /// Another policy of a third of the size that learned the same.
    pub(super) smaller: Smaller,
    tokens: u32,
    entropy: f64,
}

/// A policy of a third of the size, which a cheat may answer with.
pub(super) struct Smaller {
    practice: Practice,
    weights: Weights,
}

impl Smaller {
    pub(super) fn policy(&self, precision: Precision) -> anyhow::Result<Arc<Policy>> {
        Ok(Arc::new(Policy::load_as(1, self.practice.model(), &self.weights, precision)?))
    }
}

fn setting(seed: u64, hidden: usize, layers: usize, tokens: u32) -> PracticeSetting {
    let sizes = TinySizes {
        vocab: CHARACTER_VOCABULARY,
        hidden,
        layers,
        heads: 4,
        kv_heads: 2,
        head_dim: hidden / 4,
        intermediate: 3 * hidden,
        positions: 64 + tokens as usize,
    };
    let task = TaskSpec::new("chain_sum").with("digits", 1).with("terms", 4).with("steps", true.into());
    PracticeSetting {
        name: "audit",
        sizes,
        task,
        group_size: GROUP_SIZE,
        max_new_tokens: TRAINED_TOKENS,
        seed: seed + 1,
    }
}

/// A policy that has learned the task so far, as published.
fn imitate(setting: PracticeSetting) -> anyhow::Result<(Practice, Weights, f64)> {
    let practice = Practice::new(setting)?;
    let (updates, examples, rate, until) = IMITATION;
    let mut accuracy = 0.0;
    let weights = practice.imitate(updates, examples, rate, |update, _, trainer| {
        if update.is_multiple_of(50) {
            accuracy = practice.accuracy(&trainer.decoder().to_weights(DType::F32)?, 128)?;
        }
        Ok(accuracy < until)
    })?;
    Ok((practice, weights, accuracy))
}

impl Versions {
    /// Trains. What nodes are given as the newest version is where reinforcement ends, at each rate
    /// a little way from the older ones: so the newest is the start of all courses here, and an
    /// older one is where a course has come to. The distance is the same.
    pub(super) fn train(study: &AuditStudy, console: &Console) -> anyhow::Result<Self> {
        let (practice, start, accuracy) = imitate(setting(study.seed, 128, 4, study.tokens))?;
        console
            .say(format!("a policy of 4 layers of 128 is at an accuracy of {accuracy:.2} after imitation"));
        let mut older = Vec::new();
        for rate in RATES {
            let schedule = Schedule::constant(rate, 0);
            let objective = ObjectiveChoice::from(Preset::Gepo);
            let train = TrainSection { objective, schedule, ..TrainSection::default() };
            let mut trainer = practice.trainer(&start, &train)?;
            let mut weights = start.clone();
            for update in 0..4 * KAPPA {
                let groups =
                    practice.rollouts(&practice.policy(update, &weights)?, update * GROUPS, GROUPS)?;
                trainer.update(practice.workload(), &groups)?;
                weights = trainer.decoder().to_weights(DType::F32)?;
                if [KAPPA, 4 * KAPPA].contains(&(update + 1)) {
                    older.push((rate, update + 1, weights.to_dtype(DType::BF16)));
                }
            }
        }
        let (small, weights, accuracy) = imitate(setting(study.seed, 64, 3, study.tokens))?;
        console.say(format!("one of 3 layers of 64 is at {accuracy:.2}"));
        let smaller = Smaller { practice: small, weights: weights.to_dtype(DType::BF16) };
        let newest = start.to_dtype(DType::BF16);
        let mut versions = Self { practice, newest, older, smaller, tokens: study.tokens, entropy: 0.0 };
        versions.entropy = versions.surprise()?;
        console.say(format!("its responses hold {:.2} nats a token", versions.entropy));
        Ok(versions)
    }

    /// The newest version, in a precision.
    pub(super) fn newest(&self, precision: Precision) -> anyhow::Result<Arc<Policy>> {
        self.policy(&self.newest, precision)
    }

    /// The newest version on a GPU, which computes in f32.
    pub(super) fn on_gpu(&self, gpu: &Arc<Gpu>) -> anyhow::Result<Arc<Policy<WgpuBackend>>> {
        let backend = WgpuBackend::load(gpu, self.practice.model(), &self.newest)?;
        Ok(Arc::new(Policy::new(1, backend)))
    }

    /// Any version, in a precision.
    pub(super) fn policy(&self, weights: &Weights, precision: Precision) -> anyhow::Result<Arc<Policy>> {
        Ok(Arc::new(Policy::load_as(1, self.practice.model(), weights, precision)?))
    }

    /// The newest version as a machine computes it that adds in another order.
    pub(super) fn elsewhere(&self, precision: Precision) -> anyhow::Result<Arc<Policy>> {
        self.policy(&elsewhere(self.practice.model(), &self.newest)?, precision)
    }

    /// Tokens that can be drawn.
    pub(super) fn vocabulary(&self) -> u32 {
        self.practice.model().vocab_size as u32
    }

    /// Mean of −log p over honest tokens, in nats: how much there is to be drawn.
    pub(super) fn entropy(&self) -> f64 {
        self.entropy
    }

    fn surprise(&self) -> anyhow::Result<f64> {
        let orders = self.orders(0..16)?;
        let completions = generate(&self.newest(Precision::F32)?, &orders, 1, params(self.tokens))?;
        let logprobs = completions.iter().flatten().flat_map(|completion| &completion.logprobs);
        Ok(Average::of(logprobs.map(|logp| -f64::from(*logp))).get().unwrap_or(0.0))
    }

    /// The orders with these numbers, none of which was trained on.
    pub(super) fn orders(&self, numbers: Range<usize>) -> anyhow::Result<Vec<Order>> {
        let workload = self.practice.workload();
        numbers
            .map(|number| {
                let order = workload.order(Purpose::Train, FIRST_ORDER + number as u64);
                Ok(Order { prompt: workload.prompt(&order)?, seed: order.sampler_seed() })
            })
            .collect()
    }

    pub(super) fn description(&self) -> String {
        format!(
            "Qwen3 form, 4 layers of 128, published in bf16, after imitation of sums of 4 numbers worked out in steps; responses of {} tokens that go on \
             beyond their ends; older versions {KAPPA} and {} updates away, {GROUPS} groups of {GROUP_SIZE} each, by GEPO at {} and {:e}; \
             a smaller policy of 3 layers of 64 that learned the same",
            self.tokens,
            4 * KAPPA,
            RATES[0],
            RATES[1]
        )
    }
}

/// Weights with which this machine computes like one that adds in another order: every norm is off by
/// as much as a sum of a thousand numbers may be, a relative 1e-6. What follows is rounded otherwise
/// now and then.
pub(super) fn elsewhere(model: &ModelConfig, weights: &Weights) -> anyhow::Result<Weights> {
    let mut numbers = 0..;
    with_norms(model, weights, |_, value| {
        let unit = random_weights::unit(JITTER_STREAM, numbers.next().unwrap_or_default());
        value * (1.0 + JITTER * (2.0 * unit as f32 - 1.0))
    })
}

/// The same weights with other norms: what `change` makes of each tensor's name and values.
pub(super) fn with_norms(
    model: &ModelConfig,
    weights: &Weights,
    mut change: impl FnMut(&str, f32) -> f32,
) -> anyhow::Result<Weights> {
    let tensors = weights.iter().map(|tensor| {
        let (name, shape) = (tensor.name().to_owned(), tensor.shape().to_vec());
        if name.ends_with("norm.weight") {
            let values: Vec<f32> = tensor.to_f32().into_iter().map(|value| change(&name, value)).collect();
            RawTensor::from_f32(&name, &shape, &values, DType::F32)
        } else {
            RawTensor { name, shape, dtype: tensor.dtype(), bytes: tensor.bytes().to_vec() }
        }
    });
    Ok(Weights::from_raw(model, tensors.collect::<Vec<_>>())?)
}

/// `samples` responses to each order through the engine's generation; they end at their length alone.
pub(super) fn generate<B: Backend>(
    policy: &Arc<Policy<B>>,
    orders: &[Order],
    samples: u32,
    params: SamplingParams,
) -> anyhow::Result<Vec<Vec<Completion>>> {
    let request = |order: &Order| SampleRequest {
        prompt: order.prompt.clone(),
        seed: order.seed,
        samples,
        stop_ids: Vec::new(),
        stop_strings: None,
        limits: Vec::new(),
        max_heard: 0,
        params,
    };
    Ok(Generation::start(policy.clone(), orders.iter().map(request).collect())?.run()?)
}
