//! `echo-lab trouble`

use clap::Args;
use echo_lab::harness::cargo::workspace_root;
use echo_lab::harness::processes::interruptible;
use echo_lab::output::console::{CommandReport, Console};
use echo_lab::trouble::soak::{self, Soak};
use echo_lab::trouble::{self, Trouble};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(super) struct TroubleOptions {
    /// Play only scenarios whose names contain this; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Play this many random schedules instead of the given scenarios.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    random: Option<u64>,
    /// Seed of the first random schedule. A seed replays its schedule.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Instead of scenarios, have nodes come and go for so many minutes, and see whether anything grows.
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["only", "random", "seed", "at_once"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    soak: Option<u64>,
    /// Scenarios at once; one takes about one core while it trains.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=64))]
    at_once: u8,
    /// Where networks are kept while they are played, and after they failed. Default: a
    /// new directory below runs/.
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl TroubleOptions {
    pub(super) fn execute(self, console: &Console) -> anyhow::Result<CommandReport> {
        let Self { only, random, seed, soak, at_once, dir } = self;
        let name = || format!("trouble-{}", echo_protocol::program::clock::now().0);
        let dir = dir.unwrap_or_else(|| workspace_root().join("runs").join(name()));
        if let Some(minutes) = soak {
            let lasts = Duration::from_secs(minutes * 60);
            return interruptible(soak::run(Soak { lasts, dir }, console));
        }
        interruptible(trouble::run(Trouble { only, random, seed, at_once: at_once.into(), dir }, console))
    }
}
