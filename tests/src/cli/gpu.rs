//! `echo-lab gpu`, and `gpu-check`, which is the lab under another name.

use clap::{Args, Parser, Subcommand};
use echo_lab::gpu::{self, GpuCheckPlan, GpuStep, Pack, StepOptions, check, pack};
use echo_lab::harness::processes::{interruptible, to_its_end};
use echo_lab::output::console::{CommandReport, Console};
use serde_json::json;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const CODES: &str = "\
Examples:
  ./gpu-check                                     everything, in eight minutes at most
  ./gpu-check --only survey,vectors --budget 2m   whether the card answers and its numbers are right
  ./gpu-check --rehearse                          every step at a small size on the processor, without a card
  ./gpu-check --only wgpu --software              the wgpu backend on Vulkan in software

The last line of the output is one JSON object; each step's log and figures are below --out.
Exit codes: 0 all passed, 1 a step failed or was skipped, 2 nothing could be done, 3 there is no device, 130 interrupted.";

#[derive(Debug, Subcommand)]
pub(super) enum GpuCommand {
    /// Build the programs with CUDA and pack them with what they need into one archive for a
    /// machine with an NVIDIA card.
    ///
    /// The compiler is that of an installed CUDA toolkit ($CUDA_HOME, nvcc on the path,
    /// /usr/local/cuda), or else NVIDIA's from PyPI, which is fetched into the user's cache (1.2
    /// GB). No card is needed.
    Pack(PackOptions),
    /// Check and measure Echo on this machine's NVIDIA card.
    #[command(after_help = CODES)]
    Check(CheckOptions),
    /// One step of a check, in a process of its own.
    #[command(hide = true)]
    Step(StepWords),
}

#[derive(Debug, Args)]
pub(super) struct PackOptions {
    /// The archive, a tar compressed by zstd.
    #[arg(long, value_name = "FILE", default_value = "echo-gpu-kit.tar.zst")]
    out: PathBuf,
    /// The compute capability that the learner's kernels are for: 80 for an A100, 86 and 89 for
    /// GeForce 30 and 40, 90 for an H100.
    #[arg(long, value_name = "NUMBER", default_value_t = 90, value_parser = clap::value_parser!(u32).range(80..=121))]
    capability: u32,
}

#[derive(Debug, Args)]
pub(super) struct CheckOptions {
    /// Where logs and figures go: a directory without an earlier check. Default: gpu-check-out, or the first
    /// free one of gpu-check-out-2, gpu-check-out-3, …
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Time for all steps together, like 8m or 90s; one that would pass it is skipped.
    #[arg(long, value_name = "TIME", default_value = "8m", value_parser = budget)]
    budget: Duration,
    /// Only these steps, with commas between them.
    #[arg(long, value_name = "STEP", value_enum, value_delimiter = ',')]
    only: Vec<GpuStep>,
    /// Try every step at a small size on the processor, in place of a card.
    #[arg(long)]
    rehearse: bool,
    /// Take Vulkan in software for the step wgpu, at a small size, and in a rehearsal for a node of the loop.
    #[arg(long)]
    software: bool,
}

#[derive(Debug, Args)]
pub(super) struct StepWords {
    #[arg(value_enum)]
    step: GpuStep,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    rehearse: bool,
    #[arg(long)]
    software: bool,
}

/// Check and measure Echo on this machine's NVIDIA card, without a network or a compiler.
#[derive(Debug, Parser)]
#[command(name = gpu::CHECK, version, after_help = CODES)]
struct GpuCheck {
    #[command(flatten)]
    options: CheckOptions,
}

/// The command line of `gpu-check`, if that is what the lab was started as. Its own steps are
/// started with the lab's words.
pub(super) fn as_gpu_check(words: &[OsString]) -> Option<ExitCode> {
    let program = PathBuf::from(words.first()?);
    let named = program.file_stem().is_some_and(|name| name == gpu::CHECK);
    let of_lab = words.get(1).is_some_and(|word| word == "gpu" || word == "rollout-run");
    // The table goes where people look, and the object after it.
    let finish = |check: GpuCheck| Console::new(true).finish(check.options.execute(&Console::new(false)));
    (named && !of_lab).then(|| finish(GpuCheck::parse_from(words)))
}

fn budget(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("no step has room in it".into()) } else { Ok(time) }
}

impl GpuCommand {
    pub(super) fn execute(self, console: &Console) -> anyhow::Result<CommandReport> {
        match self {
            Self::Pack(PackOptions { out, capability }) => {
                interruptible(pack::run(&Pack { out, capability }, console))
            }
            Self::Check(options) => options.execute(console),
            Self::Step(StepWords { step, dir, rehearse, software }) => {
                let options = StepOptions { step, dir, rehearse, software };
                let outcome = interruptible(gpu::run_step(&options))?;
                Ok(CommandReport { passed: outcome.ok, json: json!(outcome) })
            }
        }
    }
}

impl CheckOptions {
    fn execute(self, console: &Console) -> anyhow::Result<CommandReport> {
        let Self { out, budget, only, rehearse, software } = self;
        let verdict =
            to_its_end(check::run(&GpuCheckPlan { out, budget, only, rehearse, software }, console))?;
        console.say(verdict.table());
        verdict.report()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_time_in_which_something_can_be_done() {
        assert_eq!(budget("90s"), Ok(Duration::from_secs(90)));
        assert!(budget("0s").is_err() && budget("soon").is_err());
    }
}
