//! A BitTorrent swarm in the same links: libtorrent from PyPI, in a virtual environment below `target/`.

use crate::broadcast::account::SystemAccount;
use crate::broadcast::policies::Policies;
use crate::broadcast::race::{Race, System};
use crate::broadcast::site::Site;
use crate::broadcast::site::links::SOURCE;
use crate::broadcast::systems::http::same_files;
use crate::broadcast::systems::json_lines::JsonLines;
use crate::harness::cargo::workspace_root;
use crate::harness::processes::{Process, ProcessOutput, runs, succeeds};
use anyhow::{Context as _, ensure};
use echo_protocol::program::clock;
use echo_protocol::wire::time::UnixMillis;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The driver of one member.
const DRIVER: &str = include_str!("../../../peers/torrent.py");
/// The release that is compared with.
const PACKAGE: &str = "libtorrent==2.1.1";
/// The port of every member.
const PORT: u16 = 6881;
/// The package is installed within this time.
const INSTALL_LIMIT: Duration = Duration::from_secs(180);
/// Hashing the file into a torrent ends within this time.
const MAKE_LIMIT: Duration = Duration::from_secs(180);

/// A swarm: a seed on the source and a peer on each node.
pub(crate) struct Torrent {
    members: BTreeMap<usize, Process>,
    logs: BTreeMap<usize, JsonLines>,
    ready: usize,
    published: Option<UnixMillis>,
    complete: BTreeMap<usize, UnixMillis>,
    redundant: u64,
    setup: Setup,
}

/// What every member is started with.
struct Setup {
    python: PathBuf,
    driver: PathBuf,
    torrent: PathBuf,
    go: PathBuf,
    file: PathBuf,
    dir: PathBuf,
    bytes: u64,
    hosts: usize,
    utp: bool,
    super_seeding: bool,
}

impl Torrent {
    /// Installs libtorrent if need be, makes the torrent, and starts all members; they wait for
    /// the publication. Fails when libtorrent cannot be installed: what pip said is on the
    /// standard error by then.
    pub(crate) async fn start(
        words: &[String],
        policies: &Policies,
        race: &Race<'_>,
        site: &Site,
    ) -> anyhow::Result<Self> {
        let python = install().await?;
        let dir = race.dir().to_owned();
        let (driver, torrent) = (dir.join("torrent.py"), dir.join("policy.torrent"));
        fs::write(&driver, DRIVER).with_context(|| driver.display().to_string())?;
        let mut make = Command::new(&python);
        make.arg(&driver).arg("make").arg(policies.file()).arg(&torrent);
        let mut make = Process::start("make-torrent", make, ProcessOutput::Log(dir.join("make.log")))?;
        ensure!(make.wait(MAKE_LIMIT).await?.success(), "the torrent was not made:\n{}", make.log_tail());
        let has = |word: &str| words.iter().any(|other| other == word);
        let setup = Setup {
            python,
            driver,
            torrent,
            go: dir.join("go"),
            file: policies.file(),
            dir,
            bytes: policies.bytes,
            hosts: *race.links().nodes().end() + 1,
            utp: has("utp"),
            super_seeding: has("super"),
        };
        let mut swarm = Self {
            members: BTreeMap::new(),
            logs: BTreeMap::new(),
            ready: 0,
            published: None,
            complete: BTreeMap::new(),
            redundant: 0,
            setup,
        };
        for host in 0..swarm.setup.hosts {
            swarm.start_again(host, site)?;
        }
        Ok(swarm)
    }

    /// Takes in what the members have said.
    fn listen(&mut self) {
        for (host, log) in &mut self.logs {
            for event in log.look() {
                match event["event"].as_str() {
                    Some("ready") => self.ready += 1,
                    Some("complete") => {
                        let at = UnixMillis(event["at_ms"].as_u64().unwrap_or_default());
                        self.complete.entry(*host).or_insert(at);
                        self.redundant += event["redundant"].as_u64().unwrap_or_default();
                    }
                    _ => {}
                }
            }
        }
    }
}

