//! What a newer policy costs the responses that are being generated: those that are interrupted,
//! against those that are waited for.
//!
//! The same orders with the same seeds are generated to their ends in four ways: without any newer
//! policy; with caches that are computed anew under it; with caches that are kept; and with a
//! generation that begins nothing new until all that is in flight has ended, and changes the policy
//! then (the baseline of AReaL, §7.5). Lengths have a long tail, as those of answers that think
//! have. Newer policies come as a learner makes them, of what was generated: after equally many
//! finished orders in all ways. Their weights are those of the first, as neither times nor lengths
//! depend on what weights say.
//!
//! What counts is the better of the two interruptible ways, as an operator chooses one: computing
//! anew pays where reading is much cheaper than generating, as on GPUs, and keeping everywhere.

use super::rollout::Size;
use crate::harness::cargo::workspace_root;
use crate::harness::machine;
use crate::harness::statistics::median;
use crate::models::random_weights;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use echo_policy::generation;
use echo_policy::generation::{Generation, GenerationLimits, Policy, PolicyTakeover, SampleRequest, Ticket};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use echo_policy::sampling::SamplingParams;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Rollouts a second over those of who waits, at least, of the better interruptible way (AReaL,
/// §7.5: 12 to 17 %).
const MIN_GAIN: f64 = 1.12;
/// The longest response over the median one.
const TAIL: f64 = 16.0;
/// Deviation of the logarithm of lengths.
const SPREAD: f64 = 1.0;
/// Decides lengths and prompts.
const SEED: u64 = 11;

/// The model, the orders, and how newer policies come.
#[derive(Clone, Debug)]
pub struct InterruptBench {
    /// The size of the model, whose weights are random.
    pub size: Size,
    /// Orders that each generation answers to their ends.
    pub orders: usize,
    /// Responses to each order.
    pub samples: usize,
    /// Sequences in flight, at most.
    pub in_flight: usize,
    /// Tokens of a prompt.
    pub prompt: usize,
    /// The median length of a response, in tokens.
    pub median: usize,
    /// Newer policies that come.
    pub policies: usize,
    /// Generations of each way, by turns; the median counts.
    pub rounds: usize,
    /// Threads of the engine.
    pub threads: usize,
    /// In which numbers it computes.
    pub precision: Precision,
}

/// How a newer policy is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    Undisturbed,
    Recompute,
    Keep,
    Wait,
}

impl Way {
    const ALL: [Self; 4] = [Self::Undisturbed, Self::Recompute, Self::Keep, Self::Wait];

    fn takeover(self) -> PolicyTakeover {
        match self {
            Self::Undisturbed | Self::Recompute => PolicyTakeover::Recompute,
            Self::Keep => PolicyTakeover::Keep,
            Self::Wait => PolicyTakeover::Wait,
        }
    }
}

/// One generation of all orders.
#[derive(Clone, Debug, Serialize)]
struct Course {
    seconds: f64,
    rollouts_per_s: f64,
    /// Seconds from each installation to the first tokens under the new version.
    first_token_s: Vec<f64>,
    /// Tokens that were computed once more, for each policy that took over.
    recomputed_per_interrupt: f64,
    /// Tokens that were drawn and are in no response.
    lost: u64,
}

/// The orders, and the policy that they begin with.
struct Work {
    config: ModelConfig,
    /// Where weights lie, which every policy maps for itself, as a node's do.
    dir: PathBuf,
    requests: Vec<SampleRequest>,
    limits: GenerationLimits,
    precision: Precision,
    /// Newer policies that come.
    policies: u64,
}

impl Work {
    fn new(bench: &InterruptBench, config: ModelConfig, dir: PathBuf) -> Self {
        Self {
            requests: requests(bench, &config),
            config,
            dir,
            limits: GenerationLimits { sequences: bench.in_flight, ..GenerationLimits::default() },
            precision: bench.precision,
            policies: bench.policies as u64,
        }
    }
}

