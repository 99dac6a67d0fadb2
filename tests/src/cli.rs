//! The words of the command line.

mod attack;
mod bench;
mod broadcast;
mod demo;
mod gpu;
mod model;
mod results;
mod study;
mod trouble;
mod vectors;

use anyhow::anyhow;
use attack::AttackOptions;
use bench::BenchCommand;
use broadcast::BroadcastOptions;
use clap::{ArgAction, Args, Parser, Subcommand};
use demo::DemoOptions;
use echo_lab::bench::{rollout, step};
use echo_lab::broadcast::RottenNode;
use echo_lab::broadcast::simulate;
use echo_lab::broadcast::simulate::Simulate;
use echo_lab::harness::processes::interruptible;
use echo_lab::output::console::{CommandReport, Console};
use echo_lab::results::Recorder;
use echo_lab::study::deltas;
use echo_lab::study::fleet::{self, FleetSimulation};
use echo_lab::suite;
use echo_protocol::program::version::version;
use gpu::GpuCommand;
use model::{ModelOptions, ProblemsOptions};
use results::ResultsOptions;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;
use study::StudyCommand;
use trouble::TroubleOptions;
use vectors::Vectors;

const EXAMPLES: &str = "\
Examples:
  cargo lab demo                                  train two-digit addition with four volunteers on this machine
  cargo lab demo --kill-node 2 --kill-learner     the same, with two volunteers and the learner killed on the way
  cargo lab demo --model smollm2 --json           a published model learns sums and word problems: an hour on two cores
  cargo lab model smollm2                         that model alone, as a Hugging Face directory in the user's cache
  cargo lab problems --output DIR                 the rows of that demo
  cargo lab attack --json                         the demo's task among liars, floods and slow lorises, against honest volunteers only
  cargo lab attack --kind silent --json           one attack by keys that cost nothing, against the same network in peace
  cargo lab trouble --json                        clocks that are off, kills, restarts, backups, damaged files, one after the other
  cargo lab trouble --random 60 --seed 7          the same with 60 random schedules
  cargo lab broadcast --nodes 8 --uplink 300mbit --node-up 100mbit --node-down 100mbit --size 256MiB
                                                  how long a snapshot takes to a fleet behind real links (as root)
  cargo lab test                                  everything that can be tested, from a fresh machine on
  cargo lab vectors models DIR                    logits, losses and gradients against a directory of models
  cargo lab vectors tokenizer FILE --json         encodings and chats; one JSON object as the last line
  cargo lab vectors math FILE                     answers that are equal, and those that are not; also checkers, holdem, phh
  cargo lab vectors reports FILE --json           cases that users of other programs reported, judged as in a run
  cargo lab vectors datasets LIST --json          files of rows as people have them: read, or refused in words
  cargo lab vectors functions FILE                HumanEval or MBPP: references are accepted, wrong versions are not
  cargo lab vectors delta DIR                     deltas between the checkpoints in and below a directory
  cargo lab vectors smollm2 --python PYTHON       a published model against llama.cpp: logits, text and tokens
  cargo lab vectors export --python PYTHON        exported policies against what transformers reads in them
  cargo lab simulate --seeds 10000                dissemination in simulated networks with loss, crashes and liars
  cargo lab simulate fleet --nodes 1000 --seeds 100
                                                  a learner and its nodes in virtual time, every rule checked at every step
  cargo lab study staleness --seeds 8 --json      what delays do to GRPO, GSPO, GEPO and others, with pictures
  cargo lab study kill --json                     a learner that is killed 50 times, against one that is not
  cargo lab study work-ahead --json               how long a learner waits for nodes, by the rule that leases orders
  cargo lab study slow-volunteers --json          what volunteers that are twenty times slower cost a run
  cargo lab study capacity --simulated --json     how many workers keep a learner busy, by S, with the paper's constants
  cargo lab study capacity --json                 the same with real processes: measured beside predicted
  cargo lab study faults --json                   workers that are killed or slow down, with nodes that stand by
  cargo lab study ablation --simulated --json     what a step costs without peers, and without regard to prices
  cargo lab study cost --json                     prices times hours, against the paper's totals
  cargo lab bench centre --hosts 100,300,1000     processor time and memory of a learner by the number of hosts
  cargo lab bench train --peer torch --json       a training step against PyTorch's
  cargo lab bench ingest --json                   trajectories that a learner takes in, against bare signature verification
  cargo lab bench rollout --size 0.6b --peers candle,torch,llama.cpp --python PYTHON --json
                                                  tokens a second of the engine, against those of others
  cargo lab bench interrupt --json                rollouts a second while newer policies come, against waiting for the longest
  cargo lab bench echo-clip --json                updates with EchoClip, against the same without
  cargo lab bench share --json                    what the rest of a learner costs beside its updates
  cargo lab bench sandbox --json                  isolated runs, judgings and WebAssembly instances, against bubblewrap
  cargo lab gpu pack --out echo-gpu-kit.tar.zst   one archive that checks and measures Echo on a machine with an NVIDIA card
  cargo lab study publication-precision --json    how much of each step a publication carries in bf16, f16, f32 and others
  cargo lab delta-study --json                    what deltas of a policy cost while it is trained by reinforcement
  cargo lab results --check                       whether docs/results.md is what the measured figures give
  cargo lab demo --json --record                  append what the demo measures to docs/results/records.jsonl
  cargo lab results --record snapshots-fuzz-code=4200000
                                                  append a figure that another command made

