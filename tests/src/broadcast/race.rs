//! One race: from the start of the processes to the last node that is complete.

mod measurement;
mod node_states;

use super::account::SystemAccount;
use super::faults::{self, FaultSchedule, RaceFault};
use super::link_check::LinkCheck;
use super::options::{Broadcast, RaceMode};
use super::policies::Policies;
use super::report::RaceRow;
use super::samples::Samples;
use super::site::Site;
use super::site::links::{Links, SOURCE};
use crate::output::console::Console;
use anyhow::{Context as _, ensure};
use echo_protocol::program::clock;
use echo_protocol::wire::time::UnixMillis;
use measurement::Measured;
use node_states::Fates;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The pause between two looks at the processes: the precision of what only polling sees.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Everyone has found each other, and the snapshot is published, within this time.
const START_LIMIT: Duration = Duration::from_secs(90);
/// Each version that is published before the one that is timed may take this time.
const VERSION_LIMIT: Duration = Duration::from_secs(120);
/// A transfer may take this time, and so many times the bound, before it is given up.
const PATIENCE: (f64, f64) = (60.0, 8.0);
/// Programs have written down what they know within this time.
const SETTLE: Duration = Duration::from_millis(1200);
/// Progress is shown this often.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// Processes that bring a snapshot from the source (host 0) to the nodes (hosts 1 to N).
pub(super) trait System {
    /// When the snapshot that is timed was published, once it is.
    fn published(&mut self, site: &Site) -> anyhow::Result<Option<UnixMillis>>;
    /// When a node had the whole snapshot on its disk, once it has.
    fn complete(&mut self, host: usize) -> anyhow::Result<Option<UnixMillis>>;
    /// The process of a host, while there is one.
    fn pid(&self, host: usize) -> Option<u32>;
    /// Kills a node with SIGKILL.
    fn kill(&mut self, host: usize) -> impl Future<Output = anyhow::Result<()>>;
    /// Starts a killed node again on what it left on its disk.
    fn start_again(&mut self, host: usize, site: &Site) -> anyhow::Result<()>;
    /// An error if a process ended that should not have.
    fn check(&mut self) -> anyhow::Result<()>;
    /// Parts of the snapshot on a complete node's disk that are not what the source published.
    fn differing(&self, host: usize) -> anyhow::Result<u64>;
    /// What the system says of itself.
    fn account(&mut self) -> anyhow::Result<SystemAccount>;
}

/// A race that is about to be run.
pub(super) struct Race<'a> {
    broadcast: &'a Broadcast,
    policies: &'a Policies,
    links: Links,
    dir: PathBuf,
    console: &'a Console,
}

impl<'a> Race<'a> {
    /// A race that writes below `dir`.
    /// Fails when the directory cannot be made.
    pub(super) fn new(
        broadcast: &'a Broadcast,
        policies: &'a Policies,
        dir: &Path,
        console: &'a Console,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self { broadcast, policies, links: Links::of(broadcast), dir: dir.to_owned(), console })
    }

    /// Who has which link.
    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// Where its processes write.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Copies over the links with plain TCP, where they keep caps.
    /// Fails when a copy fails: the links do not work.
    pub(super) fn check_links(&self, site: &Site) -> anyhow::Result<Option<LinkCheck>> {
        let Site::Namespaces(fabric) = site else { return Ok(None) };
        if !site.limits() {
            return Ok(None);
        }
        let open: Vec<usize> = self.links.nodes().filter(|host| !site.link(*host).nat).collect();
        let needed = self.broadcast.uplink.0.div_ceil(self.broadcast.node_down.0);
        let needed = usize::try_from(needed).unwrap_or(usize::MAX).min(open.len());
        if needed == 0 {
            return Ok(None);
        }
        let copy = || {
            let source = fabric.copy(SOURCE, &open[..needed])?;
            let node = open.get(1).map(|to| fabric.copy(open[0], &[*to])).transpose()?;
            anyhow::Ok(LinkCheck { source, node })
        };
        tokio::task::block_in_place(copy).map(Some)
    }

