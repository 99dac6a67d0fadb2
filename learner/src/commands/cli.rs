//! The command line of `echo-learner`.

use crate::commands::bench;
use crate::commands::check;
use crate::commands::evaluate;
use crate::commands::export;
use crate::commands::init;
use crate::commands::peers;
use crate::commands::plan;
use crate::commands::prefilter;
use crate::commands::publish::RehearsalPlan;
use crate::commands::push;
use crate::commands::run_file::RunFile;
use crate::commands::samples;
use crate::commands::settings::SettingsArgs;
use crate::commands::task_try::TaskCommand;
use crate::training::device::BUILT_IN;
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use echo_protocol::program::version::version;
use std::path::PathBuf;
use std::sync::LazyLock;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Trains a language model on the rollouts of volunteers.
///
/// A run lives in one directory (`[run] dir` of its run file): key, charter, checkpoints, replay
/// buffer, metrics. `run` founds it and works until all updates are made; `resume` goes on after a
/// stop or a crash, where the last checkpoint ended.
#[derive(Debug, Parser)]
#[command(name = "echo-learner", version = VERSION.as_str(), after_help = EXAMPLES, max_term_width = 120)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: LearnerCommand,
    /// What to log, for example `info` or `echo_learner=debug,info`.
    #[arg(
        long,
        global = true,
        env = "ECHO_LEARNER_LOG",
        default_value = LOG,
        value_parser = log_filter
    )]
    pub log: String,
}

/// What is logged unless somebody says otherwise. A first learner that knows no other peer yet is nothing to
/// warn of, and neither is every message that a silent peer does not take.
const LOG: &str =
    "warn,libp2p_kad::behaviour=error,libp2p_gossipsub::behaviour=error,echo_learner=info,echo_protocol=info";

/// What is logged of other parts where a level below `info` stands alone: it is meant for Echo's own.
const OTHERS: &str = "warn,libp2p_kad::behaviour=error,libp2p_gossipsub::behaviour=error";

/// Refuses a bare word that is no level. The filter would take it for the name of a module,
/// and log nothing else.
fn log_filter(text: &str) -> Result<String, String> {
    let mut words = text.split(',').map(str::trim);
    let is_level = |word: &str| word.is_empty() || word.parse::<LevelFilter>().is_ok();
    if let Some(word) = words.find(|word| !word.contains(['=', '[']) && !is_level(word)) {
        return Err(format!(
            "{word} is no level: off, error, warn, info, debug and trace are. For one module write {word}=debug"
        ));
    }
    let filter = match text.trim().parse::<LevelFilter>() {
        // The network's libraries would add lines of thousands of characters, with the names of their types.
        Ok(level) if level > LevelFilter::INFO => format!("{OTHERS},echo={level}"),
        _ => text.to_owned(),
    };
    filter.parse::<EnvFilter>().map(|_| filter).map_err(|error| error.to_string())
}

static VERSION: LazyLock<String> = LazyLock::new(|| {
    version(env!("CARGO_PKG_VERSION"), option_env!("ECHO_COMMIT"), Some(&format!("trains on: {BUILT_IN}")))
});

const EXAMPLES: &str = "\
Examples:
  echo-learner init --model hf:Qwen/Qwen3-0.6B --task math --data rows.jsonl
                                            write a run file with comments
  echo-learner task try --task math --data rows.jsonl
                                            rows, prompts, and what is wrong with them; no run is needed
  echo-learner check run.toml               all that is wrong or odd, before anything is computed
  echo-learner run run.toml                 found a run and train (`--config run.toml` is the same)
  echo-learner resume runs/addition         go on with it
  echo-learner resume runs/addition --updates 900
                                            go on further than the run file says
  echo-learner export runs/addition --output policy
                                            write the newest checkpoint's policy, while the run goes on
  echo-learner evaluate qwen3 --data gsm8k_test.jsonl --samples 8 --max-new-tokens 1024
                                            avg@8 and pass@k with their intervals
  echo-learner push runs/addition hf:OWNER/NAME --license apache-2.0
                                            upload it to the Hugging Face Hub
  echo-learner warmup --config run.toml --output start
                                            only make the supervised starting policy
  echo-learner publish run.toml --policy qwen3 --nodes 8 --json
                                            how long a policy takes to reach a fleet
  echo-learner plan run.toml --fleet fleet.toml
                                            for S from 1 to 12: how many nodes it takes, and what it costs
  echo-learner bench --config run.toml      how fast this machine trains the run's model, in how much memory
  echo-learner objectives gepo              the parts of an objective, as a run file may change them
  echo-learner metrics                      what a run's metrics are called, and what they say
  echo-learner metrics runs/addition        their newest values in a run
  echo-learner samples runs/addition        what the policy writes, and what it earns
  echo-learner peers list runs/addition     who delivered what, and who is not heard
  echo-learner peers pardon runs/addition 0a1b2c3d
                                            hear a peer again
  echo-learner identity runs/addition       the key that belongs into a signed peer list