Exit codes: 0 all passed, 1 something failed, 2 the work could not be done, 130 interrupted.";

static VERSION: LazyLock<String> =
    LazyLock::new(|| version(env!("CARGO_PKG_VERSION"), option_env!("ECHO_COMMIT"), None));

/// Whole-system tests and reference checks of Echo.
#[derive(Debug, Parser)]
#[command(name = "echo-lab", version = VERSION.as_str(), after_help = EXAMPLES)]
struct Cli {
    /// Print one JSON object as the last line of the standard output, and everything else
    /// to the standard error.
    #[arg(long, global = true)]
    json: bool,
    /// Append what was measured to docs/results/records.jsonl: the figures that docs/results/goals.toml
    /// finds in that object.
    // It is counted, as `results` may have it before every figure.
    #[arg(long, global = true, action = ArgAction::Count)]
    record: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train two-digit addition, or a published model, with a bootstrap, a learner and volunteers as separate
    /// processes on loopback.
    Demo(DemoOptions),
    /// Get a published model into the user's cache, and write it as a Hugging Face directory in bf16.
    Model(ModelOptions),
    /// Write the rows of the demo of a published model: train.jsonl, and sums.jsonl and words.jsonl for
    /// evaluations.
    Problems(ProblemsOptions),
    /// Train the demo's task twice, among honest members and among liars, and compare what is learned. Or
    /// attack a network in one way.
    Attack(AttackOptions),
    /// Put everyday trouble on real processes, and see how a run comes through.
    Trouble(TroubleOptions),
    /// Time a snapshot's way from a source to nodes behind capped links: network namespaces
    /// as root, else loopback.
    Broadcast(Box<BroadcastOptions>),
    /// A node of a broadcast that serves rotten blocks; `broadcast --rotten` starts it.
    #[command(hide = true)]
    RottenNode {
        /// The signed peer list.
        #[arg(long)]
        list: PathBuf,
        /// A multiaddress to listen on; several may be given.
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
    /// Run dissemination in thousands of simulated networks with faults and liars, and check its rules
    /// at every step; or whole fleets.
    Simulate(SimulateOptions),
    /// Try what a paper claims: courses of a tiny policy over seeds, with 95 % intervals and pictures.
    #[command(subcommand, after_help = study::EXIT_CODE)]
    Study(StudyCommand),
    /// Race against outside systems, by turns.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Training steps for a bench, in a process of their own.
    #[command(hide = true)]
    TrainStep {
        /// What to train on and how, as JSON.
        setting: String,
    },
    /// One process of ours in a race of engines.
    #[command(hide = true)]
    RolloutRun {
        /// A file with what to generate, as JSON.
        task: PathBuf,
    },
    /// A kit that runs and measures Echo on a machine with an NVIDIA card.
    #[command(subcommand)]
    Gpu(GpuCommand),
    /// Train a policy of 107 million parameters a little, and measure the deltas between its publications.
    DeltaStudy(DeltaStudyOptions),
    /// Write docs/results.md from the newest measured figure of each goal, or check it.
    Results(ResultsOptions),
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
    /// Write the last publication at 1e-6 and the one before it into this directory:
    /// new.safetensors and old.safetensors, and the same as directories new and old.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
struct SimulateOptions {
    #[command(subcommand)]
    what: Option<SimulateCommand>,
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

#[derive(Debug, Subcommand)]
enum SimulateCommand {
    /// A learner and its nodes in virtual time: leases, work-ahead, staleness, buffer and chains are the
    /// learner's own, and every rule is checked at every step.
    Fleet(FleetSimulation),
}

/// Reads the command line and does what it says.
pub(crate) fn main(words: Vec<OsString>) -> ExitCode {
    if let Some(code) = gpu::as_gpu_check(&words) {
        return code;
    }
    let json = words.iter().any(|word| word == "--json");
    match Cli::try_parse_from(&words) {
        Ok(cli) => {
            let console = Console::new(cli.json);
            console.finish(cli.execute(&words, &console))
        }
        // Scripts that ask for JSON get it for their own mistakes too; help and version are for people.
        Err(error) if json && error.use_stderr() => {
            let text = error.to_string();
            Console::new(true).finish(Err(anyhow!("{}", text.trim_start_matches("error: ").trim_end())))
        }
        Err(error) => error.exit(),
    }
}

impl Cli {
    /// `words` are those of the command line, the program first.
    fn execute(self, words: &[OsString], console: &Console) -> anyhow::Result<CommandReport> {
        let record = self.record > 0;
        if !record || matches!(self.command, Command::Results(_)) {
            return self.command.execute(record, console);
        }
        let words: Vec<String> =
            words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        let recorder = Recorder::new(&words)?;
        recorder.record(self.command.execute(record, console)?, console)
    }
}

impl Command {
    fn execute(self, record: bool, console: &Console) -> anyhow::Result<CommandReport> {
        match self {
            Self::Demo(options) => options.execute(console),
            Self::Model(options) => options.execute(console),
            Self::Problems(options) => options.execute(console),
            Self::Attack(options) => options.execute(console),
            Self::Trouble(options) => options.execute(console),
            Self::Broadcast(options) => interruptible(echo_lab::broadcast::run(options.broadcast(), console)),
            Self::RottenNode { list, listen, number } => {
                interruptible(RottenNode { list, listen, number }.run())?;
                Ok(CommandReport { passed: true, json: serde_json::Value::Null })
            }
            Self::Test => interruptible(suite::run(console)),
            Self::Vectors(vectors) => vectors.execute(console),
            Self::Simulate(SimulateOptions { what, seeds, first, replay }) => match what {
                Some(SimulateCommand::Fleet(simulation)) => fleet::run(&simulation, console),
                None => Ok(simulate::run(Simulate { first, seeds, replay }, console)),
            },
            Self::Bench(bench) => bench.execute(console),
            Self::TrainStep { setting } => {
                println!("{}", serde_json::to_string(&step::run(&serde_json::from_str(&setting)?)?)?);
                Ok(CommandReport { passed: true, json: serde_json::Value::Null })
            }
            Self::RolloutRun { task } => {
                println!("{}", serde_json::to_string(&rollout::run_task(&task)?)?);
                Ok(CommandReport { passed: true, json: serde_json::Value::Null })
            }
            Self::Study(study) => study.execute(console),
            Self::Gpu(gpu) => gpu.execute(console),
            Self::DeltaStudy(options) => deltas::run(&options.study(), console),
            Self::Results(options) => options.execute(record, console),
        }
    }
}

impl DeltaStudyOptions {
    fn study(self) -> deltas::DeltaStudy {
        let Self { warm_up, publications, tiny, save } = self;
        deltas::DeltaStudy { warm_up, publications, tiny, save }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use echo_lab::broadcast::{RaceMode, RaceSnapshots};
    use echo_protocol::wire::rate::BytesPerSec;

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
        for (line, times) in
            [("echo-lab test", 0), ("echo-lab --record test", 1), ("echo-lab test --record", 1)]
        {
            assert_eq!(parse(line).unwrap().record, times, "{line}");
        }
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
        assert_eq!(broadcast.snapshots, RaceSnapshots::Random { bytes: 1 << 20, delta_from: None });
        assert_eq!(broadcast.modes, [RaceMode::Echo, RaceMode::Libtorrent(Vec::new())]);
        let given = parse("echo-lab broadcast --policies a,b").unwrap();
        let Command::Broadcast(options) = given.command else { panic!("another command") };
        assert_eq!(options.broadcast().snapshots, RaceSnapshots::Given { old: "a".into(), new: "b".into() });
    }

    #[test]
    fn simulate_alone_is_of_dissemination_and_fleets_are_a_command_below() {
        let what = |line| {
            let Command::Simulate(options) = parse(line).unwrap().command else { panic!("another command") };
            (options.what.map(|SimulateCommand::Fleet(fleet)| (fleet.nodes, fleet.seed)), options.seeds)
        };
        assert_eq!(what("echo-lab simulate --seeds 7").1, 7);
        assert_eq!(what("echo-lab simulate fleet --nodes 20 --seeds 3 --seed 9 --json").0, Some((20, 9)));
        assert!(parse("echo-lab simulate --seeds 7 fleet").is_err());
        assert!(parse("echo-lab simulate fleet --nodes 100001").is_err());
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
            "echo-lab results --record a=b",
            "echo-lab results --record --command x",
            "echo-lab results --check a=1",
            "echo-lab attack --kind unknown",
            "echo-lab attack --kind silent --nodes 4",
            "echo-lab attack --seconds 20",
            "echo-lab attack --kind silent --seconds 90",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
