//! Runs of real processes whose pace the lab sets: an update and an order take the time that the study wants.
//!
//! Two cores are enough for a dozen nodes, as nodes and learner sleep most of the time. Everything else is as
//! in any run: leases, heartbeats, publications, groups.

use crate::harness::binaries::Binaries;
use crate::harness::network::{
    LearnerConfig, NetworkConfig, NetworkLayout, TestNetwork, TestNodeConfig, section,
};
use crate::output::console::Console;
use anyhow::{Context as _, ensure};
use echo_learner::storage::run_dir::RunDir;
use echo_learner::telemetry::metrics::{self, UpdateRow};
use echo_policy::generation::device::DeviceChoice;
use echo_protocol::program::lab_pace;
use echo_protocol::run::staleness::Pipeline;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use toml::Table;

/// B: groups of a batch.
pub(super) const GROUPS: u64 = 8;
/// T_train, in milliseconds.
pub(super) const UPDATE_MS: u64 = 1_000;
/// T_bcast that nodes are planned with, in seconds: a tiny snapshot on this machine.
pub(super) const BROADCAST_S: f64 = 0.1;
/// Orders that a node holds: one at work, one that waits.
const MAX_ORDERS: u32 = 2;
/// One update in so many, at the beginning, is not measured: paces are not known yet.
const SETTLING: usize = 4;
/// Pause between two looks at the processes.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a run may take for each of its updates, and besides.
const LIMIT: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(120));
/// How long volunteers are given to end by themselves once the run is over.
pub(super) const GRACE: Duration = Duration::from_secs(15);
/// By this the operator knows what all nodes cost, where prices are set.
pub(super) const LABEL: &str = "paced";
/// How long a few more updates may take.
const ROWS_LIMIT: Duration = Duration::from_secs(300);

/// A run to be made.
#[derive(Clone, Debug)]
pub(super) struct PacedRun {
    /// Names the run's directory and its row.
    pub(super) name: &'static str,
    /// S; κ = S-1.
    pub(super) budget: u64,
    /// Whether η = S-κ bounds what is out, instead of its lag.
    pub(super) fixed: bool,
    /// The mean order time of each node, in milliseconds.
    pub(super) nodes: Vec<u64>,
    pub(super) updates: u64,
}

/// What it came to, over the updates that are measured.
#[derive(Clone, Debug)]
pub(super) struct PacedCourse {
    pub(super) run: PacedRun,
    /// Share of the time that the learner waited for batches.
    pub(super) bubble: f64,
    /// Groups that were too old, as a share of those trained on.
    pub(super) dropped: f64,
    pub(super) updates_per_s: f64,
    /// Of a token, in updates.
    pub(super) lag: f64,
    /// Orders leased anew or a second time, in the whole run.
    pub(super) late_orders: u64,
    pub(super) backup_orders: u64,
    /// Nodes whose owners were told that they are too slow.
    pub(super) told: usize,
    pub(super) seconds: f64,
}

/// How many nodes of this order time are `share` × μ_min, for a run with S = `budget`.
pub(super) fn nodes_for(share: f64, budget: u64, order_ms: u64) -> anyhow::Result<usize> {
    let train_s = UPDATE_MS as f64 / 1e3;
    let pipeline = Pipeline { train_s, broadcast_s: BROADCAST_S, batch: GROUPS as f64 };
    let rate = pipeline.required_rate(budget.saturating_sub(1).max(1)).context("no rate is enough")?;
    Ok((share * rate * order_ms as f64 / 1e3).ceil() as usize)
}

/// Makes the run in a directory of its own below `dir`.
pub(super) async fn course(run: PacedRun, dir: &Path, console: &Console) -> anyhow::Result<PacedCourse> {
    let since = Instant::now();
    let network = start(dir.join(run.name), settings(&run)?, UPDATE_MS, &run.nodes).await?;
    let layout = network.layout().clone();
    let names = network.node_names();
    to_its_end(network, run.updates).await?;
    let rows = metrics::updates(&RunDir::new(&layout.run_dir()).metrics())?;
    let course = measured(run, &rows, told(&layout, &names), since.elapsed())?;
    console.say(format!(
        "  {}: bubble {:.3}, too old {:.3}, {:.3} updates/s, lag {:.2}",
        course.run.name, course.bubble, course.dropped, course.updates_per_s, course.lag
    ));
    Ok(course)
}

