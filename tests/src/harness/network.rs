//! A network of real processes on this machine: a bootstrap node, a learner and volunteers, all on loopback.
//!
//! What is started here is exactly what an operator and volunteers would start, with the same
//! commands and files; the lab knows nothing that they do not.

mod config;
mod layout;
mod ready;

pub(crate) use config::section;
pub use config::{LearnerConfig, NetworkConfig, TestNodeConfig};
pub use layout::NetworkLayout;

use crate::harness::binaries::Binaries;
use crate::harness::processes::{Process, ProcessOutput};
use anyhow::{Context as _, bail, ensure};
use echo_learner::storage::run_dir::RunDir;
use echo_protocol::program::keyfile;
use echo_protocol::run::peer_list::ListedRun;
use echo_protocol::wire::identity::PublicKey;
use ready::lines_of;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// A bootstrap node listens within this time.
const BOOTSTRAP_LIMIT: Duration = Duration::from_secs(30);
/// A list is signed within this time.
const SIGN_LIMIT: Duration = Duration::from_secs(30);
/// Lists of local networks expire after this.
const LIST_LIFETIME: &str = "1day";
/// Where everybody listens: the system chooses the ports.
const LISTEN: [&str; 2] = ["/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0"];

/// A running network. Dropped, every process of it is killed.
#[derive(Debug)]
pub struct TestNetwork {
    config: NetworkConfig,
    layout: NetworkLayout,
    learner_key: PublicKey,
    // Fields are dropped in this order: volunteers first, so that none of them logs the end of the others.
    nodes: Vec<Option<Process>>,
    learner: Option<Process>,
    bootstrap: Option<Process>,
    /// Where it listens, so that it comes back where the list says.
    bootstrap_addresses: Vec<String>,
    /// How processes are started that are not started plainly, by their names.
    starts: BTreeMap<String, ProcessStart>,
}

/// How a process is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessStart {
    /// Another program than the network's.
    pub(crate) program: Option<PathBuf>,
    /// What a shell does before it becomes the process: limits, redirections, variables.
    pub(crate) shell: Option<String>,
}

/// The draft of the network's list, as `echo-bootstrap sign-list` reads it.
#[derive(Serialize)]
struct Draft<'a> {
    network: &'a str,
    version: u64,
    expires_in: &'a str,
    peers: Vec<String>,
    runs: Vec<ListedRun>,
}

impl TestNetwork {
    /// Starts bootstrap node, learner and volunteers, in this order. Returns when all are started;
    /// the learner and the volunteers then still have to find each other.
    ///
    /// # Errors
    /// What could not be started, with the end of its log.
    pub async fn start(config: NetworkConfig) -> anyhow::Result<Self> {
        let layout = NetworkLayout::create(&config.dir)
            .with_context(|| format!("cannot use {}", config.dir.display()))?;
        let learner_key = keyfile::load_or_create(&layout.learner_identity())?.public();
        let command = Command::new(&config.binaries.bootstrap);
        let (bootstrap, peers) = start_bootstrap(command, &LISTEN, &layout).await?;
        let run = ListedRun { name: config.run.clone(), learner: learner_key.to_string() };
        let bootstrap_addresses = peers.iter().map(|peer| listened(peer)).collect();
        sign_list(&config.binaries, &layout, &config.network, peers, run).await?;
        let nodes = config.nodes.iter().map(|_| None).collect();
        let bootstrap = Some(bootstrap);
        let mut network = Self {
            config,
            layout,
            learner_key,
            nodes,
            learner: None,
            bootstrap,
            bootstrap_addresses,
            starts: BTreeMap::new(),
        };
        network.start_learner()?;
        for index in 0..network.nodes.len() {
            network.start_node(index)?;
        }
        Ok(network)
    }

    /// Where the files of the network are.
    #[must_use]
    pub fn layout(&self) -> &NetworkLayout {
        &self.layout
    }

    /// The learner's key, which is also the run's.
    #[must_use]
    pub fn learner_key(&self) -> PublicKey {
        self.learner_key
    }

