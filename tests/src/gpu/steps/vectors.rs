//! Whether a device's numbers are right: reference models, random prompts against the f32
//! reference, and draws that one device makes and another one audits.

use super::{GpuStepOutcome, StepOptions};
use crate::gpu::kit;
use echo_policy::audit::{Audit, Draw, Tolerance};
use echo_policy::bench_models::tokens;
use echo_policy::conformance::backends::{Agreement, AgreementLimits, compare, models, prompts};
use echo_policy::conformance::vectors::models::{VALUE_TOLERANCE, check_backend};
use echo_policy::generation::device::Device;
use echo_policy::generation::{Backend, Completion, CpuBackend, Generation, Policy, SampleRequest};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use echo_policy::sampling::SamplingParams;
use serde::Serialize;
use std::sync::Arc;

/// Largest |Δ| of a logit, log-prob or entropy of the reference models in bf16: their logits reach
/// 10, and bf16 rounds to one part in 256.
const BF16_TOLERANCE: f64 = 0.25;
/// Responses to an order whose responses are audited, and tokens of a response.
const SAMPLES: u32 = 4;
const RESPONSE: u32 = 64;

/// How much is tried.
#[derive(Clone, Copy)]
pub(super) struct Amount {
    /// Random prompts in each precision, dealt to the models evenly.
    prompts: usize,
    /// Tokens of the longest of them.
    longest: usize,
    /// Orders of each model whose responses are audited, each way.
    orders: u64,
}

impl Amount {
    /// All that is promised.
    pub(super) const FULL: Self = Self { prompts: 2000, longest: 300, orders: 64 };
    /// What a processor does in some seconds.
    pub(super) const SMALL: Self = Self { prompts: 100, longest: 300, orders: 8 };
    /// What software that imitates a card does in some seconds.
    pub(super) const LEAST: Self = Self { prompts: 10, longest: 40, orders: 1 };
}

pub(super) fn run(options: &StepOptions, outcome: &mut GpuStepOutcome) -> anyhow::Result<()> {
    let device = options.open_cuda()?;
    check(
        &device,
        &[Precision::F32, Precision::Bf16],
        if options.rehearse { Amount::SMALL } else { Amount::FULL },
        outcome,
    );
    Ok(())
}

/// Checks `device` in some precisions.
pub(super) fn check(device: &Device, precisions: &[Precision], amount: Amount, outcome: &mut GpuStepOutcome) {
    for &precision in precisions {
        let done = reference_models(device, precision, outcome);
        outcome.part(&format!("reference models in {precision}"), done);
        let done = random_prompts(device, precision, amount, outcome);
        outcome.part(&format!("random prompts in {precision}"), done);
        let done = draws(device, precision, amount.orders, outcome);
        outcome.part(&format!("draws and audits in {precision}"), done);
    }
}

fn reference_models(
    device: &Device,
    precision: Precision,
    outcome: &mut GpuStepOutcome,
) -> anyhow::Result<()> {
    let Some(models) = kit::models()? else {
        outcome.figure("models", "no reference models were packed: not compared");
        return Ok(());
    };
    let tolerance = if precision == Precision::F32 { VALUE_TOLERANCE } else { BF16_TOLERANCE };
    let load = |config: &ModelConfig, weights: &Weights| device.load(config, weights, precision);
    let report = check_backend(&models, tolerance, load)?;
    report.failures.iter().for_each(|failure| eprintln!("{failure}"));
    outcome.figure(&format!("models_{precision}"), &report);
    outcome.claim(&format!("reference models in {precision}"), report.failed == 0 && report.passed > 0);
    Ok(())
}

fn random_prompts(
    device: &Device,
    precision: Precision,
    amount: Amount,
    outcome: &mut GpuStepOutcome,
) -> anyhow::Result<()> {
    let (mut of_reference, mut of_cpu) = (Agreement::default(), Agreement::default());
    let models = models()?;
    for (seed, model) in (1..).zip(&models) {
        let backend = [device.load(&model.config, &model.weights, precision)?];
        let cpu = CpuBackend::load_as(&model.config, &model.weights, precision)?;
        let prompts = prompts(&model.config, amount.prompts / models.len(), amount.longest, seed);
        of_reference.add(&compare(&model.reference()?, &backend, &prompts)?[0]);
        of_cpu.add(&compare(&cpu, &backend, &prompts)?[0]);
    }
    for (whom, found) in [("reference", &of_reference), ("cpu", &of_cpu)] {
        eprintln!("{precision} against the {whom}: {found}");
        outcome.figure(&format!("prompts_{precision}_{whom}"), Distance::of(found));
    }
    let claim = format!(
        "{} random prompts in {precision} are within the limits of the f32 reference",
        of_reference.prompts
    );
    outcome.claim(&claim, !of_reference.exceeds(AgreementLimits::of(precision)));
    Ok(())
}