A run file, all that is needed for a first run:
  task = \"chain_sum\"
  [run]
  name = \"addition\"
  dir = \"runs/addition\"
  updates = 500
  [model.tiny]
  hidden = 128
  layers = 3
  heads = 4
  kv_heads = 2
  head_dim = 32
  intermediate = 384
  positions = 64
  [train.schedule]
  peak = 3e-4
  decay = { shape = \"constant\" }
  [warmup]
  updates = 2000
  batch = 64
  learning_rate = 2e-3
  until_accuracy = 0.3
  [network]
  peers = \"echo.peers\"";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum LearnerCommand {
    /// Write a run file to begin with: a comment for each setting, and values that fit the model.
    Init(init::InitPlan),
    /// Look for all that would keep a run from working, and for what is odd about it.
    ///
    /// Addresses, directories, disk and memory, the model's and the tokenizer's vocabulary, the tokens of all
    /// prompts, solutions that the task's file shows, rates and batches. Nothing is written. Ends with code 2
    /// if there are problems. `run` does the same first.
    Check(check::CheckPlan),
    /// Try a task: its rows, its prompts, and what responses earn.
    #[command(subcommand)]
    Task(TaskCommand),
    /// Found a run and train until all updates are made.
    Run {
        /// The run file.
        #[command(flatten)]
        config: RunFile,
    },
    /// Go on with a run after a stop or a crash.
    ///
    /// Settings of the command line hold until this process ends: what is to stay is written into the run
    /// directory's run.toml. What the charter has fixed stays as it is, and is named.
    Resume {
        /// The run directory.
        dir: PathBuf,
        /// Updates in total, in place of [run] updates.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
        updates: Option<i64>,
        /// Settings in place of those in DIR/run.toml.
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Write the policy of a checkpoint as a Hugging Face directory.
    ///
    /// Works beside a learner that is training, and changes nothing in the run directory.
    Export(export::ExportPlan),
    /// Measure a model, or a version of a run, on a set of rows: avg@k and pass@k with 95 % intervals.
    ///
    /// Each row is answered several times. Rows are written as they are answered: the same command goes
    /// on after an interrupt, and comes to the same rows. Works beside a learner that is training.
    Evaluate(Box<evaluate::EvaluatePlan>),
    /// Upload a policy to the Hugging Face Hub, with a card that says how it was trained.
    ///
    /// Works beside a learner that is training. What the Hub has is not sent again, so the same command goes
    /// on after an interrupt. HF_TOKEN has to hold a token that may write there.
    Push(push::PushPlan),
    /// Make the supervised starting policy and write it as a Hugging Face directory.
    ///
    /// The run file needs a [warmup] table.
    Warmup {
        /// The run file.
        #[command(flatten)]
        config: RunFile,
        /// Where to write the policy. Must not exist.
        #[arg(long)]
        output: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Keep those rows of a task's file that the starting policy answers right now and then (RLAX's
    /// pre-filtering by pass rate).
    ///
    /// Each row is answered as often as is asked for, at the run file's own settings. A policy that
    /// needs a warm-up is made first, once, with `echo-learner warmup`, and named as [model] path.
    /// What was found is written beside the output as it is found: the same command goes on after
    /// an interrupt. Name the output in the run file, under [data], and found the run on it.
    Prefilter {
        /// The run file.
        #[command(flatten)]
        config: RunFile,
        /// What is filtered, and how.
        #[command(flatten)]
        plan: prefilter::PrefilterPlan,
    },
    /// Serve policies to the fleet without training: rehearse a broadcast, or test a fleet's links.
    ///
    /// The first policy is version 0, the next version 1, and so on. Nodes join as in a real run;
    /// they get no work. Ends when every living node has installed the last version, at the
    /// deadline, or with Ctrl-C. The run file's [model] and [train] are not used: the first policy
    /// says what the model is.
    Publish {
        /// The run file.
        #[command(flatten)]
        config: RunFile,
        /// What is published, and when.
        #[command(flatten)]
        plan: RehearsalPlan,
    },
    /// Try a run file's model and [train] settings: training steps on tokens that mean nothing.
    ///
    /// Prints tokens per second, and on a GPU the memory that was needed. Nothing is founded or written.
    Bench {
        /// The run file.
        #[command(flatten)]
        config: RunFile,
        /// What is tried.
        #[command(flatten)]
        plan: bench::BenchPlan,
    },
    /// Work out, for S from 1 to 12, what a run asks of its fleet and what it costs.
    ///
    /// For each S: κ, T_bcast, μ_min, the nodes of each class that are enough, the bound on the lag, dollars
    /// and traffic; then the cheapest S that is safe, or what to change. Ends with code 2 where none is.
    /// Nothing is founded or written.
    Plan(plan::FleetPlan),
    /// Show the objectives that a run file may name, or the parts of one of them.
    ///
    /// The parts are printed as a run file writes them: any of them may be changed under [train.objective].
    Objectives {
        /// The objective whose parts to print.
        name: Option<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show the newest values of a run's metrics; without a run, what metrics there are: where they stand in
    /// metrics.jsonl, their tags in TensorBoard, units and meanings.
    ///
    /// In Prometheus a metric is called echo_ and the part of its tag after the slash; [watch]
    /// listen says where it is served.
    Metrics {
        /// The run directory.
        dir: Option<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show what the policy writes: prompts, responses and rewards of some groups of each update and
    /// evaluation.
    ///
    /// Works beside a learner that is training. [watch] samples in the run file says how many groups
    /// of an update are recorded.
    Samples(samples::SamplesPlan),
    /// Show what every peer delivered, and ban or pardon peers, while the learner runs or when it does not.
    #[command(subcommand)]
    Peers(peers::ModerationCommand),
    /// Show a run's public key and peer id; the key is created if the directory has none.
    Identity {
        /// The run directory.
        dir: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print a script that completes this program's commands and flags in a shell.
    Completions {
        /// The shell that will read it.
        shell: Shell,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_misspelt_level_is_refused_and_every_filter_is_taken() {
        for wrong in ["inof", "debgu,info", "info,verbose", "echo_learner=inof"] {
            let arguments = ["echo-learner", "--log", wrong, "metrics"];
            let refused = Cli::try_parse_from(arguments).unwrap_err().to_string();
            assert!(refused.contains("--log"), "{refused}");
        }
        for right in [LOG, "info", "WARN", "off", "", "echo_learner=debug,info", "echo_learner[span]=trace"] {
            assert_eq!(log_filter(right).unwrap(), right);
        }
        // Below info a level alone is for Echo's parts.
        assert_eq!(log_filter("debug").unwrap(), format!("{OTHERS},echo=debug"));
        assert_eq!(log_filter("debug,libp2p=debug").unwrap(), "debug,libp2p=debug");
    }

    #[test]
    fn every_command_takes_its_run_file_in_both_forms() {
        Cli::command().debug_assert();
        for command in ["check", "run", "warmup", "prefilter", "publish", "bench", "plan"] {
            let rest: &[&str] = match command {
                "warmup" | "prefilter" => &["--output", "o"],
                "publish" => &["--policy", "p"],
                _ => &[],
            };
            for form in [&["run.toml"][..], &["--config", "run.toml"][..]] {
                let words = [&["echo-learner", command][..], form, rest].concat();
                assert!(Cli::try_parse_from(&words).is_ok(), "{words:?}");
            }
            let none = [&["echo-learner", command][..], rest].concat();
            assert!(Cli::try_parse_from(&none).is_err(), "{none:?}");
        }
    }

    #[test]
    fn every_command_that_prints_results_has_json() {
        for words in [
            "check f",
            "init --model tiny --task chain_sum",
            "task try --task chain_sum",
            "task try f --set run.seed=1",
            "identity d",
            "objectives",
            "metrics",
            "metrics d",
            "warmup f --output o",
            "prefilter f --output o",
            "publish f --policy p",
            "bench f",
            "plan f --fleet g --measure",
            "export d --output o",
            "peers list d",
            "peers show d 012345",
            "peers ban d 012345 --reason r",
            "peers pardon d 012345",
        ] {
            let words = ["echo-learner"].into_iter().chain(words.split(' ')).chain(["--json"]);
            assert!(Cli::try_parse_from(words.clone()).is_ok(), "{:?}", words.collect::<Vec<_>>());
        }
    }

    #[test]
    fn settings_are_taken_by_every_command_that_reads_a_run_file() {
        let commands: [&[&str]; 8] = [
            &["check", "run.toml"],
            &["run", "--config", "run.toml"],
            &["resume", "runs/sums", "--updates", "9"],
            &["warmup", "--config", "run.toml", "--output", "start"],
            &["prefilter", "--config", "run.toml", "--output", "rows.jsonl"],
            &["publish", "run.toml", "--policy", "qwen3"],
            &["bench", "--config", "run.toml"],
            &["plan", "run.toml"],
        ];
        for command in commands {
            let with = |setting: &str| {
                let words = [&["echo-learner"][..], command, &["--set", setting, "--set", "run.seed=1"]];
                Cli::try_parse_from(words.concat())
            };
            assert!(with("run.name=other").is_ok(), "{command:?}");
            assert!(with("run.name").unwrap_err().to_string().contains("write KEY=VALUE"), "{command:?}");
        }
        for wrong in ["0", "-1", "many"] {
            assert!(
                Cli::try_parse_from(["echo-learner", "resume", "runs/sums", "--updates", wrong]).is_err()
            );
        }
    }

    #[test]
    fn messages_that_a_silent_peer_does_not_take_are_not_logged() {
        let subscriber = tracing_subscriber::fmt().with_env_filter(LOG).with_writer(std::io::sink).finish();
        tracing::subscriber::with_default(subscriber, || {
            assert!(!tracing::enabled!(target: "libp2p_gossipsub::behaviour", tracing::Level::WARN));
            assert!(tracing::enabled!(target: "libp2p_swarm", tracing::Level::WARN));
        });
    }
}
