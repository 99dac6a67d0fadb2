//! `echo-lab bench`

use clap::{Args, Subcommand, ValueEnum};
use echo_lab::bench::centre::{self, CentreBench};
use echo_lab::bench::ingest::{self, IngestBench};
use echo_lab::bench::install::{self, InstallBench};
use echo_lab::bench::interrupt::{self, InterruptBench};
use echo_lab::bench::learner_share;
use echo_lab::bench::learner_share::ShareBench;
use echo_lab::bench::rollout::{self, EnginePrograms, RivalEngine as Rival, RolloutBench, Size};
use echo_lab::bench::sandbox::{self, SandboxBench};
use echo_lab::bench::train::{self, TrainBench};
use echo_lab::bench::{echo_clip, memory_growth, micro_batches};
use echo_lab::harness::processes::interruptible;
use echo_lab::output::console::{CommandReport, Console};
use echo_policy::model::precision::Precision;
use echo_policy::training::decoder::Activations;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// A training step against PyTorch's: 17 million parameters, 2,048 tokens, f32.
    Train(TrainOptions),
    /// Dynamic micro-batches against fixed ones, on lengths with a long tail.
    MicroBatches {
        /// Steps of each process; their median counts.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
        steps: u16,
        /// Processes of each, by turns; their median counts.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
        rounds: u16,
    },
    /// Tokens a second of the engine against those of others: a group that shares a prompt, on the
    /// same seeded random weights.
    Rollout(RolloutOptions),
    /// Rollouts a second while newer policies come: interrupted between two tokens, against a
    /// generation that waits for the longest.
    Interrupt(InterruptOptions),
    /// What installing a newer policy takes of memory and time while responses are generated, and
    /// memory over many orders.
    Install(InstallOptions),
    /// Updates with EchoClip against the same without.
    EchoClip {
        /// Updates of each, by turns; their median counts.
        #[arg(long, default_value_t = 301, value_parser = clap::value_parser!(u32).range(1..))]
        updates: u32,
    },
    /// What a step's memory grows with: batch, vocabulary, longest sequence.
    Memory,
    /// Groups that a learner takes in, verifies, makes durable and acknowledges, against bare
    /// verification of their signatures.
    Ingest(IngestBench),
    /// Isolated runs against bubblewrap's, judgings of small programs, and
    /// instances of WebAssembly verifiers.
    Sandbox(SandboxBench),
    /// What the rest of a learner costs beside its updates, while 1,000 trajectories a second come in.
    Share(ShareBench),
    /// What a fleet costs its learner: processor time and memory with 100, 300 and 1,000 hosts.
    Centre(CentreBench),
}

#[derive(Debug, Args)]
pub(super) struct TrainOptions {
    /// Against whom; without it, only ours is measured.
    #[arg(long, value_enum)]
    peer: Option<Peer>,
    /// A Python with torch and transformers.
    #[arg(long, value_name = "PROGRAM", default_value = "python3", requires = "peer")]
    python: PathBuf,
    /// Steps of each process; their median counts.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    steps: u16,
    /// Processes of each, by turns; their median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// What ours holds between forward and backward.
    #[arg(long, value_enum, default_value_t = Held::Keep)]
    activations: Held,
}

#[derive(Debug, Args)]
pub(super) struct RolloutOptions {
    /// The model's form; its weights are random.
    #[arg(long, value_enum, default_value_t = Form::B06)]
    size: Form,
    /// Against whom: several, with commas between them.
    #[arg(long, value_enum, value_delimiter = ',')]
    peers: Vec<Engine>,
    /// A Python with torch and transformers.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// The program that tests/peers builds, where it is not where that build puts it.
    #[arg(long, value_name = "PROGRAM")]
    peers_program: Option<PathBuf>,
    /// Processes of each, by turns; their median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Tokens of the prompt.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u16).range(8..=768))]
    prompt: u16,
    /// Tokens that each sample gets.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=128))]
    new: u16,
    /// Samples of the group.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    samples: u16,
    /// Threads of every engine.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// In which numbers ours computes: f32, bf16, int8 or int4. The weights are published in bf16,
    /// which torch and llama.cpp compute in
    #[arg(long, default_value_t = Precision::Bf16)]
    precision: Precision,
}

