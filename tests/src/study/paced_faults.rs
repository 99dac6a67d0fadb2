//! The faults of rollouts of ECHO-2's table 4 with real processes: workers that are killed, and workers that
//! slow down, with nodes that stand by.
//!
//! Everybody has a price, so the learner chooses who works. It gets workers until its pool reaches γ
//! μ_min, and then some more, which stand by. So many workers are struck that the pool falls below its
//! target. What a fault does to those behind a forwarder is measured by `cargo lab broadcast --slow` and
//! `--gone`.

use super::paced;
use super::simulated::{Claim, FleetStudy, claim, of_processes};
use crate::harness::binaries::Binaries;
use crate::harness::network::{TestNetwork, section};
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use echo_learner::fleet::capacity::CapacityReport;
use echo_learner::telemetry::metrics::UpdateRow;
use serde::Serialize;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use toml::{Table, Value};

/// S; κ = S-1.
const BUDGET: u64 = 4;
/// B: enough that the spread of order times hardly makes a batch late, and ten workers are needed.
const GROUPS: u64 = 16;
/// T_train, in milliseconds.
const UPDATE_MS: u64 = 1_000;
/// The mean order time of a worker, in milliseconds.
const ORDER_MS: u64 = 520;
/// γ of the two arms.
const GAMMAS: [f64; 2] = [1.0, 1.1];
/// Workers at the beginning, which may be too few, and those that two cores bear.
const WORKERS: (usize, usize) = (10, 16);
/// Nodes that stand by.
const STANDBY: usize = 3;
/// So much of a worker the pool is to fall below its target at least: what is measured of it wavers.
const SURELY: f64 = 0.1;
/// Updates after workers have come before it is judged whether they are enough.
const SETTLING: usize = 12;
/// No run ends by itself.
const WITHOUT_END: u64 = 1_000_000;
/// How long it may take until nodes stand by, or begin after a fault.
const LIMIT: Duration = Duration::from_secs(180);
/// A slow worker stands still for so long, goes on for as long, and so on. Heartbeats that are missing
/// for less than three seconds make it no lost node.
const STANDS_STILL: Duration = Duration::from_millis(1_500);
/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest recovery from workers that are gone, in seconds.
const MAX_RECOVERY_S: f64 = 10.0;
/// Most by which the bubble may grow at γ = 1.1.
const MAX_INCREASE: f64 = 0.01;
/// The paper's figures at γ = 1.0 (table 4): drop, recovery in seconds, increase of the bubble.
const PAPER: [(&str, [f64; 3]); 2] =
    [("rollout-gone", [0.125, 240.0, 0.0188]), ("rollout-slow", [0.068, 240.0, 0.0097])];

/// What a fault cost.
#[derive(Clone, Debug, Serialize)]
struct Cost {
    gamma: f64,
    fault: &'static str,
    /// Workers that were struck, of so many.
    struck: usize,
    workers: u64,
    /// The share of μ_target that is missing without them.
    drop: f64,
    /// From the fault until as many nodes that stood by as are missing have brought a group, or the
    /// learner has noticed it and its pool is at the target without them. Of slow workers, from when the
    /// pool was below its target until it was not; `None` where it never was, or stayed there.
    recovery_s: Option<f64>,
    /// Of updates a second, over the whole of the time measured after the fault.
    throughput_drop: f64,
    bubble_before: f64,
    bubble_increase: f64,
}

/// Makes both faults with γ = 1.0 and 1.1. Passes when every claim holds.
///
/// # Errors
/// When something cannot be built, started or read, or a run stands still.
pub async fn run(study: FleetStudy, console: &Console) -> anyhow::Result<CommandReport> {
    Binaries::fresh(console).await?;
    let scratch = tempfile::tempdir()?;
    let mut costs = Vec::new();
    for gamma in GAMMAS {
        costs.extend(course(gamma, 2 * study.updates, scratch.path(), console).await?);
    }
    let mut rows = Vec::new();
    for cost in &costs {
        let mut row = serde_json::to_value(cost)?;
        let paper = PAPER.iter().find(|(fault, _)| *fault == cost.fault && cost.gamma == GAMMAS[0]);
        row["paper"] = json!(paper.map(|(_, [drop, recovery_s, bubble])| {
            json!({"drop": drop, "recovery_s": recovery_s, "bubble_increase": bubble})
        }));
        rows.push(row);
    }
    Ok(of_processes("faults", rows, claims(&costs), console))
}

