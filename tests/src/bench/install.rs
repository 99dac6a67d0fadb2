//! What a newer policy costs a node when it is installed, in memory and in time, and what memory
//! becomes over many orders.
//!
//! First, a snapshot lies in a chunk store under a signed manifest. It is installed as a node does
//! it, while responses are generated under the version before, and takes over between two tokens;
//! once with their caches kept, which shows the change of weights alone, and once with caches
//! computed anew, as runs do unless told otherwise. Then orders go through a node's own worker and
//! outbox, with newer versions on the way. All of it in this process, whose memory is watched: its
//! own, and that which files hold as well.

mod orders;
mod run_dirs;
mod takeover;

use super::memory::ProcessMemory;
use super::rollout::Size;
use crate::harness::cargo::workspace_root;
use crate::harness::machine;
use crate::harness::statistics::median;
use crate::models::random_weights;
use crate::output::console::{CommandReport, Console};
use anyhow::Context as _;
use echo_policy::generation;
use echo_policy::generation::PolicyTakeover;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use orders::MemoryCourse;
use run_dirs::Home;
use serde_json::json;
use takeover::{GenerationLoad, Swap, swap};

/// The most memory over the snapshot's size.
const MOST_MEMORY: f64 = 1.3;
/// The longest time without a token, in seconds.
const MOST_STALL_S: f64 = 1.0;
/// The process's own memory over the last quarter of the orders, over that of the first.
const MOST_GROWTH: f64 = 1.05;

/// The model that is installed, how often, and the load beside it.
#[derive(Clone, Debug)]
pub struct InstallBench {
    /// The model that is installed.
    pub size: Size,
    /// Installations of each way; their median counts.
    pub rounds: usize,
    /// Tokens of the prompt that is answered meanwhile.
    pub prompt: usize,
    /// Responses to that prompt, generated together.
    pub samples: usize,
    /// Orders of the second part; 0 leaves it out.
    pub orders: u64,
    /// Threads of the engine.
    pub threads: usize,
    /// In which numbers the model of the first part computes.
    pub precision: Precision,
}

/// All installations, by what became of the caches.
struct Swaps {
    /// Megabytes of the snapshot.
    size_mb: f64,
    /// What the process held before it had any policy.
    empty: ProcessMemory,
    kept: Vec<Swap>,
    recomputed: Vec<Swap>,
}

/// Installs newer versions beside a generation, then works through orders, and
/// judges memory and gaps.
///
/// # Errors
/// When the model cannot be made or installed, the engine fails, or the system does not tell of memory.
pub fn run(bench: &InstallBench, console: &Console) -> anyhow::Result<CommandReport> {
    generation::set_threads(bench.threads)?;
    let swaps = swaps(bench, console)?;
    let course = (bench.orders > 0).then(|| {
        let dir = tempfile::tempdir()?;
        orders::work(dir.path(), bench.orders)
    });
    report(bench, &swaps, course.transpose()?.as_ref(), console)
}

fn swaps(bench: &InstallBench, console: &Console) -> anyhow::Result<Swaps> {
    let models = workspace_root().join("target/peers");
    std::fs::create_dir_all(&models).with_context(|| models.display().to_string())?;
    let (dir, _) = random_weights::places(bench.size, &models);
    random_weights::make(bench.size, &dir)?;
    let config = bench.size.config()?;
    // Beside the model: what is temporary may lie in memory elsewhere.
    let scratch = tempfile::tempdir_in(&models)?;
    let home = Home::found(scratch.path(), &config, bench.precision, 1, 1)?;
    let first = home.publish(1, &Weights::load_dir(&dir, &config)?)?;
    let size_mb = first.open()?.total_bytes as f64 / 1e6;

    let empty = ProcessMemory::now()?;
    let mut installed = home.install(&first)?;
    let load = GenerationLoad { prompt: bench.prompt, samples: bench.samples };
    let mut swaps = Swaps { size_mb, empty, kept: Vec::new(), recomputed: Vec::new() };
    for (version, round) in (2..).step_by(2).zip(1..=bench.rounds) {
        let Swaps { kept, recomputed, .. } = &mut swaps;
        for (version, takeover, list) in
            [(version, PolicyTakeover::Keep, kept), (version + 1, PolicyTakeover::Recompute, recomputed)]
        {
            let newer = home.publish_again(&first, version)?;
            let (replaced, measured) = swap(&home, installed, &newer, takeover, load)?;
            installed = replaced;
            console.say(format!("round {round}: {takeover:?}: {measured}"));
            list.push(measured);
        }
    }
    Ok(swaps)
}