    /// The number of volunteers, running or not.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The name of a volunteer.
    #[must_use]
    pub fn node_name(&self, index: usize) -> &str {
        &self.config.nodes[index].name
    }

    /// The names of all volunteers.
    #[must_use]
    pub fn node_names(&self) -> Vec<String> {
        self.config.nodes.iter().map(|node| node.name.clone()).collect()
    }

    /// Whether a volunteer was started and has not been killed or stopped by us.
    #[must_use]
    pub fn node_is_up(&self, index: usize) -> bool {
        self.nodes[index].is_some()
    }

    /// What a volunteer last wrote of itself ([`NetworkLayout::node_status`]).
    #[must_use]
    pub fn node_status(&self, index: usize) -> Option<serde_json::Value> {
        self.layout.node_status(self.node_name(index))
    }

    /// Adds a volunteer to those of the configuration, starts it, and returns its index.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn add_node(&mut self, node: TestNodeConfig) -> anyhow::Result<usize> {
        let index = self.announce_node(node);
        self.start_node(index).map(|()| index)
    }

    /// Adds a volunteer to those of the configuration, which is started later, and returns its index.
    pub fn announce_node(&mut self, node: TestNodeConfig) -> usize {
        self.config.nodes.push(node);
        self.nodes.push(None);
        self.nodes.len() - 1
    }

    /// Starts a volunteer, for the first time or again, with the data directory it had.
    ///
    /// # Errors
    /// When it is up already or cannot be started.
    pub fn start_node(&mut self, index: usize) -> anyhow::Result<()> {
        let TestNodeConfig { name, threads, device, arguments, environment } = &self.config.nodes[index];
        ensure!(self.nodes[index].is_none(), "{name} is up already");
        let mut command = self.program(name, &self.config.binaries.node);
        command.arg("run").arg("--data-dir").arg(self.layout.node_dir(name));
        command.arg("--peers").arg(self.layout.list()).args(["--threads", &threads.to_string()]);
        command.args(["--on-battery", "work"]);
        command.args(["--device", &device.to_string()]);
        for address in LISTEN {
            command.args(["--listen", address]);
        }
        command.args(arguments).envs(environment);
        self.nodes[index] = Some(Process::start(name, command, ProcessOutput::Log(self.layout.log(name)))?);
        Ok(())
    }

    /// Kills a volunteer as a power cut would (SIGKILL).
    ///
    /// # Errors
    /// When it is not up.
    pub async fn kill_node(&mut self, index: usize) -> anyhow::Result<()> {
        let node = self.nodes[index].take();
        Ok(node.with_context(|| format!("{} is not up", self.node_name(index)))?.kill().await?)
    }

    /// Kills the learner as a power cut would (SIGKILL).
    ///
    /// # Errors
    /// When it is not up.
    pub async fn kill_learner(&mut self) -> anyhow::Result<()> {
        Ok(self.learner.take().context("the learner is not up")?.kill().await?)
    }

    /// Starts a killed learner again on what it left: `echo-learner resume`.
    ///
    /// # Errors
    /// When it is up already or cannot be started.
    pub fn resume_learner(&mut self) -> anyhow::Result<()> {
        ensure!(self.learner.is_none(), "the learner is up already");
        let mut command = self.program("learner", &self.config.binaries.learner);
        command.arg("resume").arg(self.layout.run_dir());
        self.spawn_learner(command)
    }

    /// Whether everything that should run runs. A learner that we killed should not.
    ///
    /// # Errors
    /// [`ProcessError::Ended`](crate::harness::processes::ProcessError::Ended) for whatever ended
    /// without us. A learner that ended well is no error: its run is over.
    pub fn check(&mut self) -> anyhow::Result<()> {
        if let Some(bootstrap) = &mut self.bootstrap {
            bootstrap.must_run()?;
        }
        for node in self.nodes.iter_mut().flatten() {
            // A run that is over ends its volunteers too, and before its learner.
            if node.ended()?.is_none_or(|status| !status.success()) {
                node.must_run()?;
            }
        }
        if self.learner.is_some() { self.learner_ended().map(drop) } else { Ok(()) }
    }

    /// The learner's process, while it is up.
    #[must_use]
    pub fn learner_pid(&self) -> Option<u32> {
        self.learner.as_ref()?.pid()
    }

    /// The processes that are up, by their names.
    pub(crate) fn pids(&self) -> Vec<(String, u32)> {
        let all = self.bootstrap.iter().chain(&self.learner).chain(self.nodes.iter().flatten());
        all.filter_map(|process| Some((process.name().to_owned(), process.pid()?))).collect()
    }

    /// How the learner ended, if it has: `Some` only if it ended well.
    ///
    /// # Errors
    /// When it is not up, or ended with an error; then with the end of its log.
    pub fn learner_ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        let learner = self.learner.as_mut().context("the learner is not up")?;
        match learner.ended()? {
            Some(status) if status.success() => Ok(Some(status)),
            _ => Ok(learner.must_run().map(|()| None)?),
        }
    }

    /// Asks everybody to end, volunteers first, and kills who has not within `grace`.
    ///
    /// # Errors
    /// When the system does not do it.
    pub async fn stop(mut self, grace: Duration) -> anyhow::Result<()> {
        let nodes = self.nodes.iter_mut().flatten().map(|node| node.stop(grace));
        futures::future::try_join_all(nodes).await?;
        if let Some(learner) = &mut self.learner {
            learner.stop(grace).await?;
        }
        if let Some(bootstrap) = &mut self.bootstrap {
            bootstrap.stop(grace).await?;
        }
        Ok(())
    }

    /// Kills a process by its name as a power cut would (SIGKILL).
    ///
    /// # Errors
    /// When it is not up.
    pub async fn kill(&mut self, who: &str) -> anyhow::Result<()> {
        Ok(self.take(who)?.kill().await?)
    }

    /// Asks a process to end (SIGTERM), and says how it did.
    ///
    /// # Errors
    /// When it is not up, or has not ended within `limit`.
    pub async fn stop_process(&mut self, who: &str, limit: Duration) -> anyhow::Result<ExitStatus> {
        let mut process = self.take(who)?;
        process.terminate();
        Ok(process.wait(limit).await?)
    }

    /// Waits until a process has ended by itself.
    /// Fails when it is not up, or has not ended within `limit`.
    pub(crate) async fn ended(&mut self, who: &str, limit: Duration) -> anyhow::Result<ExitStatus> {
        Ok(self.take(who)?.wait(limit).await?)
    }

    /// How a process will be started from now on.
    pub(crate) fn start_of(&mut self, who: &str) -> &mut ProcessStart {
        self.starts.entry(who.to_owned()).or_default()
    }

    /// A call of a process's program, without arguments yet.
    fn program(&self, who: &str, path: &Path) -> Command {
        let start = self.starts.get(who).cloned().unwrap_or_default();
        let path = start.program.unwrap_or_else(|| path.to_owned());
        let Some(shell) = start.shell else { return Command::new(path) };
        let mut command = Command::new("sh");
        // The shell becomes the process, so that signals reach it.
        command.arg("-c").arg(format!("{shell}\nexec \"$@\"")).arg("sh").arg(path);
        command
    }

    /// Starts a process that was killed or stopped, on what it left. A learner without a run founds one.
    ///
    /// # Errors
    /// When it is up, or cannot be started.
    pub async fn start_again(&mut self, who: &str) -> anyhow::Result<()> {
        match who {
            "learner" if !RunDir::new(&self.layout.run_dir()).charter().exists() => self.start_learner(),
            "learner" => self.resume_learner(),
            "bootstrap" => {
                ensure!(self.bootstrap.is_none(), "the bootstrap node is up already");
                let command = self.program(who, &self.config.binaries.bootstrap);
                let listen = &self.bootstrap_addresses;
                self.bootstrap = Some(start_bootstrap(command, listen, &self.layout).await?.0);
                Ok(())
            }
            _ => self.start_node(self.index(who)?),
        }
    }

    /// Has a process stand still (SIGSTOP), or go on (SIGCONT).
    ///
    /// # Errors
    /// When it is not up.
    pub fn freeze(&mut self, who: &str, frozen: bool) -> anyhow::Result<()> {
        let process = self.slot(who)?.as_ref().with_context(|| format!("{who} is not up"))?;
        ensure!(process.freeze(frozen), "{who} could not be signalled");
        Ok(())
    }

    fn index(&self, who: &str) -> anyhow::Result<usize> {
        let index = self.config.nodes.iter().position(|node| node.name == who);
        index.with_context(|| format!("{who} is nobody of this network"))
    }

    /// Where the process of this name is kept while it is up.
    /// Fails when nobody has this name.
    pub(crate) fn slot(&mut self, who: &str) -> anyhow::Result<&mut Option<Process>> {
        Ok(match who {
            "learner" => &mut self.learner,
            "bootstrap" => &mut self.bootstrap,
            _ => {
                let index = self.index(who)?;
                &mut self.nodes[index]
            }
        })
    }

    fn take(&mut self, who: &str) -> anyhow::Result<Process> {
        self.slot(who)?.take().with_context(|| format!("{who} is not up"))
    }

    fn start_learner(&mut self) -> anyhow::Result<()> {
        let write = |path: &Path| -> anyhow::Result<()> {
            let text = self.config.learner.run_file(&LISTEN, &self.layout)?;
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        let founded = RunDir::new(&self.layout.run_dir());
        if founded.charter().exists() {
            write(&founded.config())?;
            return self.resume_learner();
        }
        let path = self.layout.run_config();
        write(&path)?;
        let mut command = self.program("learner", &self.config.binaries.learner);
        command.arg("run").arg("--config").arg(path);
        self.spawn_learner(command)
    }

    fn spawn_learner(&mut self, mut command: Command) -> anyhow::Result<()> {
        command.envs(&self.config.learner.environment);
        self.learner =
            Some(Process::start("learner", command, ProcessOutput::Log(self.layout.log("learner")))?);
        Ok(())
    }
}

