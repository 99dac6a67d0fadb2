//! A policy in training: imitation, rollouts, updates.

use super::PUBLISHED;
use anyhow::Context;
use echo_learner::buffer::StoredGroup;
use echo_learner::config::TrainSection;
use echo_learner::schedule::Schedule;
use echo_learner::trainer::{Trainer, example};
use echo_learner::workload::Workload;
use echo_policy::config::{ModelConfig, TinySizes};
use echo_policy::engine::{Completion, Generation, Policy};
use echo_policy::tokenizer::CHARACTER_VOCABULARY;
use echo_policy::weights::{DType, Weights};
use echo_protocol::charter::{Charter, RunId, Sampling, TaskSpec, TokenizerSpec};
use echo_protocol::identity::NodeKey;
use echo_protocol::lease::LeaseId;
use echo_protocol::manifest::TensorType;
use echo_protocol::order::{OrderCounter, Purpose, WorkOrder};
use echo_protocol::signed::Signed;
use echo_protocol::staleness::Staleness;
use echo_protocol::time::UnixMillis;
use echo_protocol::trajectory::{Trajectory, TrajectoryGroup, spans};
use echo_protocol::version::PolicyVersion;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Groups in an update, and responses in a group.
const GROUPS: u64 = 8;
const GROUP_SIZE: u32 = 8;
/// Examples in a supervised update, and its learning rate.
const EXAMPLES: u64 = 32;
const IMITATION_RATE: f64 = 3e-4;

/// The model and what it is trained on.
pub(super) struct Practice {
    key: NodeKey,
    workload: Workload,
    weights: Weights,
}

/// A trainer in the midst of reinforcement.
pub(super) struct Training<'a> {
    practice: &'a Practice,
    trainer: Trainer,
    /// The next work order.
    next: u64,
}

