//! The command line.
//!
//! Its modules are commands that join no network: `verify-server` and `install-service`. The other commands
//! are in `main.rs`. May import `devices`, `settings` and `state`.

pub mod service;
pub mod verify_server;

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use echo_protocol::program::version::version;

use crate::cli::service::InstallService;
use crate::cli::verify_server::VerifyServer;
use crate::devices::hardware::Hardware;
use crate::settings::Flags;

const EXAMPLES: &str = "\
Examples:
  echo-node run --peers list.txt
      Join the run of the list and work with half of the cores. The first start creates an identity;
      every later start continues with the same data directory.

  echo-node preflight --peers list.txt
      Only check: everything that would keep the node from running, each with its mend.

  echo-node hardware
      Which graphics cards there are, which one would be used and why, and ten seconds of measuring it.

  echo-node run --hours 22:00-07:00 --max-disk 20GB
      The list is remembered. Take work at night only, and no run that may fill more than 20 GB of the disk.

  echo-node install-service --threads 2
      Have systemd run the node with these flags at every login. `echo-node status` says what it does.

  echo-node run --peers list.txt --role relay --max-upload 40mbit
      Help without a fast processor: keep the newest policy and pass it on, never sending more than 40 Mbit/s.

  echo-node run --peers list.txt --role rollout --role relay --role verifier
      Also check for the learner what others have generated. It takes memory for up to three policies.

  echo-node receipts list
      What the learner accepted and refused of this node's work. `receipts verify` checks the learner's signatures.

  echo-node verify-server --socket verify.sock
      Judge programs for other processes of this machine, without joining a run; see `verify-server --help`.

  ECHO_NODE_THREADS=2 echo-node config
      What the node would run with, and where each value came from.

Settings come from flags, then the environment (ECHO_NODE_THREADS for --threads), then the file node.toml in the data
directory (threads = 2), then the defaults. Limits:
  threads      processor cores that generating may use; all other work of the node needs little
  device       what generates: auto takes an NVIDIA GPU (cuda), else another GPU (wgpu: Vulkan, Metal or DX12), else the
               processor (cpu); cuda:1 or wgpu:radeon choose one of several. Where it is lost, the next one goes on
  max_orders   work orders held at once. Their rollouts are lost to the run if this node goes away in the midst
  roles        rollout: generate; relay: pass snapshots on to other nodes; verifier: check for the learner what others have
               generated. A node whose only role is relay keeps the newest snapshots and serves them, without ever loading
               the model; rollout and relay are what a node does by default
  max_upload   most bytes a second that the node sends, over everything it does: 40mbit, 5MB/s
  max_download most bytes a second that it receives; below 30 kB/s policies may not arrive

Stop a node with Ctrl-C at any moment: what it has finished is in its outbox and goes out at the next start.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  echo-node verify-server --socket /run/user/1000/echo-verify.sock
      Judge programs for processes of this user. They put test data, which is kept once by its content, then send
      programs with the names of their tests, and get a verdict for each test as it is made: AC, WA, PE, TLE(cpu),
      TLE(wall), MLE, OLE, RE(code), SG(signal), CE, or Internal, which is never a score. The messages, where these are
      called accepted, wrong_answer and so on, and a client in Python are in docs/reference/verify-server.md.

  sudo echo-node verify-server --socket /run/echo-verify.sock --allow-uid 1000 --allow-uid 1001 --workers 8
      The same for two users. The kernel says who connects; nobody else is let in.

Languages are those that are installed: Python 3 (python3), C++ (g++), Rust (rustc and a C linker), Go (go). What is
missing is listed at the start. Programs are isolated by means that Linux alone has; where the system gives less than
that takes, the server refuses to start and says what is missing. In Rust the client is `echo_sandbox::programs::server::Client`.

Stop it with Ctrl-C: who waits is told, runs that go on are ended by their limits, and nothing is left but the store.";

/// Every build generates on NVIDIA's and on other GPUs; a start looks what the machine has.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    version(env!("CARGO_PKG_VERSION"), option_env!("ECHO_COMMIT"), Some("generates on: cpu, cuda, wgpu"))
});

