//! What the deltas of a policy cost while it is trained by reinforcement: bytes, entropy, speed.
//!
//! A policy of 107 million parameters (Qwen3 form, random weights as transformers makes them) first
//! imitates the solutions of an arithmetic task, so that it answers, and sometimes rightly. Then it
//! is trained as in a run: with every publication in bf16, groups of responses are generated under
//! it by the engine, judged by the task, and the learner's trainer makes κ = 2 updates of the f32
//! master weights from them: GEPO, AdamW with fresh moments, weight decay and clipping at their
//! defaults. Nothing about the gradients is made up.

use crate::conformance::delta::{CHUNK_BYTES, Measure, PASSES};
use crate::models::character_policy;
use crate::models::in_process_training::{Practice, PracticeSetting};
use crate::output::console::{CommandReport, Console};
use anyhow::Context;
use echo_learner::config::TrainSection;
use echo_learner::intake::buffer::StoredGroup;
use echo_learner::training::lr_schedule::Schedule;
use echo_learner::training::trainer::Trainer;
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::weights::{DType, Weights};
use echo_policy::text::tokenizer::CHARACTER_VOCABULARY;
use echo_protocol::run::charter::TaskSpec;
use echo_protocol::snapshot::delta::Width;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Groups in an update, and responses in a group.
const GROUPS: u64 = 8;
const GROUP_SIZE: u32 = 8;
/// Examples in a supervised update, and its learning rate.
const EXAMPLES: u64 = 32;
const IMITATION_RATE: f64 = 3e-4;
/// κ: updates between two publications.
const PERIOD: u64 = 2;
/// The learning rate of reinforcement, and how many times smaller than the policy its deltas
/// should be, at least.
const RATE: f64 = 1e-6;
const MIN_RATIO: f64 = 30.0;
/// How much larger than the order-0 entropy of the update they may be, at most.
const MAX_OVER_ENTROPY: f64 = 1.4;
/// A rate at which most elements change, and how much larger than the policy its deltas may be, at most.
const DENSE_RATE: f64 = 1e-4;
const MAX_OVER_FULL: f64 = 1.02;

/// How long is trained, and with which model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaStudy {
    /// Supervised updates before reinforcement begins.
    pub warm_up: u64,
    /// Publications at a learning rate of 1e-6, two updates apart.
    pub publications: u64,
    /// With a policy of a million parameters.
    pub tiny: bool,
    /// Where the last two publications at 1e-6 are written: as directories `old` and `new`, and
    /// their weights as `old.safetensors` and `new.safetensors`.
    pub save: Option<PathBuf>,
}

/// Trains, publishes and measures. Passes when every delta gives the bytes back, and sizes
/// are within their bounds.
///
/// # Errors
/// When training fails or files cannot be written.
pub fn run(study: &DeltaStudy, console: &Console) -> anyhow::Result<CommandReport> {
    let practice = Practice::new(setting(study.tiny))?;
    let parameters = practice.model().parameter_count();
    console.say(format!("policy of {parameters} parameters; {} supervised updates", study.warm_up));
    let warm = practice.imitate(study.warm_up, EXAMPLES, IMITATION_RATE, |update, loss, _| {
        if update % 10 == 0 {
            console.say(format!("  update {update}: loss {loss:.3}"));
        }
        Ok(true)
    })?;
    let mut passed = true;
    let mut rows = Vec::new();
    let mut training = Training::new(&practice, &warm, RATE)?;
    let mut old = training.publish()?;
    for nth in 1..=study.publications {
        let (new, row, measure) = publication(&mut training, &old, RATE, console)?;
        passed &= measure.ratio() >= MIN_RATIO;
        passed &= measure.over_entropy().is_some_and(|share| share <= MAX_OVER_ENTROPY);
        rows.push(row);
        if let Some(dir) = study.save.as_deref().filter(|_| nth == study.publications) {
            save(dir, "old", practice.model(), &old)?;
            save(dir, "new", practice.model(), &new)?;
        }
        old = new;
    }
    drop(training);
    let mut training = Training::new(&practice, &warm, DENSE_RATE)?;
    let old = training.publish()?;
    let (_, row, measure) = publication(&mut training, &old, DENSE_RATE, console)?;
    passed &= measure.ratio() >= 1.0 / MAX_OVER_FULL;
    rows.push(row);
    let json = json!({
        "parameters": parameters,
        "gradients": description(study.warm_up),
        "period": PERIOD,
        "speed": format!("one core, the fastest of {PASSES} passes over each chunk of {CHUNK_BYTES} bytes"),
        "entropy": "order 0 of the differences of all elements; and the same given the old exponent",
        "goals": {
            "ratio": MIN_RATIO, "over_entropy": MAX_OVER_ENTROPY, "encode_mb_s": 500, "apply_mb_s": 500,
        },
        "publications": rows,
    });
    console.say(if passed { "all sizes are within their bounds" } else { "a size is out of its bounds" });
    Ok(CommandReport { passed, json })
}

