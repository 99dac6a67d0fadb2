//! What a fleet costs its learner: processor time and memory by the number of hosts.
//!
//! A real learner in a process of its own, and light hosts in this one: each has a key and a connection over
//! loopback, sends its heartbeat every second with the digest of its neighbourhood, and asks for an order
//! now and then. They have no model, so nothing is generated or delivered. The same learner gets more and
//! more hosts.

mod light_host;

use crate::harness::binaries::Binaries;
use crate::harness::liar::{PATIENCE, enter};
use crate::harness::machine;
use crate::harness::network::{LearnerConfig, NetworkConfig, TestNetwork};
use crate::harness::process_usage::{self, ProcessUsage};
use crate::harness::small_run::until;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use clap::Args;
use echo_learner::telemetry::metrics;
use light_host::LightHosts;
use serde::Serialize;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most hosts of one bench: their numbers are part of their keys, and this machine has to hold them all.
const MAX_HOSTS: u32 = 10_000;
/// Of one core, for the learner, at the most hosts.
const MAX_CORE: f64 = 0.15;
/// Resident bytes of the learner for each host.
const MAX_BYTES_A_HOST: f64 = 300e3;
/// What a host costs may grow by this factor from the fewest to the most.
const MAX_GROWTH: f64 = 1.2;
/// After hosts have come, what that costs dies down.
const SETTLE: Duration = Duration::from_secs(10);

/// How many hosts there are, one number after the other.
#[derive(Args, Clone, Debug)]
pub struct CentreBench {
    /// Numbers of hosts, ascending, with commas between them.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [100_u32, 300, 1_000], value_parser = clap::value_parser!(u32).range(1..=MAX_HOSTS as i64))]
    pub hosts: Vec<u32>,
    /// Seconds over which the learner's processor time is taken.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=3600))]
    pub span: u64,
}

/// What the learner uses with so many hosts.
#[derive(Clone, Copy, Debug, Serialize)]
struct Level {
    hosts: u32,
    /// Of one core, all of the learner.
    core: f64,
    /// Of one core for a thousand hosts, without what an idle learner takes.
    core_a_thousand: f64,
    /// Resident bytes above those of the learner without hosts, for each.
    bytes_a_host: f64,
    /// Heartbeats that were answered in a second.
    heartbeats_s: f64,
    /// Heartbeats and questions that were not answered, or refused.
    failed: u64,
}

/// Measures number by number.
///
/// # Errors
/// When something cannot be started or connected, or the learner ends.
pub async fn run(bench: CentreBench, console: &Console) -> anyhow::Result<CommandReport> {
    ensure!(bench.hosts.is_sorted_by(|a, b| a < b), "--hosts: numbers have to ascend, as in 100,300,1000");
    raise_descriptor_limit();
    let binaries = Binaries::fresh(console).await?.with_released_learner(console).await?;
    let scratch = tempfile::tempdir()?;
    let mut network = start(binaries, scratch.path()).await?;
    let pid = network.learner_pid().context("the learner is gone")?;
    let (entry, learner, _tasks) =
        enter(&network.layout().list(), [1; 32], &[LISTEN.to_owned()], "echo-lab centre", false).await?;
    let addresses = entry.find_peer(learner.peer()).await?;
    tokio::time::sleep(SETTLE).await;
    let span = Duration::from_secs(bench.span);
    let (idle, idle_core) = measure(pid, span).await?;
    console.say(format!(
        "without hosts: {:.1} % of a core, {:.1} MB",
        idle_core * 100.0,
        idle.rss as f64 / 1e6
    ));
    let mut hosts = LightHosts::new(learner.peer(), addresses);
    let mut levels = Vec::new();
    for count in bench.hosts {
        hosts.grow_to(count).await?;
        tokio::time::sleep(SETTLE).await;
        network.check()?;
        let before = hosts.counts();
        let (used, core) = measure(pid, span).await?;
        let after = hosts.counts();
        let level = Level {
            hosts: count,
            core,
            core_a_thousand: (core - idle_core) * 1e3 / f64::from(count),
            bytes_a_host: used.rss.saturating_sub(idle.rss) as f64 / f64::from(count),
            heartbeats_s: (after.answered - before.answered) as f64 / span.as_secs_f64(),
            failed: after.failed - before.failed,
        };
        console.say(format!(
            "{count} hosts: {:.1} % of a core, {:.0} kB a host, {:.0} heartbeats/s, {} failed",
            core * 100.0,
            level.bytes_a_host / 1e3,
            level.heartbeats_s,
            level.failed
        ));
        levels.push(level);
    }
    Ok(report(&levels, idle_core, span, console))
}

/// Where the first host listens, which finds the learner for all others.
const LISTEN: &str = "/ip4/127.0.0.1/udp/0/quic-v1";

async fn start(binaries: Binaries, dir: &Path) -> anyhow::Result<TestNetwork> {
    let mut network = TestNetwork::start(NetworkConfig {
        binaries,
        dir: dir.to_owned(),
        network: "echo-lab".into(),
        run: "centre".into(),
        learner: LearnerConfig { settings: RUN_FILE.parse()?, ..LearnerConfig::default() },
        nodes: Vec::new(),
    })
    .await?;
    let path = network.layout().metrics();
    let idle = |_: &mut TestNetwork| metrics::evaluations(&path).ok().filter(|rows| !rows.is_empty());
    until("the first evaluation", PATIENCE, &mut network, idle).await?;
    Ok(network)
}