/// How far a device is from something.
#[derive(Serialize)]
struct Distance {
    prompts: u64,
    tokens: u64,
    mean_dlogp: f64,
    max_dlogp: f64,
    mean_kl: f64,
    same_top: f64,
}

impl Distance {
    fn of(found: &Agreement) -> Self {
        Self {
            prompts: found.prompts,
            tokens: found.tokens,
            mean_dlogp: found.mean_dlogp(),
            max_dlogp: found.max_dlogp(),
            mean_kl: found.mean_kl(),
            same_top: found.same_top(),
        }
    }
}

/// Both ways: the device draws and the processor audits, then the other way round.
fn draws(
    device: &Device,
    precision: Precision,
    orders: u64,
    outcome: &mut GpuStepOutcome,
) -> anyhow::Result<()> {
    let mut sums = [Audited::default(); 2];
    let mut same = 0;
    let mut drawn = 0;
    for model in models()? {
        let here = Arc::new(device.policy(0, &model.config, &model.weights, precision)?);
        let cpu = Arc::new(Policy::load_as(0, &model.config, &model.weights, precision)?);
        let requests: Vec<_> = (0..orders).map(|order| request(order, &model.config)).collect();
        let (ours, theirs) = (generate(&here, &requests)?, generate(&cpu, &requests)?);
        let pairs = ours.iter().flatten().zip(theirs.iter().flatten());
        drawn += pairs.clone().count();
        same += pairs.filter(|(a, b)| a.tokens == b.tokens).count();
        let tolerance = Tolerance::of(precision.name(), precision, 1.0)?;
        audit(&cpu, &requests, &ours, &tolerance, &mut sums[0])?;
        audit(&here, &requests, &theirs, &tolerance, &mut sums[1])?;
    }
    let ways = ["device_draws_cpu_audits", "cpu_draws_device_audits"];
    for (way, found) in ways.into_iter().zip(sums) {
        outcome.figure(&format!("{way}_{precision}"), found);
        outcome.claim(
            &format!(
                "{}: no honest response of {} is refused in {precision}",
                way.replace('_', " "),
                found.responses
            ),
            found.refused == 0,
        );
    }
    outcome.figure(&format!("same_responses_{precision}"), same as f64 / drawn.max(1) as f64);
    Ok(())
}

/// What audits of honest responses saw.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Audited {
    responses: u64,
    tokens: u64,
    refused: u64,
    /// Probability by which u missed a token's interval, at the most.
    farthest: f64,
    /// Largest |Δ log p|.
    max_dlogp: f64,
    /// Largest mean of a response.
    worst_mean_dlogp: f64,
}

fn request(order: u64, config: &ModelConfig) -> SampleRequest {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&order.to_le_bytes());
    SampleRequest {
        prompt: tokens(order, 3 + order as usize % 40, config.vocab_size),
        seed,
        samples: SAMPLES,
        stop_ids: Vec::new(),
        stop_strings: None,
        limits: Vec::new(),
        max_heard: 0,
        params: SamplingParams::unbiased(RESPONSE),
    }
}

fn generate<B: Backend>(
    policy: &Arc<Policy<B>>,
    requests: &[SampleRequest],
) -> anyhow::Result<Vec<Vec<Completion>>> {
    Ok(Generation::start(Arc::clone(policy), requests.to_vec())?.run()?)
}

fn audit<B: Backend>(
    policy: &Policy<B>,
    requests: &[SampleRequest],
    groups: &[Vec<Completion>],
    tolerance: &Tolerance,
    sum: &mut Audited,
) -> anyhow::Result<()> {
    for (request, group) in requests.iter().zip(groups) {
        let auditing = Audit::new(policy, &request.prompt, &request.seed, &request.params)?;
        for (sample, completion) in (0..).zip(group) {
            let draws: Vec<Draw> = (0..completion.tokens.len())
                .map(|at| Draw { at, position: at as u32, logprob: completion.logprobs[at] })
                .collect();
            let evidence = auditing.look(sample, &completion.tokens, &draws)?;
            sum.responses += 1;
            sum.tokens += evidence.tokens() as u64;
            sum.refused += u64::from(evidence.fault(tolerance).is_some());
            sum.farthest = sum.farthest.max(evidence.farthest());
            sum.max_dlogp = sum.max_dlogp.max(evidence.quantile(1.0).into());
            sum.worst_mean_dlogp = sum.worst_mean_dlogp.max(evidence.mean());
        }
    }
    Ok(())
}
