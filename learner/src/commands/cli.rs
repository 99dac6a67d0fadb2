//! The command line of `echo-learner`.

use crate::commands::bench;
use crate::commands::evaluate;
use crate::commands::export;
use crate::commands::peers;
use crate::commands::prefilter;
use crate::commands::publish::RehearsalPlan;
use crate::training::device::BUILT_IN;
use clap::{Parser, Subcommand};
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
#[command(name = "echo-learner", version = VERSION.as_str(), after_help = EXAMPLES)]
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
    text.parse::<EnvFilter>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

static VERSION: LazyLock<String> = LazyLock::new(|| {
    version(env!("CARGO_PKG_VERSION"), option_env!("ECHO_COMMIT"), Some(&format!("trains on: {BUILT_IN}")))
});

const EXAMPLES: &str = "\
Examples:
  echo-learner run --config run.toml        found a run and train
  echo-learner resume runs/addition         go on with it
  echo-learner export runs/addition --output policy
                                            write the newest checkpoint's policy, while the run goes on
  echo-learner evaluate qwen3 --data gsm8k_test.jsonl --samples 8 --max-new-tokens 1024
                                            avg@8 and pass@k with their intervals
  echo-learner warmup --config run.toml --output start
                                            only make the supervised starting policy
  echo-learner publish run.toml --policy qwen3 --nodes 8 --json
                                            how long a policy takes to reach a fleet
  echo-learner bench --config run.toml      how fast this machine trains the run's model, in how much memory
  echo-learner objectives gepo              the parts of an objective, as a run file may change them
  echo-learner metrics                      what a run's metrics are called, and what they say
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
    /// Found a run and train until all updates are made.
    Run {
        /// The run file.
        #[arg(long)]
        config: PathBuf,
    },
    /// Go on with a run after a stop or a crash.
    Resume {
        /// The run directory.
        dir: PathBuf,
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
    /// Make the supervised starting policy and write it as a Hugging Face directory.
    Warmup {
        /// The run file; it needs a [warmup] table.
        #[arg(long)]
        config: PathBuf,
        /// Where to write the policy. Must not exist.
        #[arg(long)]
        output: PathBuf,
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
        #[arg(long)]
        config: PathBuf,
        /// What is filtered, and how.
        #[command(flatten)]
        plan: prefilter::PrefilterPlan,
    },
    /// Serve policies to the fleet without training: rehearse a broadcast, or test a fleet's links.
    ///
    /// The first policy is version 0, the next version 1, and so on. Nodes join as in a real run;
    /// they get no work. Ends when every living node has installed the last version, at the
    /// deadline, or with Ctrl-C.
    Publish {
        /// The run file. Its [model] and [train] are not used: the first policy says what the model is.
        config: PathBuf,
        /// What is published, and when.
        #[command(flatten)]
        plan: RehearsalPlan,
    },
    /// Try a run file's model and [train] settings: training steps on tokens that mean nothing.
    ///
    /// Prints tokens per second, and on a GPU the memory that was needed. Nothing is founded or written.
    Bench {
        /// The run file.
        #[arg(long)]
        config: PathBuf,
        /// What is tried.
        #[command(flatten)]
        plan: bench::BenchPlan,
    },
    /// Show the objectives that a run file may name, or the parts of one of them.
    ///
    /// The parts are printed as a run file writes them: any of them may be changed under [train.objective].
    Objectives {
        /// The objective whose parts to print.
        name: Option<String>,
    },
    /// Show the metrics of a run: where they stand in metrics.jsonl, their tags in
    /// TensorBoard, units and meanings.
    ///
    /// In Prometheus a metric is called echo_ and the part of its tag after the slash; [watch]
    /// listen says where it is served.
    Metrics,
    /// Show what every peer delivered, and ban or pardon peers, while the learner runs or when it does not.
    #[command(subcommand)]
    Peers(peers::ModerationCommand),
    /// Show a run's public key and peer id; the key is created if the directory has none.
    Identity {
        /// The run directory.
        dir: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

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
