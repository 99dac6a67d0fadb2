//! `echo-lab demo --model smollm2`: a published model of 135 million parameters learns sums and
//! word problems of two steps on this machine.
//!
//! It is the same network as in the [demo](super), with a model and rows of a real run. The
//! rows that are evaluated have no row and no pair of operands in common with those of training.
//!
//! ```text
//! models::smollm2 ──► policy ── evaluate ──► before ─┐
//! problems ──► train, sums, words                    │
//!                 └── run_file ──► network ──► policy ── evaluate ──► after ──► report
//!                                     ├── metrics.jsonl ──► curve, gaps, bytes    ▲
//!                                     └── memory, samples ────────────────────────┘
//! ```

mod evaluation;
mod memory;
pub mod problems;
mod report;
mod run_file;
mod samples;

use super::{Demo, drive_seen};
use crate::harness::binaries::Binaries;
use crate::harness::network::{LearnerConfig, NetworkConfig, TestNetwork, TestNodeConfig};
use crate::models::smollm2;
use crate::output::console::{CommandReport, Console};
use crate::output::plot::reward_curve;
use anyhow::Context as _;
use echo_learner::storage::run_dir::RunDir;
use echo_learner::telemetry::metrics;
use memory::PeakMemory;
use problems::{ProblemFiles, Problems};
use report::Outcome;
use run_file::RunSize;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Updates of a whole demo: about an hour on two cores.
pub const UPDATES: u64 = 64;
/// Volunteers of a whole demo: one for each core.
pub const NODES: usize = 2;
/// Runs with fewer updates are smoke tests: what they learn is not judged.
const JUDGED_FROM: u64 = 60;
/// Seed of the rows.
const ROWS_SEED: u64 = 1;

/// Runs the demo to its end and judges it.
///
/// # Errors
/// When the model cannot be got, something cannot be started or ends before its time. A run that
/// misses its goals is a [`CommandReport`] that has not passed.
pub async fn run(demo: Demo, console: &Console) -> anyhow::Result<CommandReport> {
    let binaries = Binaries::get(demo.build, console).await?;
    let model = smollm2::make(None, console).await?.dir;
    let size = RunSize::of(demo.updates);
    let files = Problems::of(ROWS_SEED).evaluated_on(size.evaluation_rows).write(&demo.dir.join("data"))?;
    console.say(format!("run directory {}", demo.dir.display()));
    console.say("evaluating the model as it was published");
    let before = evaluation::both(&binaries.learner, &model, &files, &demo.dir.join("before"))?;

    let config = network(&demo, size, binaries.clone(), &model, &files)?;
    let started = Instant::now();
    let network = TestNetwork::start(config).await?;
    let dir = RunDir::new(&network.layout().run_dir());
    let mut memory = PeakMemory::default();
    let (summary, groups) = drive_seen(&demo, network, console, |network| memory.look(network)).await?;
    let wall_s = started.elapsed().as_secs_f64();

    console.say("evaluating the trained policy");
    let after = evaluation::both(&binaries.learner, &dir.policy(), &files, &demo.dir.join("after"))?;
    let picture = demo.dir.join("reward.png");
    reward_curve(&dir.metrics(), &picture, "SmolLM2-135M, sums and word problems, GEPO")?;
    let train = problems::read(&files.train)?;
    let outcome = Outcome {
        demo: &demo,
        size,
        accepted_by_nodes: groups * run_file::GROUP_SIZE,
        before,
        after,
        updates: metrics::updates(&dir.metrics())?,
        publications: metrics::publications(&dir.metrics())?,
        samples: samples::of(&dir)?,
        memory: memory.megabytes(),
        wall_s,
        common: [
            problems::common(&train, &problems::read(&files.sums)?),
            problems::common(&train, &problems::read(&files.words)?),
        ],
        summary,
    };
    let report = outcome.report()?;
    let path = demo.dir.join("report.json");
    fs::write(&path, serde_json::to_string_pretty(&report.json)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    outcome.tell(console, &report);
    console.say(format!("reward curve {}", picture.display()));
    console.say(format!("policy       {}", dir.policy().display()));
    console.say(format!("report       {}", path.display()));
    Ok(report)
}

/// Writes the rows of a seed to a directory: `cargo lab problems`.
///
/// # Errors
/// When they cannot be written.
pub fn write_problems(dir: &Path, seed: u64, console: &Console) -> anyhow::Result<CommandReport> {
    let problems = Problems::of(seed);
    let ProblemFiles { train, sums, words } = problems.write(dir)?;
    for (path, rows) in [(&train, &problems.train), (&sums, &problems.sums), (&words, &problems.words)] {
        console.say(format!("{:>5} rows  {}", rows.len(), path.display()));
    }
    let json = json!({
        "passed": true, "seed": seed, "dir": dir, "train": problems.train.len(), "sums": problems.sums.len(),
        "words": problems.words.len(),
    });
    Ok(CommandReport { passed: true, json })
}

/// The network of a demo.
fn network(
    demo: &Demo,
    size: RunSize,
    binaries: Binaries,
    model: &Path,
    files: &ProblemFiles,
) -> anyhow::Result<NetworkConfig> {
    let settings = run_file::settings(demo.updates, size, model, &files.train)?;
    Ok(NetworkConfig {
        binaries,
        dir: demo.dir.clone(),
        network: "echo-demo".into(),
        run: "smollm2".into(),
        learner: LearnerConfig { settings, ..LearnerConfig::default() },
        nodes: TestNodeConfig::several(demo.nodes),
    })
}