/// What the learner uses, and the share of a core that it took meanwhile.
async fn measure(pid: u32, span: Duration) -> anyhow::Result<(ProcessUsage, f64)> {
    let missing = "the learner's use of the machine is read from /proc, which only Linux has";
    let (before, since) = (process_usage::of(pid).context(missing)?, Instant::now());
    tokio::time::sleep(span).await;
    let after = process_usage::of(pid).context(missing)?;
    Ok((after, (after.cpu_s - before.cpu_s) / since.elapsed().as_secs_f64()))
}

fn report(levels: &[Level], idle_core: f64, span: Duration, console: &Console) -> CommandReport {
    let (Some(first), Some(last)) = (levels.first(), levels.last()) else {
        return CommandReport { passed: false, json: json!({"passed": false, "results": [], "claims": []}) };
    };
    let growth = last.core_a_thousand / first.core_a_thousand.max(1e-9);
    let answered = 1.0
        - levels.iter().map(|level| level.failed).sum::<u64>() as f64
            / levels.iter().map(|level| level.heartbeats_s * span.as_secs_f64()).sum::<f64>().max(1.0);
    let claims = [
        ("the learner takes at most 15 % of one core at the most hosts", last.core <= MAX_CORE, last.core),
        ("it takes at most 300 kB a host", last.bytes_a_host <= MAX_BYTES_A_HOST, last.bytes_a_host),
        (
            "a host costs at most a fifth more at the most hosts than at the fewest",
            growth <= MAX_GROWTH,
            growth,
        ),
        ("at least 99 % of the questions are answered", answered >= 0.99, answered),
    ];
    for (claim, holds, figure) in &claims {
        console.say(format!("{} {claim}: {figure:.3}", if *holds { "holds " } else { "FAILED" }));
    }
    let passed = claims.iter().all(|(_, holds, _)| *holds);
    let claims: Vec<_> = claims
        .iter()
        .map(|(claim, holds, figure)| json!({"claim": claim, "holds": holds, "figures": {"found": figure}}))
        .collect();
    let json = json!({
        "passed": passed, "hosts": last.hosts, "core": last.core, "bytes_a_host": last.bytes_a_host, "growth": growth,
        "idle_core": idle_core, "span_s": span.as_secs_f64(), "results": levels, "claims": claims, "machine": machine::describe(),
    });
    CommandReport { passed, json }
}

/// A host has a few sockets, and most systems begin with 1,024 descriptors a process.
fn raise_descriptor_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
            tracing::warn!(%error, "the limit on open files could not be raised");
        }
    }
}

/// A policy of next to nothing, and a batch that never comes together.
const RUN_FILE: &str = r#"
[run]
name = "centre"
updates = 1
[model.tiny]
hidden = 32
layers = 1
heads = 2
kv_heads = 1
head_dim = 16
intermediate = 64
positions = 32
[[task]]
name = "chain_sum"
params = { digits = 1, terms = 2 }
[sampling]
group_size = 4
[staleness]
budget = 3
[admission]
audit = false
[train]
groups_per_update = 4096
[train.schedule]
peak = 1e-6
decay = { shape = "constant" }
[evaluation]
orders = 1
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use echo_learner::config::RunConfig;
    use toml::Table;

    #[test]
    fn the_run_file_is_one_that_the_learner_takes() {
        let mut table: Table = RUN_FILE.parse().unwrap();
        table["run"].as_table_mut().unwrap().insert("dir".into(), "x".into());
        let config: RunConfig = toml::from_str(&toml::to_string(&table).unwrap()).unwrap();
        config.validate().unwrap();
        assert!(config.staleness().unwrap().is_by_lag());
    }

    #[test]
    fn claims_are_judged_by_the_most_hosts_and_by_growth() {
        let level = |hosts, core, core_a_thousand, bytes_a_host| Level {
            hosts,
            core,
            core_a_thousand,
            bytes_a_host,
            heartbeats_s: f64::from(hosts),
            failed: 0,
        };
        let judged = |levels: &[Level]| {
            let report = report(levels, 0.01, Duration::from_secs(10), &Console::new(true));
            let claims = report.json["claims"].as_array().unwrap().clone();
            claims.iter().map(|claim| claim["holds"].as_bool().unwrap()).collect::<Vec<_>>()
        };
        let few = level(100, 0.02, 0.1, 900e3);
        assert_eq!(judged(&[few, level(1_000, 0.12, 0.11, 200e3)]), [true, true, true, true]);
        assert_eq!(judged(&[few, level(1_000, 0.16, 0.15, 400e3)]), [false, false, false, true]);
        let unanswered = Level { failed: 500, ..level(1_000, 0.12, 0.11, 200e3) };
        assert_eq!(judged(&[few, unanswered]), [true, true, true, false]);
    }
}
