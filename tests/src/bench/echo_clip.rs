//! What EchoClip adds to a training step (EchoRL, section 4): the same updates with and without it, by turns.
//!
//! Every group has successes to choose from and every response many steps, which is when it has most to do.

use crate::harness::machine;
use crate::harness::statistics::median;
use crate::models::in_process_training::{Practice, PracticeSetting};
use crate::output::console::{CommandReport, Console};
use echo_learner::config::TrainSection;
use echo_learner::intake::buffer::StoredGroup;
use echo_learner::training::lr_schedule::Schedule;
use echo_learner::training::objective::EchoClip;
use echo_learner::training::trainer::Trainer;
use echo_policy::model::config::TinySizes;
use echo_protocol::run::charter::TaskSpec;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::rng::Draws;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::{Trajectory, TrajectoryGroup, spans};
use serde_json::json;
use std::iter::repeat_n;
use std::time::Instant;

/// Groups of an update, responses of a group, tokens of a response, tokens of a step.
const GROUPS: u64 = 2;
const GROUP_SIZE: u32 = 8;
const LENGTH: u32 = 128;
const STEP: usize = 8;
/// What a token of the made-up responses is said to have been worth to its policy.
const LOGP: f32 = -4.0;
/// Time with it over time without, at most.
const MAX_TIME: f64 = 1.02;

/// Makes `updates` updates of each kind, by turns.
///
/// # Errors
/// When an update of either kind fails.
pub fn run(updates: u32, console: &Console) -> anyhow::Result<CommandReport> {
    let practice = Practice::new(setting())?;
    let groups = groups(&practice)?;
    let weights = practice.start().clone();
    let plain = TrainSection { schedule: Schedule::constant(1e-6, 0), ..TrainSection::default() };
    let mut with = plain;
    with.objective.objective.echo_clip = Some(EchoClip::default());
    let mut trainers = [practice.trainer(&weights, &with)?, practice.trainer(&weights, &plain)?];
    let mut seconds = [Vec::new(), Vec::new()];
    let mut mined = Vec::new();
    for update in 0..=updates {
        // By turns in both orders, so that neither always comes first.
        for which in if update % 2 == 0 { [0, 1] } else { [1, 0] } {
            let (taken, clips) = timed(&mut trainers[which], &practice, &groups)?;
            // The first of each fills caches and buffers.
            if update > 0 {
                seconds[which].push(taken);
            }
            if which == 0 {
                mined.push(clips);
            }
        }
    }
    let [ours, without] = seconds.clone().map(median);
    let pairs = seconds[0].iter().zip(&seconds[1]);
    let time = median(pairs.map(|(with, without)| with / without));
    let clips = mined.into_iter().min().unwrap_or_default();
    console.say(format!(
        "{ours:.3} s with EchoClip, {without:.3} s without: {time:.3} × (at most {MAX_TIME}); {clips} clips an update at least"
    ));
    let json = json!({
        "ours": {"update_s": ours, "clips": clips}, "peers": {"without": {"update_s": without}},
        "ratios": {"without": {"time": time}}, "machine": machine::describe(),
        "runs": {"ours": seconds[0], "without": seconds[1]},
        "setting": {"groups": GROUPS, "group_size": GROUP_SIZE, "response_tokens": LENGTH, "step_tokens": STEP},
    });
    Ok(CommandReport { passed: time <= MAX_TIME && clips == GROUPS, json })
}

/// Seconds of an update, and the clips that it mined.
fn timed(trainer: &mut Trainer, practice: &Practice, groups: &[StoredGroup]) -> anyhow::Result<(f64, u64)> {
    let since = Instant::now();
    let report = trainer.update(practice.workload(), groups)?;
    Ok((since.elapsed().as_secs_f64(), report.stats.echo_clips().0))
}

fn setting() -> PracticeSetting {
    let sizes = TinySizes {
        vocab: 128,
        hidden: 128,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
        intermediate: 384,
        positions: 256,
    };
    let task = TaskSpec::new("chain_sum").with("terms", 3).with("steps", 1);
    PracticeSetting {
        name: "echo-clip",
        sizes,
        task,
        group_size: GROUP_SIZE,
        max_new_tokens: LENGTH,
        seed: 1,
    }
}

/// Groups of made-up responses, every second one of which is right.
fn groups(practice: &Practice) -> anyhow::Result<Vec<StoredGroup>> {
    let workload = practice.workload();
    let newline = workload.tokenizer.encode("\n")?;
    let digits = workload.tokenizer.encode("0123456789")?;
    let mut draws = Draws::new([7; 32]);
    let mut response = || -> Vec<u32> {
        let mut tokens = Vec::new();
        while tokens.len() < LENGTH as usize {
            tokens.extend((1..STEP).map(|_| digits[draws.below(digits.len() as u64) as usize]));
            tokens.extend(&newline);
        }
        tokens.truncate(LENGTH as usize);
        tokens
    };
    let group = |counter| {
        let trajectories = (0..GROUP_SIZE).map(|index| Trajectory {
            response: response(),
            turns: Vec::new(),
            logprobs: vec![LOGP; LENGTH as usize],
            versions: spans(repeat_n(PolicyVersion(0), LENGTH as usize)),
            reward: (index % 2) as f32,
            stopped: false,
            omega: Default::default(),
            raw_logprobs: Vec::new(),
        });
        let trajectories: Vec<Trajectory> = trajectories.collect();
        let correct = trajectories.iter().map(|trajectory| trajectory.reward > 0.0).collect();
        let (run, node) = (workload.run, workload.charter.learner);
        let group = TrajectoryGroup {
            run,
            lease: LeaseId(0),
            counter: OrderCounter(counter),
            node,
            trajectories,
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        };
        StoredGroup { arrival: counter, group, correct }
    };
    Ok((0..GROUPS).map(group).collect())
}
