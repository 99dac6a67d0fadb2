//! The words of the command line.

use anyhow::anyhow;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use echo_bootstrap::lists::{show, sign};
use echo_bootstrap::node::{self, BootNodeConfig, IDENTITY_FILE};
use echo_protocol::net::{Multiaddr, peer_id_of};
use echo_protocol::program::output::{self, note, print};
use echo_protocol::program::signals::Signals;
use echo_protocol::program::version::version;
use echo_protocol::program::{clock, keyfile};
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

const EXAMPLES: &str = "\
A network begins with these four steps:

  1. Start a boot node on a machine that others can reach, and keep it up:
       echo-bootstrap run --data-dir /var/lib/echo --write-address addresses.txt

  2. Write a draft, list.toml (the learner prints its key with `echo-learner identity`):
       network = \"echo\"
       version = 1
       expires_in = \"30d\"
       peers = [\"/ip4/203.0.113.5/udp/4160/quic-v1/p2p/12D3KooW...\"]   # a line of addresses.txt
       [[runs]]
       name = \"addition\"
       learner = \"<the learner's key, 64 hexadecimal digits>\"

  3. Sign it. The first time this makes the keeper's key; guard it:
       echo-bootstrap sign-list --input list.toml --key keeper.key --output echo.peers

  4. Give echo.peers to volunteers, who run:
       echo-node run --peers echo.peers

Before the list expires, raise its version and sign it again.";

const LISTEN_QUIC: &str = "/ip4/0.0.0.0/udp/4160/quic-v1";
const LISTEN_TCP: &str = "/ip4/0.0.0.0/tcp/4160";

static VERSION: LazyLock<String> =
    LazyLock::new(|| version(env!("CARGO_PKG_VERSION"), option_env!("ECHO_COMMIT"), None));

/// Boot node of an Echo network, and the tool that signs its peer lists.
#[derive(Debug, Parser)]
#[command(name = "echo-bootstrap", version = VERSION.as_str(), after_help = EXAMPLES, max_term_width = 120)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a boot node until Ctrl-C or SIGTERM.
    Run(Run),
    /// Sign a draft (TOML) as a peer list for volunteers.
    SignList(SignList),
    /// Show a list, who signed it and when it expires. Exits with 1 when nodes would refuse it.
    ShowList(ShowList),
    /// Print a boot node's public key and peer id, making its identity if there is none.
    Identity(Identity),
    /// Print a script that completes this program's commands and flags in a shell.
    Completions {
        /// The shell that will read it.
        shell: Shell,
    },
}

#[derive(Debug, Args)]
struct Run {
    /// Directory of the node's identity; made if need be.
    #[arg(long, value_name = "DIR", env = "ECHO_BOOTSTRAP_DATA_DIR")]
    data_dir: PathBuf,
    /// Address to listen on; repeat for several. Port 0 lets the system choose.
    #[arg(long, value_name = "ADDR", default_values = [LISTEN_QUIC, LISTEN_TCP])]
    listen: Vec<Multiaddr>,
    /// Address at which others reach this node, if it differs (port forwarding); repeat for several.
    #[arg(long, value_name = "ADDR")]
    external: Vec<Multiaddr>,
    /// Write the node's full addresses, one a line, to this file once it listens.
    #[arg(long, value_name = "FILE")]
    write_address: Option<PathBuf>,
    /// Seconds between two status lines.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    status_every: u64,
}

#[derive(Debug, Args)]
struct SignList {
    /// The draft: a TOML file with network, version, expiry, peers and runs.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// The keeper's key; made at the first use.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Where to write the list; the terminal if not given. A list there is replaced by a newer one only.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object instead.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ShowList {
    /// The signed list to read and check.
    file: PathBuf,
    /// Print one JSON object instead.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Identity {
    /// Directory of the node's identity.
    #[arg(long, value_name = "DIR", env = "ECHO_BOOTSTRAP_DATA_DIR")]
    data_dir: PathBuf,
    /// Print one JSON object instead.
    #[arg(long)]
    json: bool,
}

impl Cli {
    /// Runs the command. The exit code is 1 when a list was shown that nodes would refuse. Errors are
    /// ready to be printed.
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Run(command) => command.execute(),
            Command::SignList(command) => command.execute(),
            Command::ShowList(command) => command.execute(),
            Command::Identity(command) => command.execute(),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "echo-bootstrap", &mut script);
                print(&String::from_utf8_lossy(&script))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl Run {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let Self { data_dir, listen, external, write_address, status_every } = self;
        let status_every = Duration::from_secs(status_every);
        let config = BootNodeConfig { data_dir, listen, external, write_address, status_every };
        let signals = Signals::listen().map_err(|error| anyhow!("cannot listen for signals: {error}"))?;
        let runtime =
            tokio::runtime::Runtime::new().map_err(|error| anyhow!("cannot start the runtime: {error}"))?;
        runtime.block_on(node::run(config, signals.stop().cancelled_owned(), output::line))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl SignList {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let now = clock::wall();
        let signed = sign::sign_file(&self.input, &self.key, self.output.as_deref(), now)?;
        if self.json {
            print_json(&signed)?;
        } else {
            // The list itself may be piped into a file; everything about it goes elsewhere.
            note(&signed.summary(&self.key, now));
            if self.output.is_none() {
                print(&signed.text)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl ShowList {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let now = clock::wall();
        let shown = show::show_file(&self.file, now)?;
        if self.json {
            print_json(&shown)?;
        } else {
            print(&format!("{}\n", shown.summary(now)))?;
        }
        Ok(if shown.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl Identity {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let path = self.data_dir.join(IDENTITY_FILE);
        let created = !path.exists();
        let key = keyfile::load_or_create(&path)?;
        let (public, peer) = (key.public(), peer_id_of(key.secret()));
        if self.json {
            print_json(&json!({"key": public.to_string(), "peer": peer.to_string(), "created": created}))?;
        } else {
            if created {
                note(&format!("{}: a new identity was made", path.display()));
            }
            print(&format!("key   {public}\npeer  {peer}\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(print(&format!("{}\n", serde_json::to_string(value)?))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_consistent_and_their_help_teaches() {
        Cli::command().debug_assert();
        let help = Cli::command().render_help().to_string();
        for word in ["run", "sign-list", "show-list", "identity", "expires_in"] {
            assert!(help.contains(word), "{word} is missing in:\n{help}");
        }
    }

    #[test]
    fn run_listens_on_both_transports_by_default() {
        let cli = Cli::try_parse_from(["echo-bootstrap", "run", "--data-dir", "d"]).unwrap();
        let Command::Run(run) = cli.command else { panic!("not run") };
        assert_eq!(run.listen, [LISTEN_QUIC.parse().unwrap(), LISTEN_TCP.parse().unwrap()]);
        for wrong in [["--listen", "hello"], ["--status-every", "0"]] {
            let words = ["echo-bootstrap", "run", "--data-dir", "d"].into_iter().chain(wrong);
            assert!(Cli::try_parse_from(words).is_err(), "{wrong:?}");
        }
    }
}