fn setting(tiny: bool) -> PracticeSetting {
    let (hidden, layers, heads, head_dim) = if tiny { (128, 2, 4, 32) } else { (768, 14, 8, 128) };
    let sizes = TinySizes {
        vocab: CHARACTER_VOCABULARY,
        hidden,
        layers,
        heads,
        kv_heads: heads / 2,
        head_dim,
        intermediate: 3 * hidden,
        positions: 64,
    };
    let task = TaskSpec::new("chain_sum").with("digits", 1).with("terms", 2);
    PracticeSetting { name: "delta study", sizes, task, group_size: GROUP_SIZE, max_new_tokens: 4, seed: 1 }
}

/// How the gradients come about, in a sentence.
fn description(warm_up: u64) -> String {
    format!(
        "Qwen3 form, random weights; {warm_up} supervised AdamW updates at {IMITATION_RATE:e} on {EXAMPLES} solutions of \
         one-digit sums each; then per update {GROUPS} groups of {GROUP_SIZE} responses that the published policy \
         generated, judged by the task; GEPO, fresh AdamW moments, f32 master weights, published in bf16"
    )
}

/// A trainer in the midst of reinforcement.
struct Training<'a> {
    practice: &'a Practice,
    trainer: Trainer,
    /// The next work order.
    next: u64,
}

impl<'a> Training<'a> {
    /// Begins reinforcement of `weights`.
    fn new(practice: &'a Practice, weights: &Weights, rate: f64) -> anyhow::Result<Self> {
        let train = TrainSection { schedule: Schedule::constant(rate, 0), ..TrainSection::default() };
        Ok(Self { practice, trainer: practice.trainer(weights, &train)?, next: 0 })
    }

    /// The policy as it is published.
    fn publish(&self) -> anyhow::Result<Weights> {
        Ok(self.trainer.decoder().to_weights(PUBLISHED)?)
    }

    /// One update from rollouts of the newest publication. Returns what there was to learn from.
    fn update(&mut self, published: &Weights) -> anyhow::Result<Value> {
        let groups = self.practice.rollouts(&self.practice.policy(0, published)?, self.next, GROUPS)?;
        self.next += GROUPS;
        let rewards = |group: &StoredGroup| -> Vec<f32> {
            group.group.trajectories.iter().map(|trajectory| trajectory.reward).collect()
        };
        let mean = groups.iter().flat_map(rewards).sum::<f32>() / (GROUPS as f32 * GROUP_SIZE as f32);
        let differing = |group: &&StoredGroup| rewards(group).windows(2).any(|pair| pair[0] != pair[1]);
        let report = self.trainer.update(self.practice.workload(), &groups)?;
        Ok(json!({
            "reward": mean,
            "groups_of_different_rewards": groups.iter().filter(differing).count(),
            "gradient_norm": report.step.gradient_norm,
        }))
    }
}

/// κ updates and what the publication after them costs.
fn publication(
    training: &mut Training<'_>,
    old: &Weights,
    rate: f64,
    console: &Console,
) -> anyhow::Result<(Weights, Value, Measure)> {
    let mut updates = Vec::new();
    for _ in 0..PERIOD {
        updates.push(training.update(old)?);
    }
    let new = training.publish()?;
    let measure = measure(old, &new)?;
    console.say(format!("publication at {rate:e}\n  updates    {}\n{measure}", json!(updates)));
    let mut row = measure.to_json();
    row["learning_rate"] = json!(rate);
    row["updates"] = json!(updates);
    Ok((new, row, measure))
}

/// Cuts both policies as the publisher does, tensors one after the other, and measures chunk by chunk.
fn measure(old: &Weights, new: &Weights) -> anyhow::Result<Measure> {
    let bytes =
        |weights: &Weights| weights.iter().flat_map(|tensor| tensor.bytes()).copied().collect::<Vec<u8>>();
    let (old, new) = (bytes(old), bytes(new));
    let mut measure = Measure::default();
    for (old, new) in old.chunks(CHUNK_BYTES).zip(new.chunks(CHUNK_BYTES)) {
        measure.chunk(old, new, Width::Two)?;
    }
    Ok(measure)
}

/// As a directory for `cargo lab broadcast --policies`, whose weights have a second name for
/// `cargo lab vectors delta`.
fn save(dir: &Path, name: &str, model: &ModelConfig, weights: &Weights) -> anyhow::Result<()> {
    let target = dir.join(name);
    character_policy::save(&target, model, weights)?;
    let second = dir.join(format!("{name}.safetensors"));
    fs::hard_link(target.join("model.safetensors"), &second)
        .with_context(|| format!("cannot link {}", second.display()))
}

/// The element type of publications.
const PUBLISHED: DType = DType::BF16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_study_keeps_its_bounds_and_saves_a_case_for_the_vectors() {
        let dir = tempfile::tempdir().unwrap();
        let save = Some(dir.path().join("case"));
        let study = DeltaStudy { warm_up: 150, publications: 1, tiny: true, save };
        let report = run(&study, &Console::new(true)).unwrap();
        let rows = report.json["publications"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{}", report.json);
        assert!(rows.iter().all(|row| row["identical"] == true), "{}", report.json);
        assert!(rows[0]["over_entropy"].as_f64().unwrap() < MAX_OVER_ENTROPY, "{}", report.json);
        let again = crate::conformance::delta::check(dir.path(), &Console::new(true)).unwrap();
        assert!(again.passed, "{}", again.json);
        assert_eq!(again.json["directories"][0]["chunks"]["sparse"], rows[0]["chunks"]["sparse"]);
    }
}
