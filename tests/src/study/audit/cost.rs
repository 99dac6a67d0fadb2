//! What an audit costs, as a share of generating what it looks at.

use crate::harness::cargo::workspace_root;
use crate::harness::statistics::median;
use crate::models::random_weights;
use crate::models::random_weights::Size;
use crate::output::console::Console;
use echo_policy::audit::{ClaimedSample, Standard, examine};
use echo_policy::generation::{Completion, Generation, Policy, SampleRequest};
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use echo_policy::sampling::{DrawRule, SamplingParams};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// The group: samples, tokens of the prompt and of each response.
const GROUP: (u32, usize, u32) = (16, 128, 256);
/// Rounds by turns; the median counts.
const ROUNDS: usize = 3;
/// In which numbers: those that policies are published in.
const PRECISION: Precision = Precision::Bf16;

/// Seconds, on all cores.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cost {
    /// The size of the model, whose weights are random.
    size: Size,
    precision: Precision,
    /// To generate a group, and one response alone.
    generate_group_s: f64,
    generate_one_s: f64,
    /// To audit all responses of the group, and one.
    audit_group_s: f64,
    audit_one_s: f64,
}

impl Cost {
    /// What a learner looks at in every group, as a share of the whole group's generation.
    pub(super) fn one_of_group(&self) -> f64 {
        self.audit_one_s / self.generate_group_s
    }

    /// A response as a share of its own generation, alone.
    pub(super) fn one_alone(&self) -> f64 {
        self.audit_one_s / self.generate_one_s
    }

    pub(super) fn measure(size: Size, rule: DrawRule, console: &Console) -> anyhow::Result<Self> {
        let (dir, _) = random_weights::places(size, &workspace_root().join("target/peers"));
        random_weights::make(size, &dir)?;
        let config = size.config()?;
        let policy = Arc::new(Policy::load_as(1, &config, &Weights::load_dir(&dir, &config)?, PRECISION)?);
        let (samples, prompt, tokens) = GROUP;
        let prompt = random_weights::tokens(1, prompt, config.vocab_size);
        let params = SamplingParams { rule, ..SamplingParams::unbiased(tokens) };
        let mut seconds: [Vec<f64>; 4] = Default::default();
        for _ in 0..ROUNDS {
            let group = timed(&mut seconds[0], || generate(&policy, &prompt, params, samples))?;
            timed(&mut seconds[1], || generate(&policy, &prompt, params, 1))?;
            timed(&mut seconds[2], || audit(&policy, &prompt, params, &group))?;
            timed(&mut seconds[3], || audit(&policy, &prompt, params, &group[..1]))?;
        }
        let [generate_group_s, generate_one_s, audit_group_s, audit_one_s] = seconds.map(median);
        let cost =
            Self { size, precision: PRECISION, generate_group_s, generate_one_s, audit_group_s, audit_one_s };
        console.say(format!(
            "{size} in {PRECISION}, groups of {samples}, {} + {tokens} tokens: generated in {generate_group_s:.2} s, one response alone in \
             {generate_one_s:.2} s; audited in {audit_group_s:.2} s, one response in {audit_one_s:.3} s",
            prompt.len()
        ));
        console.say(format!(
            "an audit of one response costs {:.1} % of generating it alone, and {:.1} % of its group; of all responses, {:.1} % of the group",
            100.0 * cost.one_alone(),
            100.0 * cost.one_of_group(),
            100.0 * audit_group_s / generate_group_s
        ));
        Ok(cost)
    }
}

fn timed<T>(seconds: &mut Vec<f64>, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let since = Instant::now();
    let done = work()?;
    seconds.push(since.elapsed().as_secs_f64());
    Ok(done)
}

fn generate(
    policy: &Arc<Policy>,
    prompt: &[u32],
    params: SamplingParams,
    samples: u32,
) -> anyhow::Result<Vec<Completion>> {
    let request = SampleRequest {
        prompt: prompt.to_vec(),
        seed: [3; 32],
        samples,
        stop_ids: Vec::new(),
        stop_strings: None,
        limits: Vec::new(),
        max_heard: 0,
        params,
    };
    Ok(Generation::start(policy.clone(), vec![request])?.run()?.remove(0))
}

fn audit(
    policy: &Arc<Policy>,
    prompt: &[u32],
    params: SamplingParams,
    group: &[Completion],
) -> anyhow::Result<()> {
    let samples = (0..).zip(group).map(|(index, completion)| {
        let tokens = completion.tokens.iter().map(|token| (*token, true));
        ClaimedSample::new(index, tokens, &completion.logprobs, completion.versions.iter().copied())
    });
    let policies = [policy.clone()];
    let tolerance = Standard::of(PRECISION.name(), params.temperature)?.tolerance;
    let found = examine(&policies, prompt, &[3; 32], &params, samples, &tolerance)?;
    anyhow::ensure!(found.fault.is_none(), "an honest group is found to be wrong: {:?}", found.fault);
    Ok(())
}
