//! What isolation costs, against bubblewrap doing the same with the same root, by turns.
//!
//! Bubblewrap gives namespaces and a read-only root. Ours gives Landlock, a filter of system
//! calls, a control group and limits on top. Both collect what the program writes. What
//! bubblewrap has no counterpart for is held to a figure: small judgings, many inputs, and
//! instances of WebAssembly verifiers.

mod bubblewrap;
mod judging;

use crate::harness::machine;
use crate::harness::statistics::median;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use bubblewrap::Bubblewrap;
use clap::Args;
use echo_protocol::wire::content_id::ContentId;
use echo_sandbox::isolation::{End, Job, Requirements, RunLimits, Sandbox};
use echo_sandbox::wasm::{Runtime, WasmVerifier, measure_instantiation};
use judging::JudgingBench;
use serde::Serialize;
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs of each kind in a round; the first of each fills caches and does not count.
const RUNS: usize = 60;
/// Instances of a WebAssembly module in a round.
const INSTANCES: usize = 2000;
/// Ours over bubblewrap's, at most: an empty run, and the start of Python.
const MAX_EMPTY: f64 = 1.5;
const MAX_PYTHON: f64 = 1.25;
/// Judgings of small Python programs a second, at least.
const MIN_JUDGINGS: f64 = 150.0;
/// Seconds that all pairs of program and input may take.
const MAX_PAIRS_S: f64 = 20.0;
/// Microseconds of an instance, at most.
const MAX_INSTANCE_US: f64 = 100.0;
/// The repository's example of a verifier.
const VERIFIER: &str = include_str!("../../../sandbox/verifiers/letter_counting.wat");

/// How often everything is measured.
#[derive(Args, Clone, Copy, Debug)]
pub struct SandboxBench {
    /// Rounds; the medians of their figures count.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
}

/// A program that does nothing.
struct Program {
    path: &'static str,
    args: &'static [&'static str],
}

const EMPTY: Program = Program { path: "/bin/true", args: &[] };
const PYTHON: Program = Program { path: "/usr/bin/python3", args: &["-I", "-S", "-c", "pass"] };

/// The figures of one round.
#[derive(Clone, Copy, Debug, Serialize)]
struct Round {
    /// Median milliseconds of an empty run: ours, bubblewrap's.
    empty_ms: [f64; 2],
    /// The same of a Python that does nothing.
    python_ms: [f64; 2],
    /// Judgings of small Python programs a second.
    judgings_s: f64,
    /// Seconds of all pairs of program and input.
    pairs_s: f64,
    /// Median microseconds of an instance.
    instance_us: f64,
}

/// Measures round by round.
///
/// # Errors
/// When programs cannot be isolated here, bubblewrap or Python is not installed, or something does
/// not end as it should.
pub fn run(bench: SandboxBench, console: &Console) -> anyhow::Result<CommandReport> {
    let requirements = Requirements::default();
    let sandbox = Arc::new(Sandbox::open(&requirements)?);
    ensure!(
        Path::new(PYTHON.path).exists(),
        "there is no {}: install it (on Debian and Ubuntu: apt install python3)",
        PYTHON.path
    );
    let peer = Bubblewrap::find(&requirements)?;
    console.say(format!("{} {}", peer.version(), peer.flags().join(" ")));
    console.say(format!("ours: {:?}", sandbox.report()));
    let scratch = tempfile::tempdir()?;
    let judging = JudgingBench::prepare(sandbox.clone(), scratch.path())?;
    let bytes = wat::parse_str(VERIFIER)?;
    let verifier = Runtime::new()?.load(ContentId::of(&bytes), &bytes)?;
    let mut rounds = Vec::new();
    for number in 1..=bench.rounds {
        let round = measure(&sandbox, &peer, &judging, &verifier)?;
        let Round { empty_ms: [empty, peer_empty], python_ms: [python, peer_python], .. } = round;
        console.say(format!(
            "round {number}: empty run {empty:.2} ms (bubblewrap {peer_empty:.2}), Python {python:.2} ms ({peer_python:.2}); {:.0} \
             judgings/s, {} pairs in {:.1} s, an instance in {:.1} µs",
            round.judgings_s,
            judging::PAIRS,
            round.pairs_s,
            round.instance_us
        ));
        rounds.push(round);
    }
    Ok(judge(console, &rounds, &peer))
}

