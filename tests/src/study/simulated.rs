//! What studies of fleets share, in simulation and with processes: options, claims and reports.

use super::fleet::{End, Scene, SceneNode, Spread};
use crate::output::console::{CommandReport, Console};
use anyhow::Context as _;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use echo_protocol::wire::rate::BytesPerSec;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// How a study of fleets is made.
#[derive(Args, Clone, Debug)]
pub struct FleetStudy {
    /// In virtual time with the paper's constants, instead of with real processes whose pace the lab sets.
    #[arg(long)]
    pub simulated: bool,
    /// With real processes: updates over which each figure is taken, of some second each.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = RangedU64ValueParser::<usize>::new().range(8..=1_000))]
    pub updates: usize,
    /// In simulation: runs of each setting, each with other order times.
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Where the picture goes.
    #[arg(long, value_name = "DIR", default_value = "runs/studies")]
    pub out: PathBuf,
}

/// The path of a picture, whose directory is made.
pub(super) fn picture(out: &Path, name: &str) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    Ok(out.join(name))
}

/// A claim, whether it holds, and the figures that decided it.
pub(super) type Claim = (&'static str, bool, Value);

/// A claim in the form of reports.
pub(super) fn claim(text: &'static str, holds: bool, figures: Value) -> Claim {
    (text, holds, figures)
}

/// A rented worker with a link of 100 Mbit/s, and the price of table 1.
pub(super) fn worker(order_ms: f64, is_present: bool) -> SceneNode {
    let link = BytesPerSec(12_500_000);
    SceneNode { order_ms, up: link, down: link, dollars_per_hour: 0.35, is_present }
}

/// Workers that all work and stay, in one chain: each has a version so many seconds after it is out. The
/// study says the rest: S, κ, batches, times and the end.
pub(super) fn quiet(nodes: Vec<SceneNode>, broadcast_s: f64) -> Scene {
    Scene {
        seed: 0,
        budget: 0,
        period: 1,
        batch: 1,
        update_ms: 0.0,
        sigma: (0.3, 0.0),
        nodes,
        market: None,
        spread: Spread::Even((broadcast_s * 1e3) as u64),
        chains: 1,
        ask_again_ms: (2_000, 10_000),
        waits_for_policy: false,
        departures_per_hour: 0.0,
        away_ms: 0.0,
        crash_at: None,
        changes: Vec::new(),
        end: End::Updates(1),
    }
}

/// Workers that are too few: 0.8 of those that are enough.
pub(super) fn too_few(enough: usize) -> usize {
    enough * 4 / 5
}

/// The most and the least that the learner may wait, as shares: where workers are enough, and where they are
/// [too few](too_few).
pub(super) const BUBBLES: (f64, f64) = (0.01, 0.05);

/// What is claimed of the bubbles at the workers that are enough, and at too few, for each S.
pub(super) fn bubble_claims(enough: &[f64], scarce: &[f64]) -> [Claim; 2] {
    [
        claim(
            "the bubble is at most 1 % at the workers that gamma x mu_min takes",
            enough.iter().all(|bubble| *bubble <= BUBBLES.0),
            json!({"bubbles": enough, "largest": largest(enough)}),
        ),
        claim(
            "it is at least 5 % at 0.8 of those",
            scarce.iter().all(|bubble| *bubble >= BUBBLES.1),
            json!({"bubbles": scarce, "smallest": smallest(scarce)}),
        ),
    ]
}

/// 0 of none.
pub(super) fn mean(figures: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = figures.fold((0.0, 0_u64), |(sum, count), figure| (sum + figure, count + 1));
    sum / count.max(1) as f64
}

/// The largest of these figures, for a claim about all of them.
pub(super) fn largest(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The smallest of them.
pub(super) fn smallest(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Says what holds, and passes when all does.
pub(super) fn report(study: &str, rows: Vec<Value>, claims: Vec<Claim>, console: &Console) -> CommandReport {
    judged((study, true), rows, claims, console)
}

/// The same of a study with real processes.
pub(super) fn of_processes(
    study: &str,
    rows: Vec<Value>,
    claims: Vec<Claim>,
    console: &Console,
) -> CommandReport {
    judged((study, false), rows, claims, console)
}

fn judged(
    (study, is_simulated): (&str, bool),
    rows: Vec<Value>,
    claims: Vec<Claim>,
    console: &Console,
) -> CommandReport {
    for (claim, holds, figures) in &claims {
        console.say(format!("{} {claim} {figures}", if *holds { "holds " } else { "FAILED" }));
    }
    let passed = claims.iter().all(|(_, holds, _)| *holds);
    let claims: Vec<Value> = claims
        .into_iter()
        .map(|(claim, holds, figures)| json!({"claim": claim, "holds": holds, "figures": figures}))
        .collect();
    let json = json!({"passed": passed, "study": study, "simulated": is_simulated, "results": rows, "claims": claims});
    CommandReport { passed, json }
}
