//! `echo-lab study`

use clap::{Args, ValueEnum};
use echo_lab::bench::rollout::Size;
use echo_lab::console::{Console, Report};
use echo_lab::processes::interruptible;
use echo_lab::study::audit::{self, AuditStudy};
use echo_lab::study::kill::{self, KillStudy};
use echo_lab::study::{self, DelayModel, Study};
use std::path::PathBuf;

/// Updates of the kill study.
const KILL_UPDATES: u64 = 200;

/// What the help ends with.
const EXIT_CODE: &str = "\
Every study judges claims, and the exit code is 1 when one of them does not hold. Which claims those are, whether each holds, and the \
figures that decided it stand under `claims` in the object that --json prints.";

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODE)]
pub(super) struct StudyOptions {
    /// Which study: staleness (GEPO, table 1), decoupled (AReaL, figure 5), echoclip (EchoRL, table 1), variance (GEPO, figure 2), kill (a
    /// learner that is killed at random instants), audit (honest nodes and cheats under the sampling audit).
    #[arg(value_enum)]
    name: StudyName,
    /// Seeds; each has its own weights, prompts and samples.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Updates of each course, instead of the study's own number.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    updates: Option<u64>,
    /// Learning rate of reinforcement, instead of the study's own.
    #[arg(long)]
    rate: Option<f64>,
    /// Prompts of an update, instead of the study's own number.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    groups: Option<u64>,
    /// Responses to a prompt, instead of the study's own number.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=256))]
    group_size: Option<u32>,
    /// How delays are drawn: always the longest, or from a distribution that is cut to between a thirtieth of it and all of it, with 99.5 % of
    /// its draws between these two (exponential: below the longest).
    #[arg(long, value_enum, default_value_t = Delays::Fixed)]
    delays: Delays,
    /// Where the pictures go, and what the audit study finds of each machine and cheat as it is found: audit.jsonl.
    #[arg(long, value_name = "DIR", default_value = "runs/studies")]
    out: PathBuf,
    /// How often the kill study kills the learner.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kills: u32,
    /// Of the instants at which the kill study kills, and of the audit study's policies and orders.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Honest responses of each machine that the audit study judges.
    #[arg(long, value_name = "N", default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    honest: u32,
    /// Responses of each cheat that the audit study judges.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    cheats: u32,
    /// Honest responses of the GPU that the audit study judges: the best one there is, a processor that plays one if need be; 0 is none.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    gpu: u32,
    /// Tokens of each response that the audit study judges.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=4096))]
    tokens: u32,
    /// The model with which the audit study measures what an audit costs: tiny, 17m, 108m or 0.6b.
    #[arg(long, value_name = "SIZE", default_value_t = Size::B06)]
    cost_size: Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StudyName {
    Staleness,
    Decoupled,
    Echoclip,
    Variance,
    Kill,
    Audit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Delays {
    Fixed,
    LogNormal,
    Weibull,
    Exponential,
}

impl StudyOptions {
    pub(super) fn execute(self, console: &Console) -> anyhow::Result<Report> {
        let name = match self.name {
            StudyName::Audit => return audit::run(&self.audit_study(), console),
            StudyName::Kill => return interruptible(kill::run(self.kill_study(), console)),
            StudyName::Staleness => study::Name::Staleness,
            StudyName::Decoupled => study::Name::Decoupled,
            StudyName::Echoclip => study::Name::EchoClip,
            StudyName::Variance => study::Name::Variance,
        };
        study::run(&self.study(name), console)
    }

    fn audit_study(self) -> AuditStudy {
        let Self { honest, cheats, gpu, tokens, cost_size: cost, seed, out, .. } = self;
        let [honest, cheats, gpu] = [honest, cheats, gpu].map(|count| count as usize);
        AuditStudy { honest, cheats, gpu, tokens, cost, seed, out }
    }

    fn kill_study(&self) -> KillStudy {
        KillStudy { kills: self.kills, updates: self.updates.unwrap_or(KILL_UPDATES), seed: self.seed }
    }

    fn study(self, name: study::Name) -> Study {
        let delay_model = match self.delays {
            Delays::Fixed => DelayModel::Fixed,
            Delays::LogNormal => DelayModel::LogNormal,
            Delays::Weibull => DelayModel::Weibull,
            Delays::Exponential => DelayModel::Exponential,
        };
        Study {
            name,
            seeds: self.seeds,
            updates: self.updates,
            rate: self.rate,
            groups: self.groups,
            group_size: self.group_size,
            delay_model,
            out: self.out,
        }
    }
}
