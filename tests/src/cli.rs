//! The words of the command line.

use anyhow::{anyhow, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use echo_lab::bench::ingest::{self, IngestBench};
use echo_lab::bench::share::{self, ShareBench};
use echo_lab::bench::train::{self, TrainBench};
use echo_lab::bench::{growth, micro_batches, step};
use echo_lab::broadcast::{self, Broadcast, Mode, RottenNode, Slow, Snapshots, Span};
use echo_lab::cargo::workspace_root;
use echo_lab::console::{Console, Report};
use echo_lab::delta_study;
use echo_lab::demo::{self, Demo, Faults, UPDATES};
use echo_lab::processes::interruptible;
use echo_lab::simulate::{self, Simulate};
use echo_lab::study::kill::{self, KillStudy};
use echo_lab::study::{self, DelayModel, Study};
use echo_lab::{suite, vectors};
use echo_learner::objective::vectors::Precision;
use echo_policy::decoder::Activations;
use echo_protocol::rate::BytesPerSec;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  cargo lab demo                                  train two-digit addition with four volunteers on this machine
  cargo lab demo --kill-node 2 --kill-learner     the same, with two volunteers and the learner killed on the way
  cargo lab broadcast --nodes 8 --uplink 300mbit --node-up 100mbit --node-down 100mbit --size 256MiB
                                                  how long a snapshot takes to a fleet behind real links (as root)
  cargo lab test                                  everything that can be tested, from a fresh machine on
  cargo lab vectors models DIR                    logits, losses and gradients against a directory of models
  cargo lab vectors tokenizer FILE --json         encodings and chats; one JSON object as the last line
  cargo lab vectors delta DIR                     deltas between the checkpoints in and below a directory
  cargo lab vectors export --python PYTHON        exported policies against what transformers reads in them
  cargo lab simulate --seeds 10000                relay machines in simulated networks with loss, crashes and liars
  cargo lab study staleness --seeds 8 --json      what delays do to GRPO, GSPO, GEPO and others, with pictures
  cargo lab study kill --json                     a learner that is killed 50 times, against one that is not
  cargo lab bench train --peer torch --json       a training step against PyTorch's
  cargo lab bench ingest --json                   trajectories that a learner takes in, against bare signature verification
  cargo lab bench share --json                    what the rest of a learner costs beside its updates
  cargo lab delta-study --json                    what deltas of a policy cost while it is trained by reinforcement

Exit codes: 0 all passed, 1 something failed, 2 the work could not be done, 130 interrupted.";

/// Whole-system tests and reference checks of Echo.
#[derive(Debug, Parser)]
#[command(name = "echo-lab", version, after_help = EXAMPLES)]
struct Cli {
    /// Print one JSON object as the last line of the standard output, and everything else to the standard error.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train two-digit addition with a bootstrap, a learner and volunteers as separate processes on loopback.
    Demo(DemoOptions),
    /// Time a snapshot's way from a source to nodes behind capped links: network namespaces as root, else loopback.
    Broadcast(Box<BroadcastOptions>),
    /// A node of a broadcast that serves rotten groups; `broadcast --rotten` starts it.
    #[command(hide = true)]
    RottenNode {
        /// The signed peer list.
        #[arg(long)]
        list: PathBuf,
        /// Where it listens.
        #[arg(long)]
        listen: Vec<String>,
        /// Which of several it is.
        #[arg(long)]
        number: usize,
    },
    /// Prepare this machine, build everything, run every test and add up the results.
    Test,
    /// Compare Echo's numbers with reference data.
    #[command(subcommand)]
    Vectors(Vectors),
    /// Run relay machines in thousands of simulated networks with faults and liars, and check their rules at every step.
    Simulate(SimulateOptions),
    /// Try what a paper claims: courses of a tiny policy over seeds, with 95 % intervals and pictures.
    Study(StudyOptions),
    /// Race against outside systems, by turns.
    #[command(subcommand)]
    Bench(Bench),
    /// Training steps for a bench, in a process of their own.
    #[command(hide = true)]
    TrainStep {
        /// What to train on and how, as JSON.
        setting: String,
    },
    /// Train a policy of 107 million parameters a little, and measure the deltas between its publications.
    DeltaStudy(DeltaStudyOptions),
}

#[derive(Debug, Args)]
struct DemoOptions {
    /// Volunteers.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    nodes: u8,
    /// Updates; fewer than the default are not held to the accuracy that the default reaches.
    #[arg(long, default_value_t = UPDATES, value_parser = clap::value_parser!(u64).range(10..))]
    updates: u64,
    /// Kill (SIGKILL) this many volunteers on the way; every second one comes back.
    #[arg(long, value_name = "K", default_value_t = 0)]
    kill_node: u8,
    /// Kill (SIGKILL) the learner in the middle and resume it.
    #[arg(long)]
    kill_learner: bool,
    /// Where everything is kept; must not exist. Default: a new directory below runs/.
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct BroadcastOptions {
    /// Nodes that receive and pass on.
    #[arg(long, default_value_t = 8)]
    nodes: usize,
    /// What the source may send (B0), such as 300mbit or 5MB/s.
    #[arg(long, value_name = "RATE", default_value = "300mbit")]
    uplink: BytesPerSec,
    /// What a node may send.
    #[arg(long, value_name = "RATE", default_value = "100mbit")]
    node_up: BytesPerSec,
    /// What a node may receive.
    #[arg(long, value_name = "RATE", default_value = "100mbit")]
    node_down: BytesPerSec,
    /// Draw the nodes' uplinks between two rates instead, such as 10mbit-100mbit.
    #[arg(long, value_name = "LOW-HIGH")]
    uneven: Option<Span>,
    /// Size of the policy, such as 256MiB or a number of bytes; its weights are random.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes)]
    size: u64,
    /// The nodes have version V, and the next one, a small update of it, is timed: deltas travel.
    #[arg(long, value_name = "V")]
    delta_from: Option<u64>,
    /// Two Hugging Face directories instead of random weights: the nodes have OLD, and NEW is timed.
    #[arg(long, value_name = "OLD,NEW", value_parser = pair, conflicts_with_all = ["size", "delta_from"])]
    policies: Option<Snapshots>,
    /// Who races: echo, chain, star, peer:libtorrent (also +utp, +super), peer:http.
    #[arg(long, default_value = "echo")]
    mode: Mode,
    /// Several modes instead, one after the other in every round.
    #[arg(long, value_name = "MODES", value_delimiter = ',', conflicts_with = "mode")]
    compare: Option<Vec<Mode>>,
    /// Rounds; the medians are reported.
    #[arg(long, value_name = "R", default_value_t = 1)]
    repeat: u32,
    /// Kill (SIGKILL) this share of the nodes at random moments; half of them come back after 0.5 to 2 s.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    churn: f64,
    /// Slow the uplink of a forwarder down on the way: 1:0.5 halves that of the node which has sent most.
    #[arg(long, value_name = "I:FACTOR")]
    slow: Option<Slow>,
    /// Kill a forwarder on the way: 1 is the node which has sent most.
    #[arg(long, value_name = "I")]
    gone: Option<usize>,
    /// Add nodes that serve rotten groups.
    #[arg(long, value_name = "K", default_value_t = 0)]
    rotten: usize,
    /// Put nodes behind masquerading routers.
    #[arg(long, value_name = "K", default_value_t = 0)]
    nat: usize,
    /// Of everything that is drawn: weights, uneven links, faults.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Keep everything (policies, stores, logs) in this directory; by default it is temporary.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Use the programs as they are, without building them first.
    #[arg(long)]
    no_build: bool,
    /// Show every node.
    #[arg(long)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Vectors {
    /// Models: config.json, model.safetensors and expected.json in each directory below DIR.
    Models {
        /// A directory of model directories.
        dir: PathBuf,
    },
    /// Encodings and rendered chats, one JSON object a line.
    Tokenizer(TokenizerVectors),
    /// Losses and gradients of objectives, one JSON object a line.
    Objectives {
        /// The vectors.
        file: PathBuf,
        /// The arithmetic to check: f64 as the references, or f32 as in training, with its wider tolerance.
        #[arg(long, value_enum, default_value_t = Arithmetic::F64)]
        precision: Arithmetic,
    },
    /// Deltas: old.safetensors and new.safetensors in DIR and each directory below it.
    Delta {
        /// A directory of directories of two checkpoints each.
        dir: PathBuf,
    },
    /// Exported policies of every family: `transformers` has to open them and give the same log-probs.
    Export {
        /// A Python with torch and transformers.
        #[arg(long, value_name = "PROGRAM", default_value = "python3")]
        python: PathBuf,
    },
}

#[derive(Debug, Args)]
struct DeltaStudyOptions {
    /// Supervised updates before reinforcement begins.
    #[arg(long, value_name = "N", default_value_t = 40)]
    warm_up: u64,
    /// Publications at a learning rate of 1e-6.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=1000))]
    publications: u64,
    /// A model of a million parameters, to see in seconds that everything works.
    #[arg(long)]
    tiny: bool,
    /// Write the last publication at 1e-6 and the one before it into this directory: new.safetensors and old.safetensors, and the same as directories new and old.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Bench {
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
    /// What a step's memory grows with: batch, vocabulary, longest sequence.
    Memory,
    /// Groups that a learner takes in, verifies, makes durable and acknowledges, against bare verification of their signatures.
    Ingest(IngestBench),
    /// What the rest of a learner costs beside its updates, while 1,000 trajectories a second come in.
    Share(ShareBench),
}

#[derive(Debug, Args)]
struct TrainOptions {
    /// Against whom.
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

/// Updates of the kill study.
const KILL_UPDATES: u64 = 200;

#[derive(Debug, Args)]
struct StudyOptions {
    /// Which study: staleness (GEPO, table 1), decoupled (AReaL, figure 5), echoclip (EchoRL, table 1), variance (GEPO, figure 2), kill (a
    /// learner that is killed at random instants).
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
    /// How delays are drawn: always the longest, or from a distribution that stays below it in 99.5 % of all batches.
    #[arg(long, value_enum, default_value_t = Delays::Fixed)]
    delays: Delays,
    /// Where the pictures go.
    #[arg(long, value_name = "DIR", default_value = "runs/studies")]
    out: PathBuf,
    /// How often the kill study kills the learner.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kills: u32,
    /// Of the instants at which the kill study kills.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StudyName {
    Staleness,
    Decoupled,
    Echoclip,
    Variance,
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Delays {
    Fixed,
    LogNormal,
    Weibull,
    Exponential,
}

impl StudyOptions {
    fn execute(self, console: &Console) -> anyhow::Result<Report> {
        let name = match self.name {
            StudyName::Kill => return interruptible(kill::run(self.kill_study(), console)),
            StudyName::Staleness => study::Name::Staleness,
            StudyName::Decoupled => study::Name::Decoupled,
            StudyName::Echoclip => study::Name::EchoClip,
            StudyName::Variance => study::Name::Variance,
        };
        study::run(&self.study(name), console)
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

#[derive(Debug, Args)]
struct SimulateOptions {
    /// How many seeds; each draws another network.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    seeds: u64,
    /// The first seed: that of a network which broke a rule, to see it again.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    first: u64,
    /// Simulate each twice, and compare everything that any machine said.
    #[arg(long)]
    replay: bool,
}

#[derive(Debug, Args)]
struct TokenizerVectors {
    /// The vectors.
    file: PathBuf,
    /// Directory of tokenizer.json and tokenizer_config.json; that of FILE if not given.
    #[arg(long, value_name = "DIR")]
    tokenizer: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Arithmetic {
    F32,
    F64,
}

/// Reads the command line and does what it says.
pub(crate) fn main(words: Vec<OsString>) -> ExitCode {
    let json = words.iter().any(|word| word == "--json");
    match Cli::try_parse_from(words) {
        Ok(cli) => {
            let console = Console::new(cli.json);
            console.finish(cli.command.execute(&console))
        }
        // Scripts that ask for JSON get it for their own mistakes too; help and version are for people.
        Err(error) if json && error.use_stderr() => {
            let text = error.to_string();
            Console::new(true).finish(Err(anyhow!("{}", text.trim_start_matches("error: ").trim_end())))
        }
        Err(error) => error.exit(),
    }
}

impl Command {
    fn execute(self, console: &Console) -> anyhow::Result<Report> {
        match self {
            Self::Demo(options) => interruptible(demo::run(options.demo()?, console)),
            Self::Broadcast(options) => interruptible(broadcast::run(options.broadcast(), console)),
            Self::RottenNode { list, listen, number } => {
                interruptible(RottenNode { list, listen, number }.run())?;
                Ok(Report { passed: true, json: serde_json::Value::Null })
            }
            Self::Test => interruptible(suite::run(console)),
            Self::Vectors(vectors) => vectors.execute(console),
            Self::Simulate(SimulateOptions { seeds, first, replay }) => {
                Ok(simulate::run(Simulate { first, seeds, replay }, console))
            }
            Self::Bench(Bench::Train(options)) => train::run(&options.bench(), console),
            Self::Bench(Bench::MicroBatches { steps, rounds }) => {
                micro_batches::run(steps.into(), rounds.into(), console)
            }
            Self::Bench(Bench::Memory) => growth::run(console),
            Self::Bench(Bench::Ingest(bench)) => interruptible(ingest::run(bench, console)),
            Self::Bench(Bench::Share(bench)) => interruptible(share::run(bench, console)),
            Self::TrainStep { setting } => {
                println!("{}", serde_json::to_string(&step::run(&serde_json::from_str(&setting)?)?)?);
                Ok(Report { passed: true, json: serde_json::Value::Null })
            }
            Self::Study(options) => options.execute(console),
            Self::DeltaStudy(options) => delta_study::run(&options.study(), console),
        }
    }
}

impl DemoOptions {
    fn demo(self) -> anyhow::Result<Demo> {
        ensure!(
            self.kill_node < self.nodes,
            "--kill-node {} leaves nobody of {} nodes",
            self.kill_node,
            self.nodes
        );
        let dir = match self.dir {
            Some(dir) => dir,
            None => workspace_root().join("runs").join(format!("demo-{}", echo_protocol::clock::now().0)),
        };
        ensure!(!dir.exists(), "{} exists already: choose another --dir", dir.display());
        let faults = Faults { nodes: usize::from(self.kill_node), learner: self.kill_learner };
        Ok(Demo { nodes: usize::from(self.nodes), updates: self.updates, dir, faults })
    }
}

impl DeltaStudyOptions {
    fn study(self) -> delta_study::Study {
        let Self { warm_up, publications, tiny, save } = self;
        delta_study::Study { warm_up, publications, tiny, save }
    }
}

impl BroadcastOptions {
    fn broadcast(self) -> Broadcast {
        let random = Snapshots::Random { bytes: self.size, delta_from: self.delta_from };
        Broadcast {
            nodes: self.nodes,
            uplink: self.uplink,
            node_up: self.node_up,
            node_down: self.node_down,
            uneven: self.uneven,
            snapshots: self.policies.unwrap_or(random),
            modes: self.compare.unwrap_or_else(|| vec![self.mode]),
            repeat: self.repeat,
            faults: broadcast::Faults { churn: self.churn, slow: self.slow, gone: self.gone },
            rotten: self.rotten,
            nat: self.nat,
            seed: self.seed,
            dir: self.dir,
            build: !self.no_build,
            verbose: self.verbose,
        }
    }
}

/// A number of bytes in the units of rates: 256MiB, 1GB, 100000.
fn bytes(text: &str) -> Result<u64, String> {
    let read =
        |text: &str| text.parse::<BytesPerSec>().ok().filter(|_| !text.contains('/')).map(|rate| rate.0);
    read(text).ok_or_else(|| format!("{text:?} is no number of bytes, such as 256MiB, 1GB or 100000"))
}

/// Two policies: OLD,NEW.
fn pair(text: &str) -> Result<Snapshots, String> {
    let (old, new) = text.split_once(',').ok_or_else(|| format!("{text:?} is not OLD,NEW"))?;
    Ok(Snapshots::Given { old: old.into(), new: new.into() })
}

impl Vectors {
    fn execute(self, console: &Console) -> anyhow::Result<Report> {
        let report = match self {
            Self::Delta { dir } => return vectors::delta::check(&dir, console),
            Self::Export { python } => return vectors::export::check(&python, console),
            Self::Models { dir } => vectors::models(&dir),
            Self::Tokenizer(TokenizerVectors { file, tokenizer }) => {
                vectors::tokenizer(&file, tokenizer.as_deref())
            }
            Self::Objectives { file, precision: Arithmetic::F32 } => {
                vectors::objectives(&file, Precision::F32)
            }
            Self::Objectives { file, precision: Arithmetic::F64 } => {
                vectors::objectives(&file, Precision::F64)
            }
        }?;
        Ok(vectors::tell(console, &report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn commands_are_consistent_and_json_may_stand_anywhere() {
        Cli::command().debug_assert();
        for line in ["echo-lab --json test", "echo-lab test --json", "echo-lab vectors models d --json"] {
            assert!(parse(line).unwrap().json, "{line}");
        }
        assert!(!parse("echo-lab test").unwrap().json);
        let cli = parse("echo-lab vectors tokenizer f --tokenizer d").unwrap();
        let Command::Vectors(Vectors::Tokenizer(words)) = cli.command else { panic!("another command") };
        assert_eq!((words.file, words.tokenizer), ("f".into(), Some("d".into())));
    }

    #[test]
    fn a_broadcast_is_read_as_it_is_written() {
        let line = "echo-lab broadcast --nodes 16 --uplink 250mbit --node-up 40mbit --size 1MiB --slow 1:0.5 \
                    --compare echo,peer:libtorrent --repeat 3 --policies a,b";
        assert!(parse(line).is_err(), "--size and --policies contradict");
        let cli = parse(&line.replace(" --policies a,b", "")).unwrap();
        let Command::Broadcast(options) = cli.command else { panic!("another command") };
        let broadcast = options.broadcast();
        assert_eq!((broadcast.nodes, broadcast.repeat, broadcast.node_up), (16, 3, BytesPerSec(5_000_000)));
        assert_eq!(broadcast.snapshots, Snapshots::Random { bytes: 1 << 20, delta_from: None });
        assert_eq!(broadcast.modes, [Mode::Echo, Mode::Libtorrent(Vec::new())]);
        let given = parse("echo-lab broadcast --policies a,b").unwrap();
        let Command::Broadcast(options) = given.command else { panic!("another command") };
        assert_eq!(options.broadcast().snapshots, Snapshots::Given { old: "a".into(), new: "b".into() });
    }

    #[test]
    fn mistakes_are_refused() {
        for line in [
            "echo-lab",
            "echo-lab tests",
            "echo-lab vectors models",
            "echo-lab vectors objectives f --precision f16",
            "echo-lab broadcast --uplink fast",
            "echo-lab broadcast --size 1MiB/s",
            "echo-lab broadcast --mode echo --compare star",
            "echo-lab broadcast --policies a",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