/// Generates the same orders in every way, by turns, and compares rollouts a second.
///
/// # Errors
/// When the model cannot be made, or the engine fails, or a way of meeting newer policies changes
/// how long responses are.
pub fn run(bench: &InterruptBench, console: &Console) -> anyhow::Result<CommandReport> {
    generation::set_threads(bench.threads)?;
    let home = workspace_root().join("target/peers");
    std::fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    let (dir, _) = random_weights::places(bench.size, &home);
    random_weights::make(bench.size, &dir)?;
    let config = bench.size.config()?;
    let work = Work::new(bench, config, dir);

    let mut courses: BTreeMap<Way, Vec<Course>> = BTreeMap::new();
    for round in 1..=bench.rounds {
        for way in Way::ALL {
            let course = course(&work, way, (bench.orders / (bench.policies + 1)).max(1))?;
            console.say(format!(
                "round {round}: {way:?}: {:.1} rollouts/s, {} policies took over, {:.0} ms to the first token under one, {:.0} tokens anew each",
                course.rollouts_per_s,
                course.first_token_s.len(),
                median(course.first_token_s.iter().copied()) * 1e3,
                course.recomputed_per_interrupt,
            ));
            courses.entry(way).or_default().push(course);
        }
    }
    report(bench, &courses, console)
}

fn report(
    bench: &InterruptBench,
    courses: &BTreeMap<Way, Vec<Course>>,
    console: &Console,
) -> anyhow::Result<CommandReport> {
    let rate = |way: Way| median(courses[&way].iter().map(|course| course.rollouts_per_s));
    let over_wait = |way: Way| rate(way) / rate(Way::Wait);
    let [recompute, keep] = [Way::Recompute, Way::Keep].map(over_wait);
    let gain = recompute.max(keep);
    let verdict = if gain >= MIN_GAIN { "reached" } else { "MISSED" };
    console.say(format!("{verdict}: rollouts a second over waiting {gain:.3} (at least {MIN_GAIN})"));
    console.say(format!("caches computed anew {recompute:.3}, kept {keep:.3}"));
    let figures = |way: Way| {
        let of_all = |figure: fn(&Course) -> f64| median(courses[&way].iter().map(figure));
        let first: Vec<f64> =
            courses[&way].iter().flat_map(|course| course.first_token_s.iter().copied()).collect();
        json!({
            "rollouts_per_s": rate(way),
            "first_token_s": median(first.iter().copied()),
            "first_token_max_s": first.iter().copied().fold(0.0, f64::max),
            "recomputed_per_interrupt": of_all(|course| course.recomputed_per_interrupt),
            "lost": of_all(|course| course.lost as f64),
        })
    };
    let json = json!({
        "ours": {"undisturbed": figures(Way::Undisturbed), "recompute": figures(Way::Recompute), "keep": figures(Way::Keep)},
        "peers": {"wait": figures(Way::Wait)},
        "ratios": {"best_over_wait": gain, "recompute_over_wait": recompute, "keep_over_wait": keep},
        "machine": machine::describe(),
        "runs": Way::ALL.map(|way| json!({"way": way, "courses": courses[&way]})),
        "setting": {
            "size": bench.size, "orders": bench.orders, "samples": bench.samples, "in_flight": bench.in_flight, "prompt": bench.prompt,
            "median": bench.median, "tail": TAIL, "spread": SPREAD, "policies": bench.policies, "rounds": bench.rounds,
            "threads": bench.threads, "precision": bench.precision,
        },
    });
    Ok(CommandReport { passed: gain >= MIN_GAIN, json })
}