impl Setup {
    /// Where a member keeps the file. The seed has it already.
    fn home(&self, host: usize) -> PathBuf {
        match self.file.parent() {
            Some(home) if host == SOURCE => home.to_owned(),
            _ => self.dir.join(format!("node-{host}")),
        }
    }
}

impl System for Torrent {
    fn published(&mut self, _site: &Site) -> anyhow::Result<Option<UnixMillis>> {
        self.listen();
        if self.published.is_none() && self.ready == self.setup.hosts {
            self.published = Some(clock::now());
            fs::write(&self.setup.go, "")?;
        }
        Ok(self.published)
    }

    fn complete(&mut self, host: usize) -> anyhow::Result<Option<UnixMillis>> {
        self.listen();
        Ok(self.complete.get(&host).copied())
    }

    fn pid(&self, host: usize) -> Option<u32> {
        self.members.get(&host)?.pid()
    }

    async fn kill(&mut self, host: usize) -> anyhow::Result<()> {
        match self.members.remove(&host) {
            Some(mut member) => Ok(member.kill().await?),
            None => Ok(()),
        }
    }

    fn start_again(&mut self, host: usize, site: &Site) -> anyhow::Result<()> {
        let setup = &self.setup;
        let home = setup.home(host);
        fs::create_dir_all(&home)?;
        let others =
            (0..setup.hosts).filter(|other| *other != host).map(|other| site.address(other).to_string());
        let config = json!({
            "address": site.address(host).to_string(),
            "port": PORT,
            "torrent": setup.torrent,
            "dir": home,
            "seed": host == SOURCE,
            "others": others.collect::<Vec<_>>(),
            "go": setup.go,
            "utp": setup.utp,
            "super": setup.super_seeding,
        });
        let mut command = site.command(host, &setup.python);
        command.arg(&setup.driver).arg("join").arg(config.to_string());
        let log = setup.dir.join(format!("torrent-{host}.log"));
        self.logs.entry(host).or_insert_with(|| JsonLines::new(log.clone()));
        self.members
            .insert(host, Process::start(&format!("torrent-{host}"), command, ProcessOutput::Log(log))?);
        Ok(())
    }

    fn check(&mut self) -> anyhow::Result<()> {
        Ok(self.members.values_mut().try_for_each(Process::must_run)?)
    }

    fn differing(&self, host: usize) -> anyhow::Result<u64> {
        let name = self.setup.file.file_name().context("the policy's weights are a file")?;
        Ok(u64::from(!same_files(&self.setup.home(host).join(name), &self.setup.file)?))
    }

    fn account(&mut self) -> anyhow::Result<SystemAccount> {
        self.listen();
        let needed = self.setup.bytes * self.complete.len().max(1) as u64;
        Ok(SystemAccount {
            duplicate_share: Some(self.redundant as f64 / needed as f64),
            ..SystemAccount::default()
        })
    }
}

/// The Python that has libtorrent.
async fn install() -> anyhow::Result<PathBuf> {
    let venv = workspace_root().join("target").join("lab-python");
    let python = venv.join("bin").join("python");
    if has_libtorrent(&python) {
        return Ok(python);
    }
    ensure!(
        runs("python3"),
        "peer:libtorrent needs Python with venv and pip: apt-get install python3 python3-venv"
    );
    tracing::warn!("installing {PACKAGE} from PyPI into {}", venv.display());
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(&venv);
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]);
    for command in [make, pip] {
        let status = Process::start("pip", command, ProcessOutput::Inherit)?.wait(INSTALL_LIMIT).await?;
        ensure!(
            status.success(),
            "{PACKAGE} could not be installed from PyPI ({status}); without it, leave peer:libtorrent out"
        );
    }
    Ok(python)
}

fn has_libtorrent(python: &Path) -> bool {
    succeeds(Command::new(python).args(["-c", "import libtorrent"]))
}