async fn course(gamma: f64, updates: usize, dir: &Path, console: &Console) -> anyhow::Result<Vec<Cost>> {
    let dir = dir.join(format!("gamma-{gamma:.1}"));
    let mut network = paced::start(dir, settings(gamma)?, UPDATE_MS, &[ORDER_MS; WORKERS.0]).await?;
    saturate(&mut network).await?;
    stand_by(&mut network, console).await?;
    let gone = gone(&mut network, gamma, updates).await?;
    console.say(gone.line());
    // Who began to work is measured by now.
    let slow = slow(&mut network, gamma, updates).await?;
    console.say(slow.line());
    network.stop(paced::GRACE).await?;
    Ok(vec![gone, slow])
}

/// Adds workers until the pool reaches its target.
async fn saturate(network: &mut TestNetwork) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let report = newest(&paced::next_rows(network, SETTLING, 1).await?)?;
        let Some(target) = report.target else {
            // A publication has to reach everybody before its time is known.
            ensure!(begun.elapsed() < LIMIT, "the learner does not know what it needs: {report:?}");
            continue;
        };
        if report.pool >= target {
            return Ok(());
        }
        ensure!(network.node_count() < WORKERS.1, "{} workers are too few: {report:?}", WORKERS.1);
        let number = network.node_count() + 1;
        network.add_node(paced::node(number, ORDER_MS))?;
    }
}

/// Adds the nodes that stand by, and waits until they do.
async fn stand_by(network: &mut TestNetwork, console: &Console) -> anyhow::Result<()> {
    for _ in 0..STANDBY {
        let number = network.node_count() + 1;
        network.add_node(paced::node(number, ORDER_MS))?;
    }
    let begun = Instant::now();
    loop {
        let report = newest(&paced::next_rows(network, 0, 1).await?)?;
        if report.standby >= 1 && report.target.is_some_and(|target| report.pool >= target) {
            console.say(format!(
                "{} nodes work and {} stand by: {:.1} rollouts/s, and {:.1} are wanted",
                report.active,
                report.standby,
                report.pool,
                report.target.unwrap_or_default()
            ));
            return Ok(());
        }
        ensure!(begun.elapsed() < LIMIT, "nobody stands by after {LIMIT:?}: {report:?}");
    }
}

/// Waits until no more workers would have to be replaced than stand by, as what is measured wavers: how
/// things stand, how many are to be struck, and how many have to step in then.
async fn spared(network: &mut TestNetwork) -> anyhow::Result<(CapacityReport, usize, usize)> {
    let begun = Instant::now();
    loop {
        let report = newest(&paced::next_rows(network, 0, 1).await?)?;
        let each = report.pool / report.active as f64;
        let struck = strikes(&report, each)?;
        let missing = (missing_rate(&report, struck as f64 * each) / each).ceil() as usize;
        if missing as u64 <= report.standby {
            return Ok((report, struck, missing));
        }
        ensure!(begun.elapsed() < LIMIT, "{missing} workers would have to be replaced: {report:?}");
    }
}

