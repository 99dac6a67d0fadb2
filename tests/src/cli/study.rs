//! `echo-lab study`

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use echo_lab::bench::rollout::Size;
use echo_lab::harness::processes::interruptible;
use echo_lab::models::smollm2;
use echo_lab::output::console::{CommandReport, Console};
use echo_lab::study::audit::vocabulary::{self, VocabularyStudy};
use echo_lab::study::audit::{self, AuditStudy};
use echo_lab::study::broadcast_scale::{self, ScaleStudy};
use echo_lab::study::cost::{self, CostStudy};
use echo_lab::study::kill::{self, KillStudy};
use echo_lab::study::precision::{self, Form, PrecisionStudy};
use echo_lab::study::simulated::FleetStudy;
use echo_lab::study::work_ahead::{self, PacedStudy};
use echo_lab::study::{self, DelayModel, Study};
use echo_lab::study::{
    paced_capacity, paced_faults, simulated_ablation, simulated_capacity, simulated_faults,
};
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
    /// How long a learner waits whose orders take as long as its updates, by the rule that leases them and
    /// by S.
    WorkAhead(PacedStudy),
    /// Six nodes that are enough, beside four that are twenty times slower.
    SlowVolunteers(PacedStudy),
    /// The learner's bubble against the number of workers, for S = 3, 4, 6 and 11 (ECHO-2, figure 3c).
    Capacity(FleetStudy),
    /// What the fault of one worker costs, without redundancy and with a tenth of it (ECHO-2, table 4).
    Faults(FleetStudy),
    /// What a step costs without broadcasts from peer to peer, and without regard to prices (ECHO-2,
    /// table 2).
    Ablation(FleetStudy),
    /// Prices times hours, against the paper's totals (ECHO-2, tables 1 and 6).
    Cost(CostStudy),
    /// How long a broadcast takes to up to 10,000 workers, from a star and in chains (ECHO-2, figure 4).
    BroadcastScale(ScaleStudy),
    /// Honest nodes and cheats under the sampling audit: false alarms, detection, and what an audit costs.
    Audit(AuditOptions),
    /// Forms of publications: how much of each step they carry, and what they cost in bytes.
    PublicationPrecision(PrecisionOptions),
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
    /// Tokens of each response: 256, or 48 with --vocabulary or --model.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=4096))]
    tokens: Option<u32>,
    /// Try the rule for large vocabularies, with a random model over so many tokens.
    #[arg(long, value_name = "TOKENS", value_parser = RangedU64ValueParser::<usize>::new().range(257..=1_000_000))]
    vocabulary: Option<usize>,
    /// The same with the model in a Hugging Face directory.
    #[arg(long, value_name = "DIR", conflicts_with = "vocabulary")]
    model: Option<PathBuf>,
    /// With --vocabulary or --model: honest groups of each machine.
    #[arg(long, value_name = "N", default_value_t = 3_008, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    groups: u64,
    /// With --vocabulary or --model: nodes of each cheat.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    nodes: u64,
    /// With --vocabulary or --model: responses of a group, of --tokens tokens each.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    group_size: u32,
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

#[derive(Debug, Args)]
pub(super) struct PrecisionOptions {
    /// What is trained.
    #[arg(long, value_enum, default_value_t = PrecisionModel::Smollm2)]
    model: PrecisionModel,
    /// Forms that are tried, with commas between.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Form::ALL)]
    forms: Vec<Form>,
    /// Learning rates, with commas between.
    #[arg(long, value_delimiter = ',', value_parser = rate, default_values_t = [1e-6, 3e-6, 1e-5])]
    rates: Vec<f64>,
    /// Updates of each course, with a publication after each. The reward says something from 60 on.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    updates: u64,
    /// Prompts of an update, with 8 responses each.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1024))]
    groups: u64,
    /// Held-out orders that are answered before and after each course.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    orders: u64,
    /// Where the pictures go.
    #[arg(long, value_name = "DIR", default_value = "runs/studies")]
    out: PathBuf,
}

/// What the study of publications trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PrecisionModel {
    /// SmolLM2-135M-Instruct on sums of two numbers.
    Smollm2,
    /// A policy of a million parameters on sums of digits, for a quick look.
    Tiny,
}

/// `1e-6`
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.trim().parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| format!("{text:?} is no learning rate: write a number above 0, as in 1e-6"))
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
            Self::Audit(options) => {
                return match options.vocabulary_study() {
                    Some(study) => vocabulary::run(&study, console),
                    None => audit::run(&options.into(), console),
                };
            }
            Self::PublicationPrecision(options) => return options.execute(console),
            Self::Capacity(study) if study.simulated => return simulated_capacity::run(&study, console),
            Self::Capacity(study) => return interruptible(paced_capacity::run(study, console)),
            Self::Faults(study) if study.simulated => return simulated_faults::run(&study, console),
            Self::Faults(study) => return interruptible(paced_faults::run(study, console)),
            Self::Ablation(study) => return simulated_ablation::run(&study, console),
            Self::Cost(study) => return cost::run(&study, console),
            Self::BroadcastScale(study) => return broadcast_scale::run(&study, console),
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

impl PrecisionOptions {
    fn execute(self, console: &Console) -> anyhow::Result<CommandReport> {
        let Self { model, forms, rates, updates, groups, orders, out } = self;
        let model = match model {
            PrecisionModel::Smollm2 => Some(interruptible(smollm2::make(None, console))?.dir),
            PrecisionModel::Tiny => None,
        };
        precision::run(&PrecisionStudy { model, forms, rates, updates, groups, orders, out }, console)
    }
}

impl CourseOptions {
    fn study(self, name: study::Name, delay_model: DelayModel) -> Study {
        let Self { seeds, updates, rate, groups, group_size, out } = self;
        Study { name, seeds, updates, rate, groups, group_size, delay_model, out }
    }
}

impl AuditOptions {
    /// The study of a large vocabulary, if it is asked for.
    fn vocabulary_study(&self) -> Option<VocabularyStudy> {
        (self.vocabulary.is_some() || self.model.is_some()).then(|| VocabularyStudy {
            vocabulary: self.vocabulary.unwrap_or_default(),
            model: self.model.clone(),
            groups: self.groups,
            nodes: self.nodes,
            gpu_groups: self.gpu as u64,
            group_size: self.group_size,
            tokens: self.tokens.unwrap_or(48),
            cost: self.cost_size,
            seed: self.seed,
            out: self.out.clone(),
        })
    }
}

impl From<AuditOptions> for AuditStudy {
    fn from(options: AuditOptions) -> Self {
        let AuditOptions { honest, cheats, gpu, tokens, cost_size: cost, seed, out, .. } = options;
        Self { honest, cheats, gpu, tokens: tokens.unwrap_or(256), cost, seed, out }
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
