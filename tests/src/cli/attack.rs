//! `echo-lab attack`

use anyhow::ensure;
use clap::Args;
use echo_lab::attack::{self, Attack};
use echo_lab::demo::UPDATES;
use echo_lab::harness::cargo::workspace_root;
use echo_lab::harness::processes::interruptible;
use echo_lab::output::console::{CommandReport, Console};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct AttackOptions {
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
        interruptible(attack::run(self.attack()?, console))
    }

    fn attack(self) -> anyhow::Result<Attack> {
        let Self { nodes, liars, updates, dir, no_build } = self;
        ensure!(liars < nodes, "--liars {liars} leaves nobody honest of {nodes} nodes");
        let name = || format!("attack-{}", echo_protocol::program::clock::now().0);
        let dir = dir.unwrap_or_else(|| workspace_root().join("runs").join(name()));
        ensure!(!dir.exists(), "{} exists already: choose another --dir", dir.display());
        Ok(Attack { nodes: nodes.into(), liars: liars.into(), updates, dir, build: !no_build })
    }
}