/// Kills as many workers as the pool cannot spare.
async fn gone(network: &mut TestNetwork, gamma: f64, updates: usize) -> anyhow::Result<Cost> {
    let earlier = accepted(network);
    let before = paced::next_rows(network, 0, updates).await?;
    let (report, struck, missing) = spared(network).await?;
    let (at_fault, from) = (accepted(network), paced::rows(network).len());
    for index in workers(&earlier, &at_fault).take(struck) {
        network.kill_node(index).await?;
    }
    let since = Instant::now();
    loop {
        network.check()?;
        let begun = stepped_in(&earlier, &at_fault, &accepted(network));
        if begun >= missing || spares(&report, struck, &newest(&paced::rows(network))?) {
            break;
        }
        ensure!(since.elapsed() < LIMIT, "{begun} nodes that stood by have begun after {LIMIT:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let recovery_s = since.elapsed().as_secs_f64();
    let after = paced::rows_from(network, from, updates).await?;
    Ok(Cost {
        gamma,
        fault: PAPER[0].0,
        struck,
        workers: report.active,
        drop: missing_share(&report, struck as f64 * report.pool / report.active as f64),
        recovery_s: Some(recovery_s),
        throughput_drop: 1.0 - period_s(&before) / period_s(&after),
        bubble_before: paced::bubble(&before),
        bubble_increase: paced::bubble(&after) - paced::bubble(&before),
    })
}

/// Lets workers stand still half of the time: about as many as would leave the pool below its target at half
/// of their rate.
async fn slow(network: &mut TestNetwork, gamma: f64, updates: usize) -> anyhow::Result<Cost> {
    let earlier = accepted(network);
    let before = paced::next_rows(network, 0, updates).await?;
    let report = newest(&before)?;
    let half = report.pool / report.active as f64 / 2.0;
    let struck = strikes(&report, half)?;
    let now = accepted(network);
    let slowed = workers(&earlier, &now).take(struck);
    let names: Vec<String> = slowed.map(|index| network.node_name(index).to_owned()).collect();
    ensure!(names.len() == struck, "{struck} workers are to slow down: {report:?}");
    let (from, begun) = (paced::rows(network).len(), Instant::now());
    let (mut fell, mut recovery_s) = (None, None);
    let after = loop {
        for frozen in [true, false] {
            for name in &names {
                network.freeze(name, frozen)?;
            }
            tokio::time::sleep(STANDS_STILL).await;
        }
        network.check()?;
        let rows = paced::rows(network);
        let report = newest(&rows)?;
        let is_short = report.target.is_some_and(|target| report.pool < target);
        match fell {
            None if is_short => fell = Some(Instant::now()),
            Some(at) if !is_short && recovery_s.is_none() => {
                recovery_s = Some(Instant::now().duration_since(at).as_secs_f64());
            }
            _ => {}
        }
        if let Some(found) = rows.get(from..from + updates) {
            break found.to_vec();
        }
        ensure!(begun.elapsed() < LIMIT, "{updates} updates are not made after {LIMIT:?}");
    };
    Ok(Cost {
        gamma,
        fault: PAPER[1].0,
        struck,
        workers: report.active,
        drop: missing_share(&report, struck as f64 * half),
        recovery_s,
        throughput_drop: 1.0 - period_s(&before) / period_s(&after),
        bubble_before: paced::bubble(&before),
        bubble_increase: paced::bubble(&after) - paced::bubble(&before),
    })
}

impl Cost {
    fn line(&self) -> String {
        let Self { gamma, fault, struck, workers, drop, recovery_s, throughput_drop, .. } = self;
        let recovery = recovery_s.map_or_else(|| "not seen".to_owned(), |s| format!("{s:.1} s"));
        format!(
            "γ = {gamma:.1}, {fault}: {struck} of {workers} workers, drop {:.1} %, recovery {recovery}, updates/s {:+.1} %, bubble {:+.2} %",
            drop * 100.0,
            -throughput_drop * 100.0,
            self.bubble_increase * 100.0
        )
    }
}

/// How many workers that lose `each` rollouts a second leave the pool below its target.
fn strikes(report: &CapacityReport, each: f64) -> anyhow::Result<usize> {
    let target = report.target.context("the learner does not know what it needs")?;
    Ok(((report.pool - target).max(0.0) / each + SURELY) as usize + 1)
}

/// Whether the learner has missed those who were struck, nobody has stepped in, and the pool is enough all
/// the same: what is measured of it has wavered since.
fn spares(before: &CapacityReport, struck: usize, now: &CapacityReport) -> bool {
    now.active + struck as u64 <= before.active && now.target.is_some_and(|target| now.pool >= target)
}

/// Rollouts a second that are missing to the target when so many of the pool are lost.
fn missing_rate(report: &CapacityReport, lost: f64) -> f64 {
    report.target.map_or(0.0, |target| (target - (report.pool - lost)).max(0.0))
}

/// The same as a share of the target.
fn missing_share(report: &CapacityReport, lost: f64) -> f64 {
    report.target.map_or(0.0, |target| missing_rate(report, lost) / target)
}

/// Seconds of an update.
fn period_s(rows: &[UpdateRow]) -> f64 {
    rows.iter().map(|row| row.period_s).sum::<f64>() / rows.len().max(1) as f64
}

fn newest(rows: &[UpdateRow]) -> anyhow::Result<CapacityReport> {
    Ok(rows.last().context("the run has made no update")?.capacity)
}

/// Groups of each node that were accepted, by its own count.
fn accepted(network: &TestNetwork) -> Vec<u64> {
    let of_node = |index| network.node_status(index)?.get("accepted")?.as_u64();
    (0..network.node_count()).map(|index| of_node(index).unwrap_or(0)).collect()
}

/// The nodes that have brought groups from one count to the next.
fn workers(earlier: &[u64], later: &[u64]) -> impl Iterator<Item = usize> {
    let counts = earlier.iter().zip(later).enumerate();
    counts.filter(|(_, (earlier, later))| earlier < later).map(|(index, _)| index)
}

/// How many nodes have brought groups since the fault, and none in the time before it.
fn stepped_in(earlier: &[u64], at_fault: &[u64], now: &[u64]) -> usize {
    let counts = earlier.iter().zip(at_fault).zip(now);
    counts.filter(|((earlier, at_fault), now)| earlier == at_fault && now > at_fault).count()
}

fn claims(costs: &[Cost]) -> Vec<Claim> {
    let gone: Vec<f64> =
        costs.iter().filter(|cost| cost.fault == PAPER[0].0).filter_map(|cost| cost.recovery_s).collect();
    let increases: Vec<f64> =
        costs.iter().filter(|cost| cost.gamma > GAMMAS[0]).map(|cost| cost.bubble_increase).collect();
    vec![
        claim(
            "nodes that stand by make up for workers that are gone within 10 s",
            gone.len() == GAMMAS.len() && gone.iter().all(|seconds| *seconds <= MAX_RECOVERY_S),
            json!({"recovery_s": gone}),
        ),
        claim(
            "with gamma = 1.1 no fault raises the bubble by more than 1 %",
            !increases.is_empty() && increases.iter().all(|increase| *increase <= MAX_INCREASE),
            json!({"increases": increases}),
        ),
    ]
}

fn settings(gamma: f64) -> anyhow::Result<Table> {
    let mut table = paced::table(WITHOUT_END, GROUPS, BUDGET)?;
    let fleet = section(&mut table, "fleet")?;
    fleet.insert("gamma".into(), gamma.into());
    fleet.insert(
        "prices".into(),
        Value::Table(Table::from_iter([(paced::LABEL.to_owned(), Value::from(0.35_f64))])),
    );
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_learner::config::RunConfig;

    #[test]
    fn the_run_file_has_prices_so_that_the_learner_chooses() {
        let mut table = settings(1.1).unwrap();
        section(&mut table, "run").unwrap().insert("dir".into(), "x".into());
        let config: RunConfig = toml::from_str(&toml::to_string(&table).unwrap()).unwrap();
        config.validate().unwrap();
        assert_eq!(config.fleet.gamma, 1.1);
        assert_eq!(config.fleet.prices.iter().collect::<Vec<_>>(), [(paced::LABEL, 0.35)]);
    }

    #[test]
    fn as_many_are_struck_as_the_pool_cannot_spare() {
        let report =
            CapacityReport { pool: 78.0, target: Some(72.0), active: 11, ..CapacityReport::default() };
        assert_eq!(strikes(&report, 78.0 / 11.0).unwrap(), 1, "it leaves 1.1 missing");
        assert_eq!(strikes(&report, 6.5).unwrap(), 2, "one would leave half of one missing");
        assert_eq!(strikes(&report, 10.0).unwrap(), 1);
        assert_eq!(strikes(&report, 2.0).unwrap(), 4);
        let after = |pool, active| CapacityReport { pool, active, ..report };
        assert!(spares(&report, 1, &after(73.0, 10)));
        assert!(!spares(&report, 1, &after(71.0, 10)), "somebody has to step in");
        assert!(!spares(&report, 1, &after(78.0, 11)), "not noticed yet, or somebody has");
        assert!((missing_share(&report, 13.2) - 0.1).abs() < 1e-9);
        assert_eq!(missing_share(&report, 5.0), 0.0);
        assert!(strikes(&CapacityReport::default(), 1.0).is_err());
    }

    #[test]
    fn who_worked_until_the_fault_has_not_stepped_in() {
        // A worker, one that worked long before, one that never did, and one that rests on.
        let (earlier, at_fault) = ([10, 5, 0, 7], [20, 5, 0, 7]);
        assert_eq!(workers(&earlier, &at_fault).collect::<Vec<_>>(), [0]);
        assert_eq!(stepped_in(&earlier, &at_fault, &[21, 6, 1, 7]), 2);
    }

    #[test]
    fn every_claim_can_fail() {
        let cost = |gamma, fault, recovery_s, bubble_increase| Cost {
            gamma,
            fault,
            struck: 1,
            workers: 10,
            drop: 0.1,
            recovery_s,
            throughput_drop: 0.0,
            bubble_before: 0.0,
            bubble_increase,
        };
        let judged = |costs: &[Cost]| claims(costs).iter().map(|(_, holds, _)| *holds).collect::<Vec<_>>();
        let [gone, slow] = PAPER.map(|(fault, _)| fault);
        let good =
            [cost(1.0, gone, Some(6.0), 0.05), cost(1.1, gone, Some(6.0), 0.0), cost(1.1, slow, None, 0.0)];
        assert_eq!(judged(&good), [true, true]);
        let late = [cost(1.0, gone, Some(11.0), 0.0), cost(1.1, gone, Some(6.0), 0.02)];
        assert_eq!(judged(&late), [false, false]);
        assert_eq!(judged(&[]), [false, false]);
    }
}
