//! A policy in training without a network: imitation, rollouts, updates, accuracy.

use anyhow::Context as _;
use echo_learner::common::workload::Workload;
use echo_learner::config::TrainSection;
use echo_learner::founding::Founded;
use echo_learner::intake::buffer::StoredGroup;
use echo_learner::training::evaluation::evaluate;
use echo_learner::training::local_rollouts::{LocalAnswer, answers};
use echo_learner::training::lr_schedule::Schedule;
use echo_learner::training::trainer::{Trainer, example};
use echo_policy::generation::Policy;
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::weights::{DType, Weights};
use echo_protocol::run::charter::{Charter, RunId, Sampling, TaskSpec, TokenizerSpec};
use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::TensorType;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::{OrderCounter, Purpose};
use echo_protocol::work::trajectory::TrajectoryGroup;
use echo_sandbox::task::files::TaskFiles;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What the policy is, and what it learns.
pub(crate) struct PracticeSetting {
    /// Name of the run.
    pub(crate) name: &'static str,
    /// The model: Qwen3 form, characters as tokens.
    pub(crate) sizes: TinySizes,
    /// The one task that all orders are of.
    pub(crate) task: TaskSpec,
    /// Responses to a prompt.
    pub(crate) group_size: u32,
    /// Longest response, its end included.
    pub(crate) max_new_tokens: u32,
    /// Decides weights, prompts and samples.
    pub(crate) seed: u64,
}

/// The model and what it is trained on.
pub(crate) struct Practice {
    key: NodeKey,
    workload: Workload,
    weights: Weights,
}

impl Practice {
    pub(crate) fn new(setting: PracticeSetting) -> anyhow::Result<Self> {
        let model = ModelConfig::tiny_qwen3(setting.sizes)?;
        let key = NodeKey::from_secret([1; 32]);
        let charter = Charter {
            name: setting.name.into(),
            learner: key.public(),
            // The run's id, and with it every prompt, follows from the charter.
            created: UnixMillis(setting.seed),
            model: model.to_json(DType::F32),
            tokenizer: TokenizerSpec::Characters { alphabet: String::new() },
            tasks: vec![setting.task],
            group_size: setting.group_size,
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                max_new_tokens: setting.max_new_tokens,
                draw: Default::default(),
            },
            staleness: Staleness::new(3, None)?,
            snapshot_type: TensorType::Bf16,
            chunk_bytes: 1 << 20,
            precisions: vec![Default::default()],
            takeover: Default::default(),
            prompt: Default::default(),
        };
        let run = RunId::of(&Signed::sign(&charter, &key)?);
        let weights = Weights::random(&model, setting.seed);
        Ok(Self { key, workload: Workload::open(run, charter, Path::new(""), &TaskFiles::none())?, weights })
    }

    /// A run that was founded, from its starting policy.
    pub(crate) fn of_run(founded: Founded) -> anyhow::Result<Self> {
        let Founded { dir, key, workload, .. } = founded;
        let weights = Weights::load_dir(&dir.start(), &workload.model)?;
        Ok(Self { key, workload, weights })
    }

    pub(crate) fn model(&self) -> &ModelConfig {
        &self.workload.model
    }

    /// The random weights that it begins with.
    pub(crate) fn start(&self) -> &Weights {
        &self.weights
    }

    pub(crate) fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The policy after so many supervised updates of `examples` solutions each; `progress` hears
    /// of each and its loss, and says whether to go on.
    pub(crate) fn imitate(
        &self,
        updates: u64,
        examples: u64,
        rate: f64,
        mut progress: impl FnMut(u64, f64, &Trainer) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Weights> {
        let train = TrainSection { schedule: Schedule::constant(rate, 0), ..TrainSection::default() };
        let mut trainer = self.trainer(&self.weights, &train)?;
        for update in 0..updates {
            let counters = update * examples..(update + 1) * examples;
            let batch = counters.map(|counter| example(&self.workload, counter));
            let loss = trainer.imitate(&batch.collect::<Result<Vec<_>, _>>()?)?;
            if !progress(update + 1, loss, &trainer)? {
                break;
            }
        }
        Ok(trainer.decoder().to_weights(DType::F32)?)
    }

    /// A trainer that begins with `weights`, which are its reference too, if its objective has one.
    pub(crate) fn trainer(&self, weights: &Weights, train: &TrainSection) -> anyhow::Result<Trainer> {
        let temperature = self.workload.charter.sampling.temperature;
        let trainer = Trainer::new(&self.workload.model, weights, train)?.at_temperature(temperature)?;
        let anchored = train.objective.objective.needs_reference();
        Ok(if anchored { trainer.with_reference(weights)? } else { trainer })
    }

    /// A policy as a node installs it.
    pub(crate) fn policy(&self, version: u64, weights: &Weights) -> anyhow::Result<Arc<Policy>> {
        Ok(Arc::new(Policy::load(version, &self.workload.model, weights)?))
    }

    /// Share of held-out orders that a policy answers right, sampled as in training.
    pub(crate) fn accuracy(&self, weights: &Weights, orders: u64) -> anyhow::Result<f64> {
        let row = evaluate(&self.workload, PolicyVersion(0), weights, orders, &CancellationToken::new())?;
        row.and_then(|row| row.held_out_accuracy).context("no held-out order could be judged")
    }

    /// Groups as the admission hands them to the buffer: generated under `policy`, judged.
    pub(crate) fn rollouts(
        &self,
        policy: &Arc<Policy>,
        first: u64,
        groups: u64,
    ) -> anyhow::Result<Vec<StoredGroup>> {
        let workload = &self.workload;
        let orders: Vec<_> = (first..first + groups).map(|at| workload.order(Purpose::Train, at)).collect();
        let answers = answers(workload, policy.clone(), &orders, workload.charter.group_size)?;
        Ok((first..).zip(answers).map(|(counter, answers)| self.group(counter, answers)).collect())
    }

    fn group(&self, counter: u64, answers: Vec<LocalAnswer>) -> StoredGroup {
        let correct = answers.iter().map(|answer| answer.verdict.correct).collect();
        let trajectories = answers.into_iter().map(LocalAnswer::trajectory).collect();
        let group = TrajectoryGroup {
            run: self.workload.run,
            lease: LeaseId(0),
            counter: OrderCounter(counter),
            node: self.key.public(),
            trajectories,
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        };
        StoredGroup { arrival: counter, group, correct }
    }
}