/// Starts a learner whose updates take at least so long, and nodes of these mean order times.
pub(super) async fn start(
    dir: PathBuf,
    settings: Table,
    update_ms: u64,
    orders_ms: &[u64],
) -> anyhow::Result<TestNetwork> {
    let environment = [
        (lab_pace::UPDATE_MS.to_owned(), update_ms.to_string()),
        ("RAYON_NUM_THREADS".to_owned(), "1".to_owned()),
    ];
    TestNetwork::start(NetworkConfig {
        binaries: Binaries::locate()?,
        dir,
        network: "echo-study".into(),
        run: "paced".into(),
        learner: LearnerConfig { settings, environment: environment.into() },
        nodes: orders_ms.iter().enumerate().map(|(index, order_ms)| node(index + 1, *order_ms)).collect(),
    })
    .await
}

/// The node of this number, counted from 1, with this mean order time.
pub(super) fn node(number: usize, order_ms: u64) -> TestNodeConfig {
    let environment = [
        (lab_pace::ORDER_MS.to_owned(), order_ms.to_string()),
        ("ECHO_NODE_MAX_ORDERS".to_owned(), MAX_ORDERS.to_string()),
        ("ECHO_NODE_LABEL".to_owned(), LABEL.to_owned()),
    ];
    TestNodeConfig {
        name: format!("node-{number}"),
        threads: 1,
        device: DeviceChoice::Cpu,
        arguments: Vec::new(),
        environment: environment.into(),
    }
}

/// The rows of a run that goes on; none where there is none yet.
pub(super) fn rows(network: &TestNetwork) -> Vec<UpdateRow> {
    metrics::updates(&network.layout().metrics()).unwrap_or_default()
}

/// The next updates of a run, after so many that are passed over.
pub(super) async fn next_rows(
    network: &mut TestNetwork,
    skipped: usize,
    count: usize,
) -> anyhow::Result<Vec<UpdateRow>> {
    let from = rows(network).len() + skipped;
    rows_from(network, from, count).await
}

