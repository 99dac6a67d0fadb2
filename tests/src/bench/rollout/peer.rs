//! The engines of others: how each is started, and how it gets onto a machine.

use super::task::{RaceRates, RaceTask};
use crate::harness::cargo::workspace_root;
use crate::harness::processes::printed;
use anyhow::{Context as _, bail, ensure};
use echo_policy::model::precision::Precision;
use serde::Serialize;
use std::env::consts::EXE_SUFFIX;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The side of PyTorch; its arguments are the type of the weights, where they are put
/// (`cpu`, `cuda`), and tasks.
pub(crate) const TORCH: &str = include_str!("../../../peers/torch_generate.py");

/// Somebody to race against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum RivalEngine {
    /// candle-transformers: f32, fed with given tokens.
    #[serde(rename = "candle")]
    Candle,
    /// PyTorch's `generate` of `transformers` in bf16, which draws its tokens.
    #[serde(rename = "torch")]
    Torch,
    /// The same in f32: on processors without bf16 products it may be the quicker one.
    #[serde(rename = "torch-f32")]
    TorchF32,
    /// llama.cpp: bf16, fed with given tokens.
    #[serde(rename = "llama.cpp")]
    Llama,
}

/// Where the programs lie that peers run in.
#[derive(Clone, Debug)]
pub struct EnginePrograms {
    /// A Python with `torch` and `transformers`.
    pub python: PathBuf,
    /// `echo-peers`, as built in `tests/peers`; by default where that build puts it.
    pub peers: Option<PathBuf>,
}

impl fmt::Display for RivalEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Candle => "candle",
            Self::Torch => "torch",
            Self::TorchF32 => "torch-f32",
            Self::Llama => "llama.cpp",
        })
    }
}

impl RivalEngine {
    /// How many times as many tokens a second as its group makes ours has to make.
    pub(super) fn goal(self) -> Option<f64> {
        match self {
            Self::Candle => Some(5.0),
            Self::Torch => Some(2.0),
            Self::TorchF32 => None,
            Self::Llama => Some(1.0),
        }
    }

    /// Whether ours has to be as quick with the prompt.
    pub(super) fn holds_prefill(self) -> bool {
        self == Self::Llama
    }

    /// How far its log-prob of a token may be from ours, which computes in `ours`: what rounding to
    /// the coarser of the two types does to it, and far below the deviation between two models.
    pub(super) fn tolerance(self, ours: Precision) -> f64 {
        match (self, ours) {
            (Self::Candle | Self::TorchF32, Precision::F32) => 1e-3,
            (_, Precision::F32 | Precision::Bf16) => 0.1,
            (_, Precision::Int8 | Precision::Int4) => 0.5,
        }
    }

    fn is_torch(self) -> bool {
        matches!(self, Self::Torch | Self::TorchF32)
    }