    /// Runs the race. The system's processes have been started; they end with it, before the site goes.
    /// Fails when the snapshot is not published, or a process ends that should not. Nodes that are
    /// not complete in time are no error.
    pub(super) async fn run<S: System>(
        &self,
        mode: &RaceMode,
        check: Option<LinkCheck>,
        mut site: Site,
        mut system: S,
    ) -> anyhow::Result<RaceRow> {
        let mut samples = if self.broadcast.own_caps { Samples::dense() } else { Samples::default() };
        let published = self.until_published(&mut system, &site, &mut samples).await?;
        let mut fates = Fates::new(self.links.nodes());
        let best = self.bound(&fates, None).seconds();
        self.console.say(format!("{mode}: published; the bound is {best:.2} s"));
        let broadcast = self.broadcast;
        let mut schedule = faults::schedule(&broadcast.faults, broadcast.nodes, best, broadcast.seed);
        let (limit, mut said) = (self.limit(mode, best), Instant::now());
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = clock::now();
            let elapsed = seconds(published, now);
            while let Some(fault) = due(&mut schedule, elapsed) {
                let fault = aim(fault, &samples, published);
                self.console.say(format!("{mode}: {elapsed:.2} s: {fault:?}"));
                self.carry_out(fault, elapsed, &mut fates, &mut system, &mut site).await?;
            }
            for host in fates.awaited() {
                if let Some(at) = system.complete(host)? {
                    fates.complete(host, seconds(published, at));
                }
            }
            samples.look(&site, &self.pids(&system))?;
            system.check()?;
            let (complete, living) = fates.count();
            if said.elapsed() >= SAY_EVERY {
                said = Instant::now();
                self.console.say(format!("{mode}: {elapsed:.0} s, {complete} of {living} nodes complete"));
            }
            if elapsed > limit || schedule.is_empty() && complete == living {
                break;
            }
        }
        samples.take(&site, &self.pids(&system))?;
        let mut differing = 0;
        for (host, _) in fates.complete_nodes() {
            differing += tokio::task::block_in_place(|| system.differing(host))?;
        }
        tokio::time::sleep(SETTLE).await;
        let account = system.account()?;
        Ok(self.row(Measured { mode, check, site: &site, published, fates, samples, differing, account }))
    }

    async fn until_published<S: System>(
        &self,
        system: &mut S,
        site: &Site,
        samples: &mut Samples,
    ) -> anyhow::Result<UnixMillis> {
        let begun = Instant::now();
        let limit = START_LIMIT + VERSION_LIMIT * u32::try_from(self.policies.dirs.len()).unwrap_or(u32::MAX);
        loop {
            system.check()?;
            samples.look(site, &self.pids(system))?;
            if let Some(at) = system.published(site)? {
                return Ok(at);
            }
            ensure!(
                begun.elapsed() < limit,
                "the snapshot was not published within {limit:?}; the logs are in {} (give --dir to keep them)",
                self.dir.display()
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn carry_out<S: System>(
        &self,
        fault: RaceFault,
        elapsed: f64,
        fates: &mut Fates,
        system: &mut S,
        site: &mut Site,
    ) -> anyhow::Result<()> {
        match fault {
            RaceFault::Kill(host) => {
                system.kill(host).await?;
                fates.killed(host, elapsed);
            }
            RaceFault::Return(host) => {
                system.start_again(host, site)?;
                fates.back(host, elapsed);
            }
            RaceFault::Slow { forwarder, factor } => {
                site.slow_down(forwarder, factor)?;
                fates.fault_s = Some(elapsed);
            }
            RaceFault::Gone { forwarder } => {
                system.kill(forwarder).await?;
                fates.killed(forwarder, elapsed);
                fates.fault_s = Some(elapsed);
            }
        }
        Ok(())
    }

    /// The processes of the source and the nodes.
    fn pids(&self, system: &impl System) -> Vec<Option<u32>> {
        (SOURCE..=*self.links.nodes().end()).map(|host| system.pid(host)).collect()
    }

    /// Seconds after which the transfer is given up.
    fn limit(&self, mode: &RaceMode, best: f64) -> f64 {
        let (constant, times) = PATIENCE;
        let star = match mode {
            RaceMode::Star | RaceMode::Http => {
                2.0 * (self.policies.bytes * self.broadcast.nodes as u64) as f64
                    / self.broadcast.uplink.0 as f64
            }
            _ => 0.0,
        };
        constant + times * best + star
    }
}

/// Seconds from one moment to another.
fn seconds(from: UnixMillis, to: UnixMillis) -> f64 {
    (to.0 as f64 - from.0 as f64) / 1000.0
}

/// The next fault, if its time has come.
fn due(schedule: &mut FaultSchedule, elapsed: f64) -> Option<RaceFault> {
    let (at, _) = schedule.first()?;
    (elapsed >= *at).then(|| schedule.remove(0).1)
}

/// Says which host the i-th forwarder is: the one that has sent the i-th most since publication.
/// Without counters, it is node i.
fn aim(fault: RaceFault, samples: &Samples, published: UnixMillis) -> RaceFault {
    let host = |forwarder: usize| {
        let (Some(first), Some(last)) = (samples.at(published), samples.last()) else { return forwarder + 1 };
        let sent = |host: usize| {
            let counters = last.counters[host].zip(first.counters[host]);
            counters.map_or(0, |(last, first)| last.since(first).sent)
        };
        let mut hosts: Vec<usize> = (SOURCE + 1..last.counters.len()).collect();
        hosts.sort_by_key(|host| std::cmp::Reverse(sent(*host)));
        hosts.get(forwarder).copied().unwrap_or(forwarder + 1)
    };
    match fault {
        RaceFault::Slow { forwarder, factor } => RaceFault::Slow { forwarder: host(forwarder), factor },
        RaceFault::Gone { forwarder } => RaceFault::Gone { forwarder: host(forwarder) },
        other => other,
    }
}
