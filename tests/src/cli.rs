//! The words of the command line.

use anyhow::{anyhow, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use echo_lab::cargo::workspace_root;
use echo_lab::console::{Console, Report};
use echo_lab::demo::{self, Demo, Faults, UPDATES};
use echo_lab::processes::interruptible;
use echo_lab::{suite, vectors};
use echo_learner::objective::vectors::Precision;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  cargo lab demo                                  train two-digit addition with four volunteers on this machine
  cargo lab demo --kill-node 2 --kill-learner     the same, with two volunteers and the learner killed on the way
  cargo lab test                                  everything that can be tested, from a fresh machine on
  cargo lab vectors models DIR                    logits, losses and gradients against a directory of models
  cargo lab vectors tokenizer FILE --json         encodings and chats; one JSON object as the last line

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
    /// Prepare this machine, build everything, run every test and add up the results.
    Test,
    /// Compare Echo's numbers with reference data.
    #[command(subcommand)]
    Vectors(Vectors),
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
            Self::Test => interruptible(suite::run(console)),
            Self::Vectors(vectors) => vectors.execute(console),
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

impl Vectors {
    fn execute(self, console: &Console) -> anyhow::Result<Report> {
        let report = match self {
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
    fn mistakes_are_refused() {
        for line in [
            "echo-lab",
            "echo-lab tests",
            "echo-lab vectors models",
            "echo-lab vectors objectives f --precision f16",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