    fn advice(self) -> &'static str {
        if self.is_torch() {
            "it needs a Python with torch and transformers: make one with `python3 -m venv torch-venv && torch-venv/bin/pip install \
             torch transformers`, and name it with --python torch-venv/bin/python"
        } else {
            "it needs echo-peers: build it with `cd tests/peers && cargo build --release` (ten minutes and more; llama.cpp wants cmake, a \
             C++ compiler and libclang: `apt-get install cmake g++ libclang-dev`), or name one with --peers-program"
        }
    }

    fn command(self, task: &Path, programs: &EnginePrograms) -> Command {
        let mut command = if self.is_torch() {
            let mut command = Command::new(&programs.python);
            command.args(["-c", TORCH, if self == Self::Torch { "bf16" } else { "f32" }, "cpu"]).arg(task);
            command.env("HF_HUB_OFFLINE", "1");
            command
        } else {
            let mut command = Command::new(programs.echo_peers());
            command.arg(if self == Self::Candle { "candle" } else { "llama" }).arg(task);
            command
        };
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        command
    }

    /// Whether it can be started at all: nobody should hear of a missing program after ten minutes
    /// of measurements. Fails when it cannot, with how to get it.
    pub(super) fn probe(self, programs: &EnginePrograms) -> anyhow::Result<()> {
        if !self.is_torch() {
            let program = programs.echo_peers();
            ensure!(program.is_file(), "{self}: {} is not there; {}", program.display(), self.advice());
            return Ok(());
        }
        let mut python = Command::new(&programs.python);
        python.args(["-c", "import torch, transformers"]).stdin(Stdio::null()).stdout(Stdio::null());
        match python.stderr(Stdio::null()).status() {
            Ok(status) if status.success() => Ok(()),
            Err(error) => {
                bail!("{self}: {} cannot be started ({error}); {}", programs.python.display(), self.advice())
            }
            Ok(_) => bail!(
                "{self}: {} cannot import torch and transformers; {}",
                programs.python.display(),
                self.advice()
            ),
        }
    }

    /// One process of it.
    /// Fails when it fails.
    pub(super) fn measure(
        self,
        task: &Path,
        threads: usize,
        programs: &EnginePrograms,
    ) -> anyhow::Result<RaceRates> {
        report(&mut self.command(task, programs), threads)
            .with_context(|| format!("{self}: {}", self.advice()))
    }
}

impl EnginePrograms {
    fn echo_peers(&self) -> PathBuf {
        let built = || workspace_root().join(format!("target/peers/build/release/echo-peers{EXE_SUFFIX}"));
        self.peers.clone().unwrap_or_else(built)
    }

    /// Writes the model of a task for llama.cpp, unless it is there.
    /// Fails when `echo-peers` cannot.
    pub(super) fn convert(&self, task: &RaceTask) -> anyhow::Result<()> {
        if task.gguf.is_file() {
            return Ok(());
        }
        let mut command = Command::new(self.echo_peers());
        let status = command.arg("gguf").args([&task.model, &task.gguf]).status()?;
        ensure!(status.success(), "{:?} ended with {status}", command.get_program());
        Ok(())
    }
}

/// What a process says in the last line of its output.
pub(crate) fn report(command: &mut Command, threads: usize) -> anyhow::Result<RaceRates> {
    reports(command, threads)?.pop().context("it said nothing")
}

/// What a process says of each of its tasks, a line of JSON each; other lines are noise.
pub(crate) fn reports(command: &mut Command, threads: usize) -> anyhow::Result<Vec<RaceRates>> {
    // Each library reads its own; nobody gets more than the others.
    for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"] {
        command.env(name, threads.to_string());
    }
    let text = printed(command)?;
    let lines = text.lines().filter(|line| line.starts_with('{'));
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_missing_says_how_to_get_it() {
        let absent = PathBuf::from("/nowhere/program");
        let programs = EnginePrograms { python: absent.clone(), peers: Some(absent) };
        let said = |peer: RivalEngine| peer.probe(&programs).unwrap_err().to_string();
        assert!(said(RivalEngine::Llama).contains("apt-get install cmake"), "{}", said(RivalEngine::Llama));
        assert!(said(RivalEngine::Candle).contains("/nowhere/program is not there"));
        assert!(
            said(RivalEngine::Torch).contains("pip install torch transformers"),
            "{}",
            said(RivalEngine::Torch)
        );
    }

    #[cfg(unix)]
    #[test]
    fn the_last_line_of_a_process_is_its_report() {
        let line = r#"{"prefill_tok_s":1,"single_tok_s":2,"group_tok_s":3,"logprob":-4,"about":null}"#;
        let script = format!("echo noise; [ $OMP_NUM_THREADS = 3 ] && echo '{line}'");
        let rates = report(Command::new("sh").args(["-c", &script]), 3).unwrap();
        assert_eq!((rates.group_tok_s, rates.logprob), (3.0, -4.0));
        assert!(report(Command::new("sh").args(["-c", "exit 3"]), 3).is_err());
        assert!(report(Command::new("sh").args(["-c", "echo nothing"]), 3).is_err());
    }
}