/// Orders whose lengths are log-normal, cut off at [`TAIL`] times the median.
fn requests(bench: &InterruptBench, config: &ModelConfig) -> Vec<SampleRequest> {
    let longest = bench.median as f64 * TAIL;
    let mut numbers = (0..).map(|at| random_weights::unit(SEED, at));
    let mut length = || {
        // Box and Muller.
        let (a, b) = (numbers.next().unwrap_or(0.5), numbers.next().unwrap_or(0.5));
        let normal = (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        (bench.median as f64 * (SPREAD * normal).exp()).clamp(1.0, longest).round() as u32
    };
    let request = |order: usize| SampleRequest {
        prompt: random_weights::tokens(order as u64, bench.prompt, config.vocab_size),
        seed: [order as u8; 32],
        samples: bench.samples as u32,
        stop_ids: Vec::new(),
        stop_strings: None,
        limits: (0..bench.samples).map(|_| length()).collect(),
        max_heard: 0,
        params: SamplingParams::unbiased(longest as u32),
    };
    (0..bench.orders).map(request).collect()
}

/// Generates all orders, with a newer policy after every `each` finished orders.
fn course(work: &Work, way: Way, each: usize) -> anyhow::Result<Course> {
    let policy = |version| {
        let weights = Weights::load_dir(&work.dir, &work.config)?;
        anyhow::Ok(Arc::new(Policy::load_as(version, &work.config, &weights, work.precision)?))
    };
    let mut generation = Generation::new(policy(0)?, work.limits, way.takeover());
    for (ticket, request) in (0..).map(Ticket).zip(&work.requests) {
        generation.submit(ticket, request.clone())?;
    }
    // Since when the newest policy is there, and how many requests had gone on under newer ones by then.
    let (mut version, mut installed, mut first_token_s) = (0, None, Vec::new());
    let since = Instant::now();
    loop {
        let due = each as u64 * (version + 1);
        let comes = way != Way::Undisturbed && version < work.policies;
        if comes && generation.tally().finished >= due {
            version += 1;
            let newer = policy(version)?;
            let (since, _) = installed.unwrap_or_else(|| (Instant::now(), 0));
            generation.install(newer)?;
            installed = Some((since, generation.tally().succeeded));
        }
        let before = generation.tally().drawn;
        let finished = generation.step()?;
        let drew = generation.policy().version() == version && generation.tally().drawn > before;
        let is_first = |(_, succeeded): &mut (Instant, u64)| {
            drew && (generation.tally().succeeded > *succeeded || generation.lingering() == 0)
        };
        first_token_s.extend(installed.take_if(is_first).map(|(since, _)| since.elapsed().as_secs_f64()));
        if finished {
            break;
        }
    }
    let seconds = since.elapsed().as_secs_f64();
    let tally = generation.tally();
    let completions = generation.into_completions();
    let rollouts: usize = completions.iter().map(Vec::len).sum();
    let mut kept = 0;
    for (completions, request) in completions.iter().zip(&work.requests) {
        for (completion, limit) in completions.iter().zip(&request.limits) {
            ensure!(completion.tokens.len() == *limit as usize, "a response ended before its time");
            kept += completion.tokens.len() as u64;
        }
    }
    Ok(Course {
        seconds,
        rollouts_per_s: rollouts as f64 / seconds,
        recomputed_per_interrupt: tally.recomputed as f64 / tally.interrupts.max(1) as f64,
        lost: tally.drawn - kept,
        first_token_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench() -> InterruptBench {
        InterruptBench {
            size: Size::Tiny,
            orders: 6,
            samples: 4,
            in_flight: 8,
            prompt: 8,
            median: 6,
            policies: 3,
            rounds: 1,
            threads: 1,
            precision: Precision::F32,
        }
    }

    #[test]
    fn lengths_have_the_median_and_the_tail_that_are_asked_for() {
        let bench = InterruptBench { orders: 500, samples: 4, median: 32, ..bench() };
        let requests = requests(&bench, &Size::Tiny.config().unwrap());
        let mut lengths: Vec<u32> = requests.into_iter().flat_map(|request| request.limits).collect();
        lengths.sort_unstable();
        assert!((28..=36).contains(&lengths[1000]), "{}", lengths[1000]);
        // A sixth is longer than one deviation above.
        assert!((75..=100).contains(&lengths[1682]), "{}", lengths[1682]);
        assert!(lengths[1999] <= 512 && lengths[0] >= 1);
    }

    #[test]
    fn every_way_draws_all_tokens_and_loses_none() {
        let home = tempfile::tempdir().unwrap();
        let (dir, _) = random_weights::places(Size::Tiny, home.path());
        random_weights::make(Size::Tiny, &dir).unwrap();
        let work = Work::new(&bench(), Size::Tiny.config().unwrap(), dir);
        for way in Way::ALL {
            let course = course(&work, way, 1).unwrap();
            assert_eq!(course.lost, 0, "{way:?}");
            let took_over = course.first_token_s.len() as u64;
            assert_eq!(took_over == 0, way == Way::Undisturbed, "{way:?}");
            assert!(took_over <= work.policies, "{way:?}: {took_over}");
            let anew = course.recomputed_per_interrupt > 0.0;
            assert_eq!(anew, way == Way::Recompute, "{way:?}");
        }
    }
}
