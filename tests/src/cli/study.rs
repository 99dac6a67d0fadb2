//! `echo-lab study`

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use echo_lab::bench::rollout::Size;
use echo_lab::harness::processes::interruptible;
use echo_lab::output::console::{CommandReport, Console};
use echo_lab::study::audit::{self, AuditStudy};
use echo_lab::study::kill::{self, KillStudy};
use echo_lab::study::work_ahead::{self, PacedStudy};
use echo_lab::study::{self, DelayModel, Study};
use std::path::PathBuf;

/// What the help ends with.
pub(super) const EXIT_CODE: &str = "\
Every study judges claims, and the exit code is 1 when one of them does not hold. Which claims those are, whether each holds, and the \
figures that decided it stand under `claims` in the object that --json prints.";

#[derive(Debug, Subcommand)]
pub(super) enum StudyCommand {
    /// GRPO, GSPO, GEPO, decoupled PPO, Dr. GRPO and BNPO without delay and with delays of up to 64
    /// updates (GEPO, table 1).
    Staleness {
        #[command(flatten)]
        courses: CourseOptions,
        /// How delays are drawn: always the longest, or from a distribution that is cut to between
        /// a thirtieth of it and all of it, with 99.5 % of its draws between these two
        /// (exponential: below the longest).
        #[arg(long, value_enum, default_value_t = Delays::Fixed)]
        delays: Delays,
    },
    /// PPO around the sampling policy and around the recent one, by staleness (AReaL, figure 5).
    Decoupled {
        #[command(flatten)]
        courses: CourseOptions,
        /// How delays are drawn, as in the staleness study.
        #[arg(long, value_enum, default_value_t = Delays::Fixed)]
        delays: Delays,
    },
    /// GRPO and DAPO with and without EchoClip, on a task that saturates (EchoRL, table 1).
    Echoclip {
        #[command(flatten)]
        courses: CourseOptions,
    },
    /// The variance of token, sequence and group weights against KL (GEPO, figure 2 and theorem 1).
    Variance {
        #[command(flatten)]
        courses: CourseOptions,
    },
    /// A learner that is killed at random instants, against one that is not: the same
    /// policy, nothing acknowledged lost.
    Kill(KillStudy),
    /// How long a learner waits whose orders take as long as its updates, by the rule that leases them and by S.
    WorkAhead(PacedStudy),
    /// Six nodes that are enough, beside four that are twenty times slower.
    SlowVolunteers(PacedStudy),
    /// Honest nodes and cheats under the sampling audit: false alarms, detection, and what an audit costs.
    Audit(AuditOptions),
}

#[derive(Debug, Args)]
pub(super) struct CourseOptions {
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
    /// Where the picture goes.
    #[arg(long, value_name = "DIR", default_value = "runs/studies")]
    out: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct AuditOptions {
    /// Honest responses of each machine.
    #[arg(long, value_name = "N", default_value_t = 3_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    honest: usize,
    /// Responses of each cheat.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    cheats: usize,
    /// Honest responses of the GPU: the best one there is, a processor that plays one if need be; 0 is none.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = RangedU64ValueParser::<usize>::new().range(0..=1_000_000))]
    gpu: usize,
    /// Tokens of each response.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=4096))]
    tokens: u32,
    /// The model with which the cost of an audit is measured: tiny, 17m, 108m or 0.6b.
    #[arg(long, value_name = "SIZE", default_value_t = Size::B06)]
    cost_size: Size,
    /// Of policies and orders.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where audit.jsonl goes: what is found of each machine and cheat, as it is found.
    #[arg(long, value_name = "DIR", default_value = "runs/studies")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Delays {
    Fixed,
    LogNormal,
    Weibull,
    Exponential,
}

impl StudyCommand {
    pub(super) fn execute(self, console: &Console) -> anyhow::Result<CommandReport> {
        let (name, courses, delays) = match self {
            Self::Audit(options) => return audit::run(&options.into(), console),
            Self::Kill(study) => return interruptible(kill::run(study, console)),
            Self::WorkAhead(study) => return interruptible(work_ahead::run(study, console)),
            Self::SlowVolunteers(study) => return interruptible(work_ahead::slow_volunteers(study, console)),
            Self::Staleness { courses, delays } => (study::Name::Staleness, courses, delays),
            Self::Decoupled { courses, delays } => (study::Name::Decoupled, courses, delays),
            Self::Echoclip { courses } => (study::Name::EchoClip, courses, Delays::Fixed),
            Self::Variance { courses } => (study::Name::Variance, courses, Delays::Fixed),
        };
        study::run(&courses.study(name, delays.into()), console)
    }
}

impl CourseOptions {
    fn study(self, name: study::Name, delay_model: DelayModel) -> Study {
        let Self { seeds, updates, rate, groups, group_size, out } = self;
        Study { name, seeds, updates, rate, groups, group_size, delay_model, out }
    }
}

impl From<AuditOptions> for AuditStudy {
    fn from(options: AuditOptions) -> Self {
        let AuditOptions { honest, cheats, gpu, tokens, cost_size: cost, seed, out } = options;
        Self { honest, cheats, gpu, tokens, cost, seed, out }
    }
}

impl From<Delays> for DelayModel {
    fn from(delays: Delays) -> Self {
        match delays {
            Delays::Fixed => Self::Fixed,
            Delays::LogNormal => Self::LogNormal,
            Delays::Weibull => Self::Weibull,
            Delays::Exponential => Self::Exponential,
        }
    }
}