fn report(
    bench: &InstallBench,
    swaps: &Swaps,
    course: Option<&MemoryCourse>,
    console: &Console,
) -> anyhow::Result<CommandReport> {
    let Swaps { size_mb, empty, kept, recomputed } = swaps;
    let both = || kept.iter().chain(recomputed);
    let of = |swaps: &[Swap], figure: fn(&Swap) -> f64| median(swaps.iter().map(figure));
    let most = |figure: &dyn Fn(&Swap) -> f64| both().map(figure).fold(f64::MIN, f64::max);
    let needed = most(&|swap| swap.most.beyond(*empty).resident) / size_mb;
    // The newer version alone, while the one before is used as well.
    let newer = most(&|swap| swap.growth.resident) / size_mb;
    let own = most(&|swap| swap.most.beyond(*empty).own) / size_mb;
    let beside_s = median(both().map(|swap| swap.beside_s));
    let stall_s = beside_s.max(of(kept, |swap| swap.takeover_s)).max(of(recomputed, |swap| swap.takeover_s));
    let passed = |good: bool| if good { "reached" } else { "MISSED" };
    console.say(format!(
        "{size_mb:.0} MB: {needed:.2} × its size in memory at the most (goal ≤ {MOST_MEMORY}, {}), {own:.2} × of its own, {newer:.2} × for the newer \
         version; without a token for {stall_s:.2} s at the most (goal ≤ {MOST_STALL_S} s, {}); caches computed anew after {:.2} s",
        passed(needed <= MOST_MEMORY),
        passed(stall_s <= MOST_STALL_S),
        of(recomputed, |swap| swap.settled_s),
    ));
    let growth = course.map(|course| course.last_mb / course.first_mb);
    if let Some(course) = course {
        console.say(format!(
            "{} orders: {:.1} MB of its own over the first quarter, {:.1} MB over the last (goal ≤ {MOST_GROWTH} ×, {}); {:+.3} MB per 1,000 orders",
            bench.orders,
            course.first_mb,
            course.last_mb,
            passed(growth.is_none_or(|growth| growth <= MOST_GROWTH)),
            course.slope_mb,
        ));
    }
    let figures = |swaps: &[Swap]| {
        json!({
            "install_s": of(swaps, |swap| swap.install_s),
            "undisturbed_s": of(swaps, |swap| swap.undisturbed_s),
            "beside_s": of(swaps, |swap| swap.beside_s),
            "takeover_s": of(swaps, |swap| swap.takeover_s),
            "settled_s": of(swaps, |swap| swap.settled_s),
            "growth_resident": of(swaps, |swap| swap.growth.resident) / size_mb,
            "growth_own": of(swaps, |swap| swap.growth.own) / size_mb,
            "growth_mapped": of(swaps, |swap| swap.growth.mapped) / size_mb,
        })
    };
    let json = json!({
        "ours": {
            "size_mb": size_mb,
            "needed_over_size": needed,
            "newer_over_size": newer,
            "own_over_size": own,
            "stall_s": stall_s,
            "keep": figures(kept),
            "recompute": figures(recomputed),
            "orders": course,
        },
        "goals": {
            "needed_over_size": MOST_MEMORY, "stall_s": MOST_STALL_S, "last_over_first_quarter": MOST_GROWTH,
        },
        "ratios": {"last_over_first_quarter": growth},
        "machine": machine::describe(),
        "runs": {"keep": kept, "recompute": recomputed, "empty": empty},
        "setting": {
            "size": bench.size, "rounds": bench.rounds, "prompt": bench.prompt, "samples": bench.samples, "orders": bench.orders,
            "threads": bench.threads, "precision": bench.precision,
        },
    });
    let flat = growth.is_none_or(|growth| growth <= MOST_GROWTH);
    Ok(CommandReport { passed: needed <= MOST_MEMORY && stall_s <= MOST_STALL_S && flat, json })
}
