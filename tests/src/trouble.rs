//! `echo-lab trouble`: everyday trouble, put on real processes.
//!
//! A scenario is data: whom to start, what goes wrong, and what has to be seen ([`Scenario`]). The
//! given ones are in `trouble/scenarios.toml`; random ones are drawn from a seed. Each plays on a
//! network of its own, with a boot node, a learner with a tiny policy, and nodes on loopback.
//!
//! After the trouble, every network is judged alike. Training is at its pace again within a bound,
//! nothing that was acknowledged is lost, nothing was too old, and no honest node was suspended.
//!
//! May import `harness` and `output`.
//!
//! ```text
//! scenarios.toml, random_schedule ──► scenario ──► runner ──► network
//!                                                    │          │
//!                                                    │          ▼
//!                                         verdict ◄──┴── harness::observation (logs, metrics, peers.json)
//! soak: the same runner for hours, with nodes that come and go
//! ```

mod random_schedule;
mod runner;
mod scenario;
pub mod soak;
mod verdict;

pub use scenario::{Scenario, ScenarioStep};

use crate::harness::binaries::Binaries;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;
use verdict::ScenarioVerdict;

/// Which scenarios are played, and how many at once.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// Only scenarios whose names contain one of these; all where it is empty.
    pub only: Vec<String>,
    /// So many random schedules instead of the given scenarios.
    pub random: Option<u64>,
    /// Of the first random schedule; the others have the next numbers.
    pub seed: u64,
    /// Scenarios at once. One takes about one core while it trains.
    pub at_once: usize,
    /// Where the networks are kept; those that passed are removed.
    pub dir: PathBuf,
}

/// What is not tried here, and why: part of every report.
const NOT_TRIED: [(&str, &str); 7] = [
    (
        "a machine that gets another address",
        "these networks are on loopback; tests of the network host move hosts",
    ),
    (
        "a terminal that closes",
        "writes fail alike at a full disk and at a pipe that nobody reads, which are tried",
    ),
    ("a clock that the system itself sets", "the wall clock of single processes is shifted through a seam"),
    ("macOS and Windows", "the lab runs on Linux"),
    ("slow disks and networks that lose packets", "this kernel has no netem and no delaying device"),
    ("exFAT, SMB and WSL", "no driver for them here"),
    ("power cuts", "SIGKILL leaves the page cache whole"),
];

/// Plays the scenarios, some at once, and judges them. Passes when every one does.
///
/// # Errors
/// When nothing could be played.
pub async fn run(trouble: Trouble, console: &Console) -> anyhow::Result<CommandReport> {
    let scenarios = match trouble.random {
        Some(count) => (0..count).map(|n| random_schedule::draw(trouble.seed.wrapping_add(n))).collect(),
        None => scenario::given()?,
    };
    let asked =
        |name: &str| trouble.only.is_empty() || trouble.only.iter().any(|only| name.contains(only.as_str()));
    let scenarios: Vec<Scenario> = scenarios.into_iter().filter(|scenario| asked(&scenario.name)).collect();
    ensure!(!scenarios.is_empty(), "no scenario's name contains {}", trouble.only.join(" or "));
    let (scenarios, left_out): (Vec<_>, Vec<_>) =
        scenarios.into_iter().partition(|scenario| is_root() || !scenario.root);
    if !left_out.is_empty() {
        console.say(format!("{} scenarios are left out: only root can play them", left_out.len()));
    }
    let binaries = Binaries::fresh(console).await?;
    std::fs::create_dir_all(&trouble.dir).with_context(|| trouble.dir.display().to_string())?;
    let (since, total) = (Instant::now(), scenarios.len());
    console.say(format!("{total} scenarios, {} at once", trouble.at_once));
    let played = futures::stream::iter(scenarios).map(|scenario| {
        let (binaries, dir) = (binaries.clone(), trouble.dir.join(&scenario.name));
        async move {
            let begun = Instant::now();
            let verdict = runner::play(&scenario, binaries, &dir).await;
            (scenario, verdict, begun.elapsed().as_secs_f64(), dir)
        }
    });
    let mut played = played.buffer_unordered(trouble.at_once);
    let mut rows = Vec::new();
    while let Some((scenario, verdict, seconds, dir)) = played.next().await {
        let number = rows.len() + 1;
        match &verdict.failure {
            None => {
                console.say(format!("{number:>3}/{total} ok      {} ({seconds:.0} s)", scenario.name));
                let _ = std::fs::remove_dir_all(&dir);
            }
            Some(failure) => {
                console.say(format!(
                    "{number:>3}/{total} FAILED  {} ({seconds:.0} s): {failure}",
                    scenario.name
                ));
                console.say(format!("        {}; kept in {}", scenario.about, dir.display()));
                scenario.steps.iter().for_each(|step| console.say(format!("        {step:?}")));
            }
        }
        rows.push(row(&scenario, &verdict, seconds));
    }
    let failed = rows.iter().filter(|row| row["passed"] != true).count();
    let seconds = since.elapsed().as_secs_f64();
    console.say(format!("{} of {total} passed in {seconds:.0} s", total - failed));
    let left_out = left_out.iter().map(|scenario| (scenario.name.as_str(), "only root can play it"));
    let not_tried: Vec<Value> =
        NOT_TRIED.into_iter().chain(left_out).map(|(what, why)| json!({"what": what, "why": why})).collect();
    let claims = json!([{
        "claim": "after every trouble the run is at its pace again within its bound, and nothing acknowledged is lost",
        "holds": failed == 0,
    }]);
    let passed = failed == 0;
    let json = json!({
        "passed": passed, "scenarios": total, "failed": failed, "seconds": seconds,
        "seed": trouble.random.map(|_| trouble.seed), "rows": rows, "not_tried": not_tried, "claims": claims,
    });
    Ok(CommandReport { passed, json })
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

fn row(scenario: &Scenario, verdict: &ScenarioVerdict, seconds: f64) -> Value {
    json!({
        "name": scenario.name, "passed": verdict.failure.is_none(), "seconds": seconds, "failure": verdict.failure,
        "back_after_s": verdict.back_after_s, "updates": verdict.updates, "max_staleness": verdict.max_staleness,
    })
}
