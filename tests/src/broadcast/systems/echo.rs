//! Echo itself: a bootstrap node, `echo-learner publish` and nodes that relay, as an operator and
//! volunteers would start them.

use crate::broadcast::account::SystemAccount;
use crate::broadcast::options::{Broadcast, RaceMode};
use crate::broadcast::policies::Policies;
use crate::broadcast::race::{Race, System};
use crate::broadcast::site::Site;
use crate::broadcast::site::links::SOURCE;
use crate::broadcast::systems::http::modified;
use crate::broadcast::systems::json_lines::JsonLines;
use crate::harness::binaries::Binaries;
use crate::harness::network::{NetworkLayout, sign_list, start_bootstrap};
use crate::harness::processes::{Process, ProcessOutput};
use anyhow::{Context as _, ensure};
use echo_protocol::program::keyfile;
use echo_protocol::run::peer_list::ListedRun;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::Table;

/// The run's name, and the network's.
const NAME: &str = "broadcast";
/// The chunks of a policy are at most so large, and not fewer than [`LEAST_CHUNKS`] unless it is tiny.
const CHUNK_BYTES: u64 = 4 << 20;
/// Chunks of a policy that is small enough to be a test.
const LEAST_CHUNKS: u64 = 16;
/// The smallest chunks here.
const SMALLEST_CHUNK: u64 = 64 << 10;
/// Between the last node's arrival and the publication: nodes that have just started look for
/// peers, and on one machine for processors too.
const SETTLE: &str = "3s";
/// What the programs log.
const LOG: &str = "info";

/// Real processes of Echo.
pub(crate) struct EchoSwarm {
    // Nodes end before the learner, and that before the bootstrap node.
    nodes: BTreeMap<usize, Process>,
    learner: Process,
    bootstrap: Process,
    liars: Vec<Process>,
    log: JsonLines,
    events: Vec<Value>,
    version: PolicyVersion,
    layout: NetworkLayout,
    program: PathBuf,
}

impl EchoSwarm {
    /// Starts everybody; the learner publishes once all nodes are there.
    /// Fails with what could not be started, and the end of its log.
    pub(crate) async fn start(
        broadcast: &Broadcast,
        mode: &RaceMode,
        binaries: &Binaries,
        policies: &Policies,
        race: &Race<'_>,
        site: &Site,
    ) -> anyhow::Result<Self> {
        let layout = NetworkLayout::create(race.dir())?;
        let key = keyfile::load_or_create(&layout.learner_identity())?.public();
        let host = race.links().bootstrap();
        let command = site.command(host, &binaries.bootstrap);
        let (bootstrap, peers) = start_bootstrap(command, &site.listen(host), &layout).await?;
        let run = ListedRun { name: NAME.into(), learner: key.to_string() };
        sign_list(binaries, &layout, NAME, peers, run).await?;

        let text = toml::to_string(&run_file(broadcast, mode, policies, site, &layout)?)?;
        fs::write(layout.run_config(), text).context("cannot write the run file")?;
        let mut command = site.command(SOURCE, &binaries.learner);
        command.arg("publish").arg(layout.run_config()).args(["--json", "--hold"]);
        command.args(["--nodes", &(broadcast.nodes + broadcast.rotten).to_string()]);
        command.args(["--settle", SETTLE]);
        for policy in &policies.dirs {
            command.arg("--policy").arg(policy);
        }
        command.env("ECHO_LEARNER_LOG", LOG);
        let learner = Process::start("learner", command, ProcessOutput::Log(layout.log("learner")))?;
        let mut swarm = Self {
            nodes: BTreeMap::new(),
            learner,
            bootstrap,
            liars: Vec::new(),
            log: JsonLines::new(layout.log("learner")),
            events: Vec::new(),
            version: PolicyVersion(policies.dirs.len() as u64 - 1),
            program: binaries.node.clone(),
            layout,
        };
        for host in race.links().nodes() {
            swarm.start_again(host, site)?;
        }
        for host in race.links().liars() {
            swarm.start_liar(host, binaries, site)?;
        }
        Ok(swarm)
    }

    fn start_liar(&mut self, host: usize, binaries: &Binaries, site: &Site) -> anyhow::Result<()> {
        let mut command = site.command(host, binaries.lab());
        command
            .arg("rotten-node")
            .arg("--list")
            .arg(self.layout.list())
            .args(["--number", &host.to_string()]);
        for address in site.listen(host) {
            command.args(["--listen", &address]);
        }
        let name = format!("rotten-{host}");
        self.liars.push(Process::start(&name, command, ProcessOutput::Log(self.layout.log(&name)))?);
        Ok(())
    }

    fn node_dir(&self, host: usize) -> PathBuf {
        self.layout.node_dir(&name(host))
    }

    /// The manifest of what a node has installed, as it wrote it down.
    fn installed(&self, host: usize) -> Option<Manifest> {
        manifest(&self.node_dir(host).join("installed"))
    }

    /// What a node last wrote of itself.
    fn status(&self, host: usize) -> Value {
        self.layout.node_status(&name(host)).unwrap_or_default()
    }
}

impl System for EchoSwarm {
    fn published(&mut self, _site: &Site) -> anyhow::Result<Option<UnixMillis>> {
        self.events.extend(self.log.look());
        let timed = |event: &&Value| event["event"] == "published" && event["version"] == self.version.0;
        Ok(self.events.iter().find(timed).and_then(|event| event["at_ms"].as_u64()).map(UnixMillis))
    }