fn judge(console: &Console, rounds: &[Round], peer: &Bubblewrap) -> CommandReport {
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
    let empty = of(|round| round.empty_ms[0] / round.empty_ms[1]);
    let python = of(|round| round.python_ms[0] / round.python_ms[1]);
    let (judgings, pairs) = (of(|round| round.judgings_s), of(|round| round.pairs_s));
    let instance = of(|round| round.instance_us);
    let checks = [
        ("empty", empty <= MAX_EMPTY),
        ("python", python <= MAX_PYTHON),
        ("judgings_s", judgings >= MIN_JUDGINGS),
        ("pairs_s", pairs <= MAX_PAIRS_S),
        ("instance_us", instance <= MAX_INSTANCE_US),
    ];
    let missed: Vec<&str> = checks.iter().filter(|(_, holds)| !holds).map(|(name, _)| *name).collect();
    console.say(format!(
        "empty run {empty:.2} × bubblewrap's (at most {MAX_EMPTY}), Python {python:.2} × (at most {MAX_PYTHON}); {judgings:.0} judgings/s (at \
         least {MIN_JUDGINGS}), pairs in {pairs:.1} s (at most {MAX_PAIRS_S}), an instance in {instance:.1} µs (at most {MAX_INSTANCE_US})"
    ));
    if !missed.is_empty() {
        console.say(format!("missed: {}", missed.join(", ")));
    }
    let json = json!({
        "ours": {
            "empty_ms": of(|round| round.empty_ms[0]),
            "python_ms": of(|round| round.python_ms[0]),
            "judgings_s": judgings,
            "pairs_s": pairs,
            "instance_us": instance,
        },
        "peers": {"bubblewrap": {
            "empty_ms": of(|round| round.empty_ms[1]),
            "python_ms": of(|round| round.python_ms[1]),
        }},
        "ratios": {"bubblewrap": {"empty": empty, "python": python}},
        "machine": machine::describe(),
        "runs": rounds,
        "missed": missed,
        "setting": {
            "runs": RUNS, "judgings": judging::JUDGINGS, "pairs": judging::PAIRS, "threads": judging::THREADS, "instances": INSTANCES,
            "bubblewrap": {"version": peer.version(), "flags": peer.flags()},
            "limits": {
                "empty": MAX_EMPTY, "python": MAX_PYTHON, "judgings_s": MIN_JUDGINGS, "pairs_s": MAX_PAIRS_S,
                "instance_us": MAX_INSTANCE_US,
            },
        },
    });
    CommandReport { passed: missed.is_empty(), json }
}

fn measure(
    sandbox: &Sandbox,
    peer: &Bubblewrap,
    judging: &JudgingBench,
    verifier: &WasmVerifier,
) -> anyhow::Result<Round> {
    let mut taken: [[Vec<f64>; 2]; 2] = Default::default();
    for number in 0..=RUNS {
        for (program, taken) in [EMPTY, PYTHON].iter().zip(&mut taken) {
            // By turns in both orders, so that neither always comes first.
            for which in if number % 2 == 0 { [0, 1] } else { [1, 0] } {
                let time = if which == 0 { isolated(sandbox, program)? } else { peer.run(program)? };
                if number > 0 {
                    taken[which].push(time.as_secs_f64() * 1e3);
                }
            }
        }
    }
    let [empty_ms, python_ms] = taken.map(|both| both.map(median));
    let instances = measure_instantiation(verifier, INSTANCES)?;
    Ok(Round {
        empty_ms,
        python_ms,
        judgings_s: judging.judgings_s()?,
        pairs_s: judging.pairs_s()?,
        instance_us: median(instances.iter().map(|instance| instance.as_secs_f64() * 1e6)),
    })
}

/// One run of ours.
fn isolated(sandbox: &Sandbox, program: &Program) -> anyhow::Result<Duration> {
    let args: Vec<OsString> = program.args.iter().map(OsString::from).collect();
    let job = Job {
        program: Path::new(program.path),
        args: &args,
        env: &[],
        mounts: &[],
        files: &[],
        collect: &[],
        stdin: &[],
        limits: RunLimits::run(),
    };
    let since = Instant::now();
    let outcome = sandbox.run(&job).with_context(|| format!("running {}", program.path))?;
    let taken = since.elapsed();
    ensure!(outcome.end == End::Exited(0), "{} ended with {:?}", program.path, outcome.end);
    Ok(taken)
}