/// Work for an Echo run: receive its newest policy, generate and score rollouts, send them to its learner
#[derive(Debug, Parser)]
#[command(name = "echo-node", version = VERSION.as_str(), after_help = EXAMPLES, arg_required_else_help = true, max_term_width = 120)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: NodeCommand,
    /// Settings.
    #[command(flatten)]
    pub flags: Flags,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum NodeCommand {
    /// Join the run and work until it ends
    Run,
    /// Print the effective settings and where each came from
    Config {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print this node's public key and peer id; created if there is none yet
    Identity {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what the learner accepted and refused of this node's work, and check its receipts
    #[command(subcommand)]
    Receipts(Receipts),
    /// Check everything that a run needs, without joining it, and look whether the network answers; the data
    /// directory and the identity are created if there are none yet
    Preflight(Preflight),
    /// Say whether a node runs in the data directory, and what it does or did last
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Have systemd run the node for this user, with the flags that are given here
    InstallService(InstallService),
    /// Print a script that completes this program's commands and flags in a shell
    Completions {
        /// The shell that will read it
        shell: Shell,
    },
    /// List the devices to generate on, say which is used and why, and measure it; joins no run
    Hardware(Hardware),
    /// Judge programs by tests for other processes of this machine, over a local socket; joins no run
    #[command(after_help = VERIFY_EXAMPLES)]
    VerifyServer(VerifyServer),
}

/// How to check.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Preflight {
    /// Do not look at the network
    #[arg(long)]
    pub offline: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Commands that use every setting: their help lists them.
const WITH_SETTINGS: [&str; 4] = ["run", "config", "preflight", "install-service"];
/// Settings that every command uses.
const ALWAYS: [&str; 2] = ["data_dir", "config"];
/// Settings of `hardware`, beside those.
const OF_HARDWARE: [&str; 4] = ["threads", "device", "precision", "log"];

/// The command line, in which the help of a command lists no setting that the command does not use. The flags
/// themselves stand anywhere.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let settings: Vec<clap::Arg> =
        command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    command.mut_subcommands(|sub| {
        let name = sub.get_name().to_owned();
        let is_used = |arg: &clap::Arg| {
            let id = arg.get_id().as_str();
            WITH_SETTINGS.contains(&name.as_str())
                || ALWAYS.contains(&id)
                || (name == "hardware" && OF_HARDWARE.contains(&id))
                || (name == "verify-server" && id == "log")
        };
        let hidden: Vec<clap::Arg> =
            settings.iter().filter(|arg| !is_used(arg)).map(|arg| arg.clone().hide(true)).collect();
        sub.args(hidden)
    })
}

/// What to do with receipts.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Receipts {
    /// What was accepted, what was refused and why, for each run
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Check receipts without asking anybody: signatures, run, node, and that none up to the last
    /// is missing or comes twice. Exits with 1 if something is wrong
    Verify {
        /// A file of receipts, perhaps somebody else's [default: all of this node's]
        file: Option<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Role;

    #[test]
    fn the_command_line_is_sound_and_flags_stand_anywhere() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["echo-node", "--threads", "2", "config", "--json", "--role", "relay"])
            .unwrap();
        assert_eq!(cli.command, NodeCommand::Config { json: true });
        assert_eq!((cli.flags.threads, cli.flags.roles), (Some(2), Some(vec![Role::Relay])));
    }

    #[test]
    fn a_verify_server_needs_a_socket_and_little_else() {
        let parse = |words: &[&str]| {
            let cli = Cli::try_parse_from(["echo-node", "verify-server"].iter().chain(words)).ok()?;
            let NodeCommand::VerifyServer(options) = cli.command else { return None };
            Some(options)
        };
        assert_eq!(parse(&[]), None);
        let plain = parse(&["--socket", "v.sock"]).unwrap();
        assert_eq!(
            (plain.allow_uid, plain.workers, plain.store, plain.store_bytes),
            (vec![], None, None, 1 << 30)
        );
        let words = "--socket v.sock --allow-uid 7 --allow-uid 8 --workers 3 --store s --store-bytes 5MiB";
        let full = parse(&words.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!((full.allow_uid, full.workers.map(usize::from)), (vec![7, 8], Some(3)));
        assert_eq!((full.store, full.store_bytes), (Some("s".into()), 5 << 20));
        assert_eq!(parse(&["--socket", "v.sock", "--workers", "0"]), None);
        let mut cli = Cli::command();
        let help = cli.find_subcommand_mut("verify-server").unwrap().render_long_help().to_string();
        for word in ["--allow-uid 1000", "TLE(cpu)", "what is missing", "Ctrl-C"] {
            assert!(help.contains(word), "{word}");
        }
    }

    #[test]
    fn help_teaches() {
        let help = Cli::command().render_long_help().to_string();
        for word in
            ["echo-node run --peers", "ECHO_NODE_THREADS", "max_orders", "preflight", "install-service"]
        {
            assert!(help.contains(word), "{word}");
        }
    }

    #[test]
    fn a_command_lists_the_settings_that_it_uses_and_takes_all() {
        let mut cli = command();
        cli.build();
        let help = |cli: &mut clap::Command, name: &str| {
            cli.find_subcommand_mut(name).unwrap().render_long_help().to_string()
        };
        for (name, listed, hidden) in [
            ("verify-server", vec!["--socket", "--data-dir", "--log"], vec!["--threads", "--peers"]),
            ("identity", vec!["--json", "--data-dir"], vec!["--threads", "--log", "--listen"]),
            ("hardware", vec!["--threads", "--device"], vec!["--peers", "--max-upload"]),
            ("run", vec!["--threads", "--peers", "--hours", "--max-disk"], vec![]),
            ("preflight", vec!["--offline", "--peers"], vec![]),
        ] {
            let text = help(&mut cli, name);
            assert!(listed.iter().all(|flag| text.contains(flag)), "{name}: {text}");
            assert!(!hidden.iter().any(|flag| text.contains(flag)), "{name}: {text}");
        }
        let words = ["echo-node", "receipts", "list", "--threads", "2"];
        let matches = command().try_get_matches_from(words).unwrap();
        let cli = <Cli as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
        assert_eq!(cli.flags.threads, Some(2), "a flag stands anywhere");
    }

    #[test]
    fn help_breaks_no_word() {
        let help = command().term_width(80).render_long_help().to_string();
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
        let mut run = command();
        run.build();
        let run = run.find_subcommand_mut("run").unwrap();
        let text = run.clone().term_width(80).render_help().to_string();
        assert!(text.contains("cuda:NUMBER"), "{text}");
    }

    #[test]
    fn completions_name_the_commands() {
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut command(), "echo-node", &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("install-service") && script.contains("--max-disk"));
    }
}