    fn complete(&mut self, host: usize) -> anyhow::Result<Option<UnixMillis>> {
        match self.installed(host) {
            Some(manifest) if manifest.version == self.version => {
                modified(&self.node_dir(host).join("installed")).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn pid(&self, host: usize) -> Option<u32> {
        if host == SOURCE { self.learner.pid() } else { self.nodes.get(&host)?.pid() }
    }

    async fn kill(&mut self, host: usize) -> anyhow::Result<()> {
        match self.nodes.remove(&host) {
            Some(mut node) => Ok(node.kill().await?),
            None => Ok(()),
        }
    }

    fn start_again(&mut self, host: usize, site: &Site) -> anyhow::Result<()> {
        let name = name(host);
        let mut command = site.command(host, &self.program);
        node_arguments(&mut command, &self.node_dir(host), &self.layout.list(), &site.listen(host));
        let link = site.link(host);
        // What a link limits is left to it, but for the uplink, which the learner has to be told of.
        let down = link.down.filter(|_| !site.limits());
        for (flag, rate) in [("--max-upload", link.up), ("--max-download", down)] {
            if let Some(rate) = rate {
                command.args([flag, &rate.to_string()]);
            }
        }
        let log = ProcessOutput::Log(self.layout.log(&name));
        self.nodes.insert(host, Process::start(&name, command, log)?);
        Ok(())
    }

    fn check(&mut self) -> anyhow::Result<()> {
        self.bootstrap.must_run()?;
        self.learner.must_run()?;
        Ok(self.nodes.values_mut().chain(&mut self.liars).try_for_each(Process::must_run)?)
    }

    /// Reads both stores as plain files: none of the code that has verified them is asked.
    fn differing(&self, host: usize) -> anyhow::Result<u64> {
        let manifest = self.installed(host).context("a complete node has a manifest")?;
        let (node, source) = (self.node_dir(host).join("chunks"), self.layout.run_dir().join("chunks"));
        let mut differing = 0;
        for id in &manifest.chunks {
            let id = id.to_string();
            let path = Path::new(&id[..2]).join(&id);
            let published = fs::read(source.join(&path))
                .with_context(|| format!("chunk {id} of node {host} is none that the source published"))?;
            differing += u64::from(fs::read(node.join(&path)).ok() != Some(published));
        }
        Ok(differing)
    }

    fn account(&mut self) -> anyhow::Result<SystemAccount> {
        self.events.extend(self.log.look());
        let statuses: Vec<Value> = self.nodes.keys().map(|host| self.status(*host)).collect();
        let sum = |field: &str| -> Option<u64> {
            statuses.iter().filter_map(|status| status["traffic"][field].as_u64()).reduce(|a, b| a + b)
        };
        let duplicate_share = sum("duplicates").zip(sum("groups"));
        let duplicate_share = duplicate_share.map(|(twice, once)| twice as f64 / once.max(1) as f64);
        let source_bytes = self.events.iter().rev().find_map(|event| event["sent_bytes"].as_u64());
        let named = statuses.iter().filter_map(|status| status["traffic"]["cut_off"].as_array()).flatten();
        let mut cut_off: Vec<String> = named.filter_map(Value::as_str).map(str::to_owned).collect();
        cut_off.sort();
        cut_off.dedup();
        Ok(SystemAccount { duplicate_share, repairs: sum("repairs"), source_bytes, cut_off })
    }
}

/// A node's name, also that of its directory and its log.
fn name(host: usize) -> String {
    format!("node-{host}")
}

/// `echo-node run` as a relay.
fn node_arguments(command: &mut Command, dir: &Path, list: &Path, listen: &[String]) {
    command.arg("run").arg("--data-dir").arg(dir).arg("--peers").arg(list);
    command.args(["--role", "relay", "--threads", "1", "--log", LOG]);
    for address in listen {
        command.args(["--listen", address]);
    }
}

/// A signed manifest on disk; `None` if there is none that can be read.
fn manifest(path: &Path) -> Option<Manifest> {
    let bytes = fs::read(path).ok()?;
    Signed::<Manifest>::from_bytes(&bytes).ok()?.open().ok()
}

fn run_file(
    broadcast: &Broadcast,
    mode: &RaceMode,
    policies: &Policies,
    site: &Site,
    layout: &NetworkLayout,
) -> anyhow::Result<Table> {
    let chunk = CHUNK_BYTES.min(policies.bytes / LEAST_CHUNKS).max(SMALLEST_CHUNK).next_power_of_two();
    let text = |path: PathBuf| path.to_str().map(str::to_owned).context("a path is not Unicode");
    let table = toml::toml! {
        [[task]]
        name = "chain_sum"
        params = { digits = 2, terms = 2 }
    };
    let mut table = table;
    let mut put = |section: &str, key: &str, value: toml::Value| {
        let section = table.entry(section).or_insert_with(|| Table::new().into());
        if let Some(section) = section.as_table_mut() {
            section.insert(key.into(), value);
        }
    };
    ensure!(mode.is_echo(), "{mode} is not Echo");
    put("run", "name", NAME.into());
    put("run", "dir", text(layout.run_dir())?.into());
    put("run", "updates", 1.into());
    put("model", "path", text(policies.newest().to_owned())?.into());
    put("snapshot", "dtype", "bf16".into());
    put("snapshot", "chunk_bytes", i64::try_from(chunk.min(CHUNK_BYTES))?.into());
    put("network", "dissemination", mode.to_string().into());
    put("network", "max_upload", broadcast.uplink.to_string().into());
    put("network", "listen", site.listen(SOURCE).to_vec().into());
    put("network", "peers", text(layout.list())?.into());
    Ok(table)
}