impl Practice {
    pub(super) fn new(tiny: bool) -> anyhow::Result<Self> {
        let (hidden, layers, heads, head_dim) = if tiny { (128, 2, 4, 32) } else { (768, 14, 8, 128) };
        let model = ModelConfig::tiny_qwen3(TinySizes {
            vocab: CHARACTER_VOCABULARY,
            hidden,
            layers,
            heads,
            kv_heads: heads / 2,
            head_dim,
            intermediate: 3 * hidden,
            positions: 64,
        })?;
        let key = NodeKey::from_secret([1; 32]);
        let charter = Charter {
            name: "delta study".into(),
            learner: key.public(),
            created: UnixMillis(0),
            model: model.to_json(DType::F32),
            tokenizer: TokenizerSpec::Characters { alphabet: String::new() },
            tasks: vec![TaskSpec {
                name: "chain_sum".into(),
                weight: 1,
                params: [("digits".to_owned(), 1), ("terms".to_owned(), 2)].into(),
            }],
            group_size: GROUP_SIZE,
            sampling: Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, max_new_tokens: 4 },
            staleness: Staleness::new(3, None)?,
            snapshot_type: TensorType::Bf16,
            chunk_bytes: 1 << 20,
        };
        let run = RunId::of(&Signed::sign(&charter, &key)?);
        let weights = Weights::random(&model, 1);
        Ok(Self { key, workload: Workload::open(run, charter, Path::new(""))?, weights })
    }

    pub(super) fn model(&self) -> &ModelConfig {
        &self.workload.model
    }

    pub(super) fn parameters(&self) -> u64 {
        self.workload.model.parameter_count()
    }

    /// How the gradients come about, in a sentence.
    pub(super) fn description(&self, warm_up: u64) -> String {
        format!(
            "Qwen3 form, random weights; {warm_up} supervised AdamW updates at {IMITATION_RATE:e} on {EXAMPLES} solutions of \
             one-digit sums each; then per update {GROUPS} groups of {GROUP_SIZE} responses that the published policy \
             generated, judged by the task; GEPO, fresh AdamW moments, f32 master weights, published in bf16"
        )
    }

    /// The policy after so many supervised updates; `progress` hears of each and its loss.
    pub(super) fn imitate(
        &self,
        updates: u64,
        mut progress: impl FnMut(u64, f64),
    ) -> anyhow::Result<Weights> {
        let mut trainer = self.trainer(&self.weights, IMITATION_RATE)?;
        for update in 0..updates {
            let examples = update * EXAMPLES..(update + 1) * EXAMPLES;
            let examples = examples.map(|counter| example(&self.workload, counter));
            let loss = trainer.imitate(&examples.collect::<Result<Vec<_>, _>>()?)?;
            progress(update + 1, loss);
        }
        Ok(trainer.decoder().to_weights(DType::F32)?)
    }

    /// Begins reinforcement of `weights`.
    pub(super) fn reinforce(&self, weights: &Weights, rate: f64) -> anyhow::Result<Training<'_>> {
        Ok(Training { practice: self, trainer: self.trainer(weights, rate)?, next: 0 })
    }

    fn trainer(&self, weights: &Weights, rate: f64) -> anyhow::Result<Trainer> {
        let train = TrainSection { schedule: Schedule::constant(rate, 0), ..TrainSection::default() };
        Ok(Trainer::new(&self.workload.model, weights, &train)?)
    }

    /// Groups as the admission hands them to the buffer: generated under `policy`, judged.
    fn rollouts(&self, policy: &Weights, first: u64) -> anyhow::Result<Vec<StoredGroup>> {
        let workload = &self.workload;
        let policy = Arc::new(Policy::load(0, &workload.model, policy)?);
        let orders: Vec<_> = (first..first + GROUPS).map(|at| workload.order(Purpose::Train, at)).collect();
        let requests = orders.iter().map(|order| workload.request(order, GROUP_SIZE));
        let responses = Generation::start(policy, requests.collect::<Result<_, _>>()?)?.run()?;
        let groups = (first..).zip(orders.iter().zip(responses));
        groups.map(|(counter, (order, responses))| self.group(counter, order, responses)).collect()
    }

    fn group(
        &self,
        counter: u64,
        order: &WorkOrder,
        responses: Vec<Completion>,
    ) -> anyhow::Result<StoredGroup> {
        let (mut trajectories, mut correct) = (Vec::new(), Vec::new());
        for response in responses {
            let verdict = self.workload.judge(order, &response.tokens, response.stopped);
            let verdict = verdict.with_context(|| format!("judging order {counter}"))?;
            correct.push(verdict.correct);
            trajectories.push(Trajectory {
                response: response.tokens,
                logprobs: response.logprobs,
                versions: spans(response.versions.into_iter().map(PolicyVersion)),
                reward: verdict.reward,
                stopped: response.stopped,
                omega: Default::default(),
            });
        }
        let group = TrajectoryGroup {
            run: self.workload.run,
            lease: LeaseId(0),
            counter: OrderCounter(counter),
            node: self.key.public(),
            trajectories,
        };
        Ok(StoredGroup { arrival: counter, group, correct })
    }
}

impl Training<'_> {
    /// The policy as it is published.
    pub(super) fn publish(&self) -> anyhow::Result<Weights> {
        Ok(self.trainer.decoder().to_weights(PUBLISHED)?)
    }

    /// One update from rollouts of the newest publication. Returns what there was to learn from.
    pub(super) fn update(&mut self, published: &Weights) -> anyhow::Result<Value> {
        let groups = self.practice.rollouts(published, self.next)?;
        self.next += GROUPS;
        let rewards = |group: &StoredGroup| -> Vec<f32> {
            group.group.trajectories.iter().map(|trajectory| trajectory.reward).collect()
        };
        let mean = groups.iter().flat_map(rewards).sum::<f32>() / (GROUPS as f32 * GROUP_SIZE as f32);
        let differing = |group: &&StoredGroup| rewards(group).windows(2).any(|pair| pair[0] != pair[1]);
        let report = self.trainer.update(&self.practice.workload, &groups)?;
        Ok(json!({
            "reward": mean,
            "groups_of_different_rewards": groups.iter().filter(differing).count(),
            "gradient_norm": report.step.gradient_norm,
        }))
    }
}