#[derive(Debug, Args)]
pub(super) struct InterruptOptions {
    /// The model's form; its weights are random.
    #[arg(long, value_enum, default_value_t = Form::B06)]
    size: Form,
    /// Orders that each way answers to their ends.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    orders: u16,
    /// Samples of each order.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    samples: u16,
    /// Sequences that are generated together, at most.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    in_flight: u16,
    /// Tokens of a prompt.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    prompt: u16,
    /// The median length of a response; the longest have 16 times as many tokens.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=128))]
    median: u16,
    /// Newer policies that come while the orders are generated.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    policies: u16,
    /// Generations of each way, by turns; their median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Threads of the engine.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// In which numbers it computes: f32, bf16, int8 or int4
    #[arg(long, default_value_t = Precision::Bf16)]
    precision: Precision,
}

impl InterruptOptions {
    fn bench(self) -> InterruptBench {
        InterruptBench {
            size: self.size.into(),
            orders: self.orders.into(),
            samples: self.samples.into(),
            in_flight: self.in_flight.into(),
            prompt: self.prompt.into(),
            median: self.median.into(),
            policies: self.policies.into(),
            rounds: self.rounds.into(),
            threads: self.threads.into(),
            precision: self.precision,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct InstallOptions {
    /// The model's form; its weights are random.
    #[arg(long, value_enum, default_value_t = Form::B06)]
    size: Form,
    /// Installations of each way; their median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Tokens of the prompt that is answered meanwhile.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=512))]
    prompt: u16,
    /// Responses to that prompt, generated together.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    samples: u16,
    /// Orders that a node works on afterwards; 0 leaves them out.
    #[arg(long, default_value_t = 10_000)]
    orders: u32,
    /// Threads of the engine.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// In which numbers it computes: f32, bf16, int8 or int4
    #[arg(long, default_value_t = Precision::F32)]
    precision: Precision,
}

impl InstallOptions {
    fn bench(self) -> InstallBench {
        InstallBench {
            size: self.size.into(),
            rounds: self.rounds.into(),
            prompt: self.prompt.into(),
            samples: self.samples.into(),
            orders: self.orders.into(),
            threads: self.threads.into(),
            precision: self.precision,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    #[value(name = "tiny")]
    Tiny,
    #[value(name = "17m")]
    M17,
    #[value(name = "108m")]
    M108,
    #[value(name = "0.6b")]
    B06,
}

impl From<Form> for Size {
    fn from(form: Form) -> Self {
        match form {
            Form::Tiny => Self::Tiny,
            Form::M17 => Self::M17,
            Form::M108 => Self::M108,
            Form::B06 => Self::B06,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Candle,
    Torch,
    TorchF32,
    #[value(name = "llama.cpp")]
    Llama,
}

impl RolloutOptions {
    fn bench(self) -> RolloutBench {
        let rival = |engine: Engine| match engine {
            Engine::Candle => Rival::Candle,
            Engine::Torch => Rival::Torch,
            Engine::TorchF32 => Rival::TorchF32,
            Engine::Llama => Rival::Llama,
        };
        RolloutBench {
            size: self.size.into(),
            peers: self.peers.into_iter().map(rival).collect(),
            programs: EnginePrograms { python: self.python, peers: self.peers_program },
            rounds: self.rounds.into(),
            prompt: self.prompt.into(),
            new: self.new.into(),
            samples: self.samples.into(),
            threads: self.threads.into(),
            precision: self.precision,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    Torch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Held {
    Keep,
    Recompute,
}

impl Held {
    fn activations(self) -> Activations {
        match self {
            Self::Keep => Activations::Keep,
            Self::Recompute => Activations::Recompute,
        }
    }
}

impl TrainOptions {
    fn bench(self) -> TrainBench {
        TrainBench {
            python: self.peer.map(|Peer::Torch| self.python),
            steps: self.steps.into(),
            rounds: self.rounds.into(),
            activations: self.activations.activations(),
        }
    }
}

impl BenchCommand {
    pub(super) fn execute(self, console: &Console) -> anyhow::Result<CommandReport> {
        match self {
            Self::Train(options) => train::run(&options.bench(), console),
            Self::MicroBatches { steps, rounds } => micro_batches::run(steps.into(), rounds.into(), console),
            Self::Rollout(options) => rollout::run(&options.bench(), console),
            Self::Interrupt(options) => interrupt::run(&options.bench(), console),
            Self::Install(options) => install::run(&options.bench(), console),
            Self::EchoClip { updates } => echo_clip::run(updates, console),
            Self::Memory => memory_growth::run(console),
            Self::Ingest(bench) => interruptible(ingest::run(bench, console)),
            Self::Sandbox(bench) => sandbox::run(bench, console),
            Self::Share(bench) => interruptible(learner_share::run(bench, console)),
            Self::Centre(bench) => interruptible(centre::run(bench, console)),
        }
    }
}