/// So many updates of a run from this one on, once they are made.
pub(super) async fn rows_from(
    network: &mut TestNetwork,
    from: usize,
    count: usize,
) -> anyhow::Result<Vec<UpdateRow>> {
    let begun = Instant::now();
    loop {
        network.check()?;
        let rows = rows(network);
        if let Some(found) = rows.get(from..from + count) {
            return Ok(found.to_vec());
        }
        ensure!(begun.elapsed() < ROWS_LIMIT, "{count} updates are not made after {ROWS_LIMIT:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The share of the time of these updates that the learner waited.
pub(super) fn bubble(rows: &[UpdateRow]) -> f64 {
    let sum = |figure: fn(&UpdateRow) -> f64| rows.iter().map(figure).sum::<f64>();
    sum(|row| row.waited_s) / sum(|row| row.period_s)
}

/// Waits until the run is over, and ends its nodes.
async fn to_its_end(mut network: TestNetwork, updates: u64) -> anyhow::Result<()> {
    let (begun, (each, besides)) = (Instant::now(), LIMIT);
    let limit = each * u32::try_from(updates)? + besides;
    while network.learner_ended()?.is_none() {
        network.check()?;
        ensure!(begun.elapsed() < limit, "the run is not over after {limit:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    network.stop(GRACE).await
}

/// Nodes whose logs say that they are too slow.
fn told(layout: &NetworkLayout, names: &[String]) -> usize {
    let is_told = |name: &&String| {
        let log = std::fs::read_to_string(layout.log(name)).unwrap_or_default();
        log.contains("an order takes this node")
    };
    names.iter().filter(is_told).count()
}

fn measured(run: PacedRun, rows: &[UpdateRow], told: usize, took: Duration) -> anyhow::Result<PacedCourse> {
    let skipped = rows.len() / SETTLING;
    let (before, rows) = rows.split_at(skipped);
    let last = rows.last().context("the run has made no update")?;
    let stale = |row: &UpdateRow| {
        let of = |counts: &std::collections::BTreeMap<String, u64>| counts.get("stale").copied().unwrap_or(0);
        of(&row.dropped) + of(&row.refused)
    };
    let sum = |figure: fn(&UpdateRow) -> f64| rows.iter().map(figure).sum::<f64>();
    let (period_s, count) = (sum(|row| row.period_s), rows.len() as f64);
    let too_old = stale(last).saturating_sub(before.last().map_or(0, stale));
    Ok(PacedCourse {
        bubble: bubble(rows),
        dropped: too_old as f64 / (count * GROUPS as f64),
        updates_per_s: count / period_s,
        lag: sum(|row| row.lag_mean) / count,
        late_orders: last.late_orders,
        backup_orders: last.backup_orders,
        told,
        seconds: took.as_secs_f64(),
        run,
    })
}

impl PacedCourse {
    /// Its figures, as a row of the report.
    pub(super) fn row(&self) -> Value {
        let PacedRun { name, budget, fixed, nodes, updates } = &self.run;
        json!({
            "name": name, "s": budget, "rule": if *fixed { "eta" } else { "lag" }, "nodes": nodes.len(),
            "order_ms": nodes, "update_ms": UPDATE_MS, "groups": GROUPS, "updates": updates,
            "bubble": self.bubble, "dropped": self.dropped, "updates_per_s": self.updates_per_s, "lag": self.lag,
            "late_orders": self.late_orders, "backup_orders": self.backup_orders, "told": self.told,
            "seconds": self.seconds,
        })
    }
}

fn settings(run: &PacedRun) -> anyhow::Result<Table> {
    let mut table = table(run.updates, GROUPS, run.budget)?;
    if run.fixed {
        // η = S-κ, which is 1 for every S with κ = S-1.
        section(&mut table, "staleness")?.insert("admission".into(), 1.into());
    }
    Ok(table)
}

/// The run file of so many updates of so many groups, with S = `budget`.
pub(super) fn table(updates: u64, groups: u64, budget: u64) -> anyhow::Result<Table> {
    let mut table: Table = FILE.parse()?;
    section(&mut table, "run")?.insert("updates".into(), i64::try_from(updates)?.into());
    section(&mut table, "train")?.insert("groups_per_update".into(), i64::try_from(groups)?.into());
    section(&mut table, "staleness")?.insert("budget".into(), i64::try_from(budget)?.into());
    Ok(table)
}

/// A policy so small that its own time does not count.
const FILE: &str = r#"
[run]
name = "paced"
seed = 1
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
budget = 4

[train]
objective = { name = "gepo" }
schedule = { peak = 1e-5, decay = { shape = "constant" } }

[evaluation]
orders = 8

# The study is of times, and two cores are to be enough for all of it.
[admission]
audit = false
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use echo_learner::config::RunConfig;

    fn run(fixed: bool) -> PacedRun {
        PacedRun { name: "x", budget: 4, fixed, nodes: vec![1_000; 3], updates: 8 }
    }

    #[test]
    fn the_run_file_is_one_that_the_learner_takes() {
        for fixed in [false, true] {
            let mut table = settings(&run(fixed)).unwrap();
            section(&mut table, "run").unwrap().insert("dir".into(), "x".into());
            let config: RunConfig = toml::from_str(&toml::to_string(&table).unwrap()).unwrap();
            config.validate().unwrap();
            let staleness = config.staleness().unwrap();
            assert_eq!((staleness.budget(), staleness.period(), staleness.admission()), (4, 3, 1));
            assert_eq!((staleness.is_by_lag(), config.train.groups_per_update), (!fixed, 8));
        }
    }

    #[test]
    fn nodes_are_counted_by_the_papers_rate() {
        // 24 groups in 2.9 s.
        assert_eq!(nodes_for(1.5, 4, 1_000).unwrap(), 13);
        assert_eq!(nodes_for(1.0, 4, 500).unwrap(), 5);
    }

    #[test]
    fn the_first_updates_are_not_measured() {
        let row = |update: u64, waited_s, stale: u64| UpdateRow {
            update,
            waited_s,
            period_s: 2.0,
            lag_mean: 1.0,
            dropped: [("stale".to_owned(), stale)].into(),
            ..UpdateRow::default()
        };
        let rows = [row(1, 2.0, 5), row(2, 1.0, 5), row(3, 0.0, 5), row(4, 0.0, 9)];
        let course = measured(run(false), &rows, 0, Duration::from_secs(9)).unwrap();
        assert_eq!((course.bubble, course.updates_per_s, course.lag), (1.0 / 6.0, 0.5, 1.0));
        assert_eq!(course.dropped, 4.0 / 24.0);
        assert!(measured(run(false), &[], 0, Duration::ZERO).is_err());
    }
}
