//! `echo-lab demo`

use anyhow::ensure;
use clap::{Args, ValueEnum};
use echo_lab::demo::{self, Demo, DemoFaults, smollm2};
use echo_lab::harness::cargo::workspace_root;
use echo_lab::harness::processes::interruptible;
use echo_lab::output::console::{CommandReport, Console};
use echo_protocol::program::clock;
use std::path::PathBuf;

/// Fewest updates of a demo with the tiny policy.
const FEWEST_UPDATES: u64 = 10;
/// Volunteers of a demo with the tiny policy.
const NODES: usize = 4;

#[derive(Debug, Args)]
pub(super) struct DemoOptions {
    /// What is trained: without it a tiny policy, with random weights and a short supervised warm-up.
    #[arg(long, value_enum)]
    model: Option<DemoModel>,
    /// Volunteers, each a process that generates on one thread. Default: 4, and 2 with --model.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    nodes: Option<u8>,
    /// Updates; fewer than the default are not held to what the default reaches. Default: 600, and 64
    /// with --model.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    updates: Option<u64>,
    /// Kill (SIGKILL) this many volunteers on the way; every second one comes back.
    #[arg(long, value_name = "K", default_value_t = 0)]
    kill_node: u8,
    /// Kill (SIGKILL) the learner in the middle and resume it.
    #[arg(long)]
    kill_learner: bool,
    /// Where everything is kept; must not exist. Default: a new directory below runs/.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Use the programs as they are, without building them first.
    #[arg(long)]
    no_build: bool,
}

/// A published model that a demo trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DemoModel {
    /// SmolLM2-135M-Instruct, on sums and word problems of two steps: about an hour on two cores.
    Smollm2,
}

impl DemoOptions {
    pub(super) fn execute(self, console: &Console) -> anyhow::Result<CommandReport> {
        let model = self.model;
        let demo = self.demo()?;
        match model {
            None => interruptible(demo::run(demo, console)),
            Some(DemoModel::Smollm2) => interruptible(smollm2::run(demo, console)),
        }
    }

    fn demo(self) -> anyhow::Result<Demo> {
        let (nodes, updates, name) = match self.model {
            None => (NODES, demo::UPDATES, "demo"),
            Some(DemoModel::Smollm2) => (smollm2::NODES, smollm2::UPDATES, "smollm2"),
        };
        let nodes = self.nodes.map_or(nodes, usize::from);
        let updates = self.updates.unwrap_or(updates);
        ensure!(
            self.model.is_some() || updates >= FEWEST_UPDATES,
            "--updates {updates}: the demo makes at least {FEWEST_UPDATES}"
        );
        let killed = usize::from(self.kill_node);
        ensure!(killed < nodes, "--kill-node {killed} leaves nobody of {nodes} nodes");
        let dir = self
            .dir
            .unwrap_or_else(|| workspace_root().join("runs").join(format!("{name}-{}", clock::now().0)));
        ensure!(!dir.exists(), "{} exists already: choose another --dir", dir.display());
        let faults = DemoFaults { nodes: killed, learner: self.kill_learner };
        Ok(Demo { nodes, updates, dir, faults, build: !self.no_build })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Command};
    use super::*;
    use clap::Parser as _;

    fn demo(line: &str) -> anyhow::Result<Demo> {
        let words = ["echo-lab", "demo"].into_iter().chain(line.split_whitespace());
        let Command::Demo(options) = Cli::try_parse_from(words)?.command else { panic!("another command") };
        options.demo()
    }

    #[test]
    fn each_model_has_its_own_length_and_fleet() {
        let sizes = |line: &str| demo(line).map(|demo| (demo.nodes, demo.updates)).unwrap();
        assert_eq!(sizes(""), (4, 600));
        assert_eq!(sizes("--model smollm2"), (2, 64));
        assert_eq!(sizes("--model smollm2 --updates 5"), (2, 5));
        assert_eq!(sizes("--nodes 3 --updates 10"), (3, 10));
        for wrong in
            ["--updates 5", "--model smollm2 --kill-node 2", "--kill-node 4", "--model gpt", "--updates 0"]
        {
            assert!(demo(wrong).is_err(), "{wrong}");
        }
    }
}