/// Starts a bootstrap node with a call of its program, and waits for its addresses.
pub(crate) async fn start_bootstrap(
    mut command: Command,
    listen: &[impl AsRef<str>],
    layout: &NetworkLayout,
) -> anyhow::Result<(Process, Vec<String>)> {
    let addresses = layout.addresses();
    // What an earlier network in this directory wrote is of no use.
    remove_if_there(&addresses)?;
    command.arg("run").arg("--data-dir").arg(layout.bootstrap_dir()).arg("--write-address").arg(&addresses);
    for address in listen {
        command.args(["--listen", address.as_ref()]);
    }
    let mut bootstrap = Process::start("bootstrap", command, ProcessOutput::Log(layout.log("bootstrap")))?;
    let peers = lines_of(&addresses, &mut bootstrap, BOOTSTRAP_LIMIT).await?;
    Ok((bootstrap, peers))
}

/// Signs the network's list of these peers and one run.
pub(crate) async fn sign_list(
    binaries: &Binaries,
    layout: &NetworkLayout,
    network: &str,
    peers: Vec<String>,
    run: ListedRun,
) -> anyhow::Result<()> {
    let draft = Draft { network, version: 1, expires_in: LIST_LIFETIME, peers, runs: vec![run] };
    let (input, list) = (layout.draft(), layout.list());
    fs::write(&input, toml::to_string(&draft)?)
        .with_context(|| format!("cannot write {}", input.display()))?;
    remove_if_there(&list)?;
    let mut command = Command::new(&binaries.bootstrap);
    command.arg("sign-list").arg("--input").arg(input).arg("--key").arg(layout.keeper_key());
    command.arg("--output").arg(list);
    let mut signer = Process::start("sign-list", command, ProcessOutput::Log(layout.log("sign-list")))?;
    let status = signer.wait(SIGN_LIMIT).await?;
    if !status.success() {
        bail!("the peer list was not signed ({status}):\n{}", signer.log_tail());
    }
    Ok(())
}

/// The address without the peer's name: what to listen on to be found there.
fn listened(address: &str) -> String {
    address.split("/p2p/").next().unwrap_or_default().to_owned()
}

fn remove_if_there(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
