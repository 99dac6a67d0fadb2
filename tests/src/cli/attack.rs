//! `echo-lab attack`

use anyhow::ensure;
use clap::Args;
use echo_lab::attack::strangers::{self, AttackKind, LONGEST_PHASE, StrangerAttack};
use echo_lab::attack::{self, Attack};
use echo_lab::demo::UPDATES;
use echo_lab::harness::cargo::workspace_root;
use echo_lab::harness::processes::interruptible;
use echo_lab::output::console::{CommandReport, Console};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(super) struct AttackOptions {
    /// Attack a network of real processes in one way, by keys that cost nothing. The network is compared
    /// with itself before the attack.
    #[arg(long, value_enum, conflicts_with_all = ["nodes", "liars", "updates"])]
    kind: Option<AttackKind>,
    /// Seconds that are measured in peace, and again under attack.
    #[arg(long, value_name = "N", default_value_t = 60, requires = "kind")]
    #[arg(value_parser = clap::value_parser!(u64).range(8..=LONGEST_PHASE.as_secs()))]
    seconds: u64,
    /// Members of either network.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(2..=64))]
    nodes: u8,
    /// Those that lie in the second.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    liars: u8,
    /// Updates of each of the two runs.
    #[arg(long, default_value_t = UPDATES, value_parser = clap::value_parser!(u64).range(10..))]
    updates: u64,
    /// Where everything is kept; must not exist. Default: a new directory below runs/.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Use the programs as they are, without building them first.
    #[arg(long)]
    no_build: bool,
}

impl AttackOptions {
    pub(super) fn execute(self, console: &Console) -> anyhow::Result<CommandReport> {
        let name = || format!("attack-{}", echo_protocol::program::clock::now().0);
        let dir = self.dir.clone().unwrap_or_else(|| workspace_root().join("runs").join(name()));
        ensure!(!dir.exists(), "{} exists already: choose another --dir", dir.display());
        match self.kind {
            Some(kind) => {
                let (phase, build) = (Duration::from_secs(self.seconds), !self.no_build);
                interruptible(strangers::run(StrangerAttack { kind, phase, dir, build }, console))
            }
            None => interruptible(attack::run(self.attack(dir)?, console)),
        }
    }

    fn attack(self, dir: PathBuf) -> anyhow::Result<Attack> {
        let Self { nodes, liars, updates, no_build, .. } = self;
        ensure!(liars < nodes, "--liars {liars} leaves nobody honest of {nodes} nodes");
        Ok(Attack { nodes: nodes.into(), liars: liars.into(), updates, dir, build: !no_build })
    }
}
