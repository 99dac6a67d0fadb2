//! Our engine, in a process of its own: the same prompt, and as many tokens as the peers have.

use super::task::{RaceRates, RaceTask};
use crate::bench::memory;
use anyhow::{Context as _, ensure};
use echo_policy::generation;
use echo_policy::generation::device::Survey;
use echo_policy::generation::dyn_backend::AnyBackend;
use echo_policy::generation::{Backend as _, Completion, Generation, SampleRequest};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::Weights;
use echo_policy::sampling::SamplingParams;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// The model on whatever device it is asked for.
type Policy = generation::Policy<AnyBackend>;

/// Decides what is drawn.
const SEED: [u8; 32] = [7; 32];
/// Tokens of the pass that comes before all clocks.
const WARM_UP: usize = 8;

/// One generation, timed step by step.
struct Course {
    /// The prompt, and the first token after it.
    prefill_s: f64,
    /// Each token after the first, of all samples together.
    steps_s: Vec<f64>,
    /// The response of each sample.
    completions: Vec<Completion>,
}

impl Course {
    /// Tokens a second of all samples, from the second token on.
    fn decode_tok_s(&self) -> f64 {
        (self.completions.len() * self.steps_s.len()) as f64 / self.steps_s.iter().sum::<f64>()
    }
}

/// Times the prompt, one sample alone and the whole group.
/// Fails when the model cannot be read, or the engine fails, or its numbers depend on neighbours or
/// differ from those that it scores.
pub(super) fn run(task: &RaceTask) -> anyhow::Result<RaceRates> {
    generation::set_threads(task.threads)?;
    let config = ModelConfig::from_file(&task.model.join("config.json"))?;
    let since = Instant::now();
    let weights = Weights::load_dir(&task.model, &config)?;
    let device = Survey::take().candidates(&task.device, task.precision)?.swap_remove(0);
    let (about_device, device) = (serde_json::to_value(&device)?, device.open()?);
    let free = device.free_bytes();
    let policy = Arc::new(device.policy(0, &config, &weights, task.precision)?);
    let load_s = since.elapsed().as_secs_f64();
    let new = task.given.len();

    course(&policy, &task.prompt[..task.prompt.len().min(WARM_UP)], 1, 1)?;
    let single = course(&policy, &task.prompt, 1, new)?;
    let group = course(&policy, &task.prompt, task.samples(), new)?;
    let (alone, among) = (&single.completions[0], &group.completions[0]);
    ensure!(alone == among, "what the first sample drew depends on its neighbours");
    // What an audit of one of them costs.
    let whole = [task.prompt.as_slice(), &among.tokens].concat();
    let since = Instant::now();
    let scores = score(&policy, &whole)?;
    let score_tok_s = whole.len() as f64 / since.elapsed().as_secs_f64();
    ensure!(scores.ends_with(&among.raw_logprobs), "generated log-probs are not the scored ones");
    let logprob = task.probe().map(|probe| score(&policy, &probe)).transpose()?;
    let logprob = logprob.and_then(|scores| scores.last().copied()).context("no token is given")?;

    let (_, peak_mb) = memory::resident()?;
    // A device keeps what it has taken for caches, so at the end that is the most that it held.
    let device_mb =
        free.zip(device.free_bytes()).map(|(before, now)| before.saturating_sub(now) as f64 / 1e6);
    let slowest_step_s = group.steps_s.iter().copied().fold(0.0, f64::max);
    let about = json!({
        "echo-policy": env!("CARGO_PKG_VERSION"), "debug_assertions": cfg!(debug_assertions), "threads": task.threads,
        "device": about_device, "device_mb": device_mb, "precision": task.precision, "load_s": load_s, "peak_mb": peak_mb,
        "score_tok_s": score_tok_s, "slowest_step_s": slowest_step_s,
        "cache_bytes_per_token": policy.backend().cache_bytes_per_token(), "drawn": "inverse CDF at temperature 1",
    });
    Ok(RaceRates {
        prefill_tok_s: task.prompt.len() as f64 / single.prefill_s,
        single_tok_s: single.decode_tok_s(),
        group_tok_s: group.decode_tok_s(),
        logprob: f64::from(logprob),
        about,
    })
}

/// Draws one token more than `new`: the first comes with the prompt.
fn course(policy: &Arc<Policy>, prompt: &[u32], samples: usize, new: usize) -> anyhow::Result<Course> {
    let request = SampleRequest {
        prompt: prompt.to_vec(),
        seed: SEED,
        samples: u32::try_from(samples)?,
        stop_ids: Vec::new(),
        stop_strings: None,
        limits: Vec::new(),
        max_heard: 0,
        params: SamplingParams::unbiased(u32::try_from(new + 1)?),
    };
    let mut generation = Generation::start(Arc::clone(policy), vec![request])?;
    let mut steps_s = Vec::new();
    loop {
        let since = Instant::now();
        let finished = generation.step()?;
        steps_s.push(since.elapsed().as_secs_f64());
        if finished {
            break;
        }
    }
    // The prompt is one step, each later token another: else the figures would mean something else.
    ensure!(steps_s.len() == new + 1, "{} tokens took {} steps", new + 1, steps_s.len());
    let prefill_s = steps_s.remove(0);
    let completions = generation.into_completions().pop().context("no responses")?;
    Ok(Course { prefill_s, steps_s, completions })
}

fn score(policy: &Policy, tokens: &[u32]) -> anyhow::Result<Vec<f32>> {
    generation::score(policy, &[tokens.to_vec()])?.pop().context("no scores")
}
