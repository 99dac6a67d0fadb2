//! Plain HTTP from the source to everyone: the star that needs no software of ours. The server is
//! Python's, the clients are curl.

use crate::broadcast::account::SystemAccount;
use crate::broadcast::policies::Policies;
use crate::broadcast::race::{Race, System};
use crate::broadcast::site::Site;
use crate::broadcast::site::links::SOURCE;
use crate::harness::processes::{Process, ProcessOutput, runs};
use anyhow::{Context as _, bail, ensure};
use echo_protocol::program::clock;
use echo_protocol::wire::time::UnixMillis;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The port of the web server, on the source.
const PORT: u16 = 8000;
/// The server answers within this time.
const START_LIMIT: Duration = Duration::from_secs(20);
/// The pause between two questions whether it does.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A web server on the source and a client on each node.
pub(crate) struct HttpStar {
    server: Process,
    clients: BTreeMap<usize, Process>,
    nodes: std::ops::RangeInclusive<usize>,
    published: Option<UnixMillis>,
    file: PathBuf,
    url: String,
    dir: PathBuf,
}

impl HttpStar {
    /// Starts the web server, and waits until it answers; clients start at publication.
    /// Fails when Python or curl is not there, or the server does not answer.
    pub(crate) async fn start(policies: &Policies, race: &Race<'_>, site: &Site) -> anyhow::Result<Self> {
        ensure!(runs("python3"), "peer:http needs Python: apt-get install python3");
        ensure!(runs("curl"), "peer:http needs curl: apt-get install curl");
        let address = site.address(SOURCE).to_string();
        let mut command = site.command(SOURCE, "python3");
        command.args(["-m", "http.server", &PORT.to_string(), "--bind", &address, "--directory"]);
        command.arg(policies.newest());
        let mut server =
            Process::start("http-server", command, ProcessOutput::Log(race.dir().join("server.log")))?;
        let url = format!("http://{address}:{PORT}/model.safetensors");
        let begun = Instant::now();
        loop {
            let mut ask = site.command(SOURCE, "curl");
            ask.args(["--silent", "--head", "--output", "/dev/null", &url]);
            let mut ask = Process::start("curl", ask, ProcessOutput::Inherit)?;
            if ask.wait(START_LIMIT).await?.success() {
                break;
            }
            server.must_run()?;
            ensure!(begun.elapsed() < START_LIMIT, "python3 -m http.server does not answer at {url}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(Self {
            server,
            clients: BTreeMap::new(),
            nodes: race.links().nodes(),
            published: None,
            file: policies.file(),
            url,
            dir: race.dir().to_owned(),
        })
    }

    fn target(&self, host: usize) -> PathBuf {
        self.dir.join(format!("node-{host}.safetensors"))
    }
}

impl System for HttpStar {
    fn published(&mut self, site: &Site) -> anyhow::Result<Option<UnixMillis>> {
        if self.published.is_none() {
            self.published = Some(clock::now());
            for host in self.nodes.clone() {
                self.start_again(host, site)?;
            }
        }
        Ok(self.published)
    }

    fn complete(&mut self, host: usize) -> anyhow::Result<Option<UnixMillis>> {
        let target = self.target(host);
        let client = self.clients.get_mut(&host).context("a node that is up has a client")?;
        match client.ended()? {
            None => Ok(None),
            Some(status) if status.success() => modified(&target).map(Some),
            Some(status) => bail!("curl on node {host} failed ({status}):\n{}", client.log_tail()),
        }
    }

    fn pid(&self, host: usize) -> Option<u32> {
        if host == SOURCE { self.server.pid() } else { self.clients.get(&host)?.pid() }
    }

    async fn kill(&mut self, host: usize) -> anyhow::Result<()> {
        match self.clients.remove(&host) {
            Some(mut client) => Ok(client.kill().await?),
            None => Ok(()),
        }
    }

    /// Begins anew: Python's server knows no ranges.
    fn start_again(&mut self, host: usize, site: &Site) -> anyhow::Result<()> {
        let mut command = site.command(host, "curl");
        command
            .args(["--silent", "--show-error", "--fail", "--output"])
            .arg(self.target(host))
            .arg(&self.url);
        let log = ProcessOutput::Log(self.dir.join(format!("curl-{host}.log")));
        self.clients.insert(host, Process::start(&format!("curl-{host}"), command, log)?);
        Ok(())
    }

    fn check(&mut self) -> anyhow::Result<()> {
        Ok(self.server.must_run()?)
    }

    fn differing(&self, host: usize) -> anyhow::Result<u64> {
        Ok(u64::from(!same_files(&self.target(host), &self.file)?))
    }

    fn account(&mut self) -> anyhow::Result<SystemAccount> {
        Ok(SystemAccount { duplicate_share: Some(0.0), ..SystemAccount::default() })
    }
}

/// When a file was last written.
pub(crate) fn modified(path: &Path) -> anyhow::Result<UnixMillis> {
    let time = std::fs::metadata(path).and_then(|data| data.modified());
    let time = time.with_context(|| format!("cannot tell when {} was written", path.display()))?;
    let since = time.duration_since(std::time::UNIX_EPOCH).context("a file is older than 1970")?;
    Ok(UnixMillis(u64::try_from(since.as_millis())?))
}

/// Whether two files hold the same bytes.
pub(crate) fn same_files(one: &Path, other: &Path) -> anyhow::Result<bool> {
    use std::io::Read as _;
    const BLOCK: usize = 1 << 20;
    let open =
        |path: &Path| std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()));
    let (mut one, mut other) = (open(one)?, open(other)?);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        left.clear();
        right.clear();
        one.by_ref().take(BLOCK as u64).read_to_end(&mut left)?;
        other.by_ref().take(BLOCK as u64).read_to_end(&mut right)?;
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}
