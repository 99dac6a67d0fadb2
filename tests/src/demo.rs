//! `echo-lab demo`: a bootstrap node, a learner and volunteers, each a process of its own, train
//! two-digit addition on this machine.
//!
//! [`smollm2`] does the same with a published model, which learns sums and word problems.
//!
//! May import `conformance`, `harness`, `models` and `output`.
//!
//! ```text
//! run_file ──► network of processes ──► status.json, metrics.jsonl
//!                  ▲                            │
//!    faults ───────┘                            ▼
//!    (kills, returns) ◄── update ── progress ──► live view
//! summary.json ──► verdict ──► CommandReport      metrics.jsonl ──► reward.png
//! ```

mod faults;
mod progress;
mod run_file;
pub mod smollm2;
mod verdict;

pub use faults::DemoFaults;
pub use run_file::STALENESS_BUDGET;
pub(crate) use run_file::settings;

use crate::harness::binaries::Binaries;
use crate::harness::network::{LearnerConfig, NetworkConfig, TestNetwork, TestNodeConfig};
use crate::output::console::{CommandReport, Console};
use crate::output::live::Live;
use crate::output::plot::reward_curve;
use anyhow::Context as _;
use echo_learner::storage::run_dir::RunDir;
use echo_learner::telemetry::summary::RunSummary;
use progress::DemoWatch;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Updates of a whole demo.
pub const UPDATES: u64 = 600;
/// Pause between two looks at the processes and their files.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long volunteers are given to end by themselves once the run is over.
const GRACE: Duration = Duration::from_secs(15);

/// What a demo is asked to be.
#[derive(Clone, Debug)]
pub struct Demo {
    /// Volunteers, each a process that generates on one thread.
    pub nodes: usize,
    /// Updates of the run; shorter runs than [`UPDATES`] are held to no accuracy.
    pub updates: u64,
    /// Where everything is kept; must not hold a run yet.
    pub dir: PathBuf,
    /// Who is killed on the way.
    pub faults: DemoFaults,
    /// Whether the programs are built first.
    pub build: bool,
}

/// Runs the demo to its end and judges it.
///
/// # Errors
/// When something cannot be started or ends before its time; a run that misses its goals is a
/// [`CommandReport`] that has not passed.
pub async fn run(demo: Demo, console: &Console) -> anyhow::Result<CommandReport> {
    let started = Instant::now();
    Binaries::get(demo.build, console).await?;
    let config = network(&demo)?;
    console.say(format!("run directory {}", demo.dir.display()));
    console.say(format!(
        "a bootstrap, a learner and {} volunteers; first a short supervised warm-up",
        demo.nodes
    ));
    let built = started.elapsed();
    let network = TestNetwork::start(config).await?;
    let learner = RunDir::new(&network.layout().run_dir());
    let (summary, accepted_by_nodes) = drive(&demo, network, console).await?;
    let wall_s = (started.elapsed() - built).as_secs_f64();

    let picture = demo.dir.join("reward.png");
    reward_curve(&learner.metrics(), &picture, "Two-digit addition, GEPO, S = 3, κ = 2")?;
    let report = verdict::judge(&demo, &summary, accepted_by_nodes, wall_s)?;
    console.say(format!("reward curve {}", picture.display()));
    console.say(format!("policy       {}", learner.policy().display()));
    verdict::tell(console, &summary, &report);
    Ok(report)
}

/// The network of a demo.
pub(crate) fn network(demo: &Demo) -> anyhow::Result<NetworkConfig> {
    Ok(NetworkConfig {
        binaries: Binaries::locate()?,
        dir: demo.dir.clone(),
        network: "echo-demo".into(),
        run: "addition".into(),
        learner: LearnerConfig { settings: settings(demo.updates)?, environment: one_thread_a_part() },
        nodes: TestNodeConfig::several(demo.nodes),
    })
}

/// The learner already runs the parts of a batch side by side; pools below each part would only get
/// in each other's way.
fn one_thread_a_part() -> BTreeMap<String, String> {
    ["RAYON_NUM_THREADS", "CANDLE_NUM_THREADS"].map(|name| (name.to_owned(), "1".to_owned())).into()
}

/// Watches the network, kills whom the demo says, and waits for the learner's summary. Returns it
/// with the number of trajectories that the volunteers saw accepted.
pub(crate) async fn drive(
    demo: &Demo,
    network: TestNetwork,
    console: &Console,
) -> anyhow::Result<(RunSummary, u64)> {
    let (summary, groups) = drive_seen(demo, network, console, |_| ()).await?;
    Ok((summary, groups * run_file::GROUP_SIZE))
}

/// The same, and returns the groups that the volunteers saw accepted. `look` sees the network at every look.
async fn drive_seen(
    demo: &Demo,
    mut network: TestNetwork,
    console: &Console,
    mut look: impl FnMut(&TestNetwork),
) -> anyhow::Result<(RunSummary, u64)> {
    let dir = RunDir::new(&network.layout().run_dir());
    let mut watch = DemoWatch::new(&dir, demo.updates);
    let mut live = Live::new(console);
    let mut faults = demo.faults.schedule(demo.updates);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        look(&network);
        let state = watch.look(&network)?;
        live.show(&state);
        for note in faults.due(state.update, &mut network).await? {
            live.note(note);
        }
        if faults.learner_is_up() && network.learner_ended()?.is_some() {
            break;
        }
        network.check()?;
    }
    drop(live);
    let text = std::fs::read_to_string(dir.summary());
    let text = text.with_context(|| format!("the learner ended without {}", dir.summary().display()))?;
    let accepted = |index| network.node_status(index)?.get("accepted")?.as_u64();
    let groups: u64 = (0..network.node_count()).filter_map(accepted).sum();
    network.stop(GRACE).await?;
    Ok((serde_json::from_str(&text)?, groups))
}
