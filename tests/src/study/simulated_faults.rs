//! Table 4 of ECHO-2 in simulation: what a worker's fault costs, without redundancy and with a tenth more
//! workers.

use super::fleet::{self, Change, ChangeKind, Course, End, Scene};
use super::simulated::{FleetStudy, claim, largest, mean, quiet, report, worker};
use super::simulated_capacity::{BATCH, BROADCAST_S};
use super::worker_pool;
use crate::output::console::{CommandReport, Console};
use anyhow::Context as _;
use echo_learner::common::workload::Workload;
use echo_protocol::control::heartbeat::ACTIVE_FOR_MS;
use echo_protocol::run::staleness::Pipeline;
use serde_json::json;
use std::sync::Arc;

/// S = 3 and κ = 2, as in the paper's run with nine workers.
const BUDGET: u64 = 3;
/// T_train in seconds (appendix D).
const TRAIN_S: f64 = 1500.0;
/// Workers that exactly saturate the learner (appendix D).
const WORKERS: usize = 8;
/// The update whose version is being spread when a fault of the broadcast happens. κ divides it.
const FAULTY: usize = 20;
/// Updates of a run.
const UPDATES: u64 = 60;
/// Updates at the beginning that are not measured.
const SETTLING: usize = 8;
/// From a worker's fault until its replacement works, at rollouts and at broadcasts (the paper's table 4).
const PAPER_S: (f64, f64) = (240.0, 312.0);
/// Ours, with a node that stands by and has the newest policy: it is missed, and the other one asks.
const STANDBY_MS: u64 = ACTIVE_FOR_MS + 1_000;

/// The faults of table 4, and the paper's figures: drop and recovery in seconds, increase of the bubble.
const FAULTS: [(&str, FaultCase, [f64; 3]); 4] = [
    ("broadcast-slow", FaultCase { in_broadcast: true, leaves: false }, [0.0894, 312.0, 0.0156]),
    ("broadcast-gone", FaultCase { in_broadcast: true, leaves: true }, [0.1645, 312.0, 0.0263]),
    ("rollout-slow", FaultCase { in_broadcast: false, leaves: false }, [0.068, 240.0, 0.0097]),
    ("rollout-gone", FaultCase { in_broadcast: false, leaves: true }, [0.125, 240.0, 0.0188]),
];

#[derive(Clone, Copy, Debug)]
struct FaultCase {
    in_broadcast: bool,
    /// The worker is gone; otherwise it has half of its speed.
    leaves: bool,
}

/// What a fault cost in one run.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// The largest share of μ_target that was missing.
    drop: f64,
    /// Until nothing was missing, in seconds.
    recovery_s: f64,
    /// Of the bubble ratio, against the same run without the fault.
    bubble: f64,
}

/// Makes every fault with γ = 1.0 and 1.1, by the paper's replacement and by ours. Passes when every claim
/// holds.
///
/// # Errors
/// When a rule of the simulation is broken.
pub fn run(study: &FleetStudy, console: &Console) -> anyhow::Result<CommandReport> {
    let workload = fleet::workload()?;
    let mut rows = Vec::new();
    let (mut with_spare, mut recoveries) = (Vec::new(), Vec::new());
    for (gamma, workers) in [(1.0, WORKERS), (1.1, (1.1 * WORKERS as f64).ceil() as usize)] {
        for (name, fault, [drop, recovery_s, bubble]) in FAULTS {
            for is_ours in [false, true] {
                let seeds: Vec<u64> = (0..study.seeds).collect();
                let costs =
                    worker_pool::share(&seeds, |&seed| cost(workers, fault, is_ours, seed, &workload))?;
                let of = |figure: fn(&Cost) -> f64| mean(costs.iter().map(figure));
                let found =
                    Cost { drop: of(|c| c.drop), recovery_s: of(|c| c.recovery_s), bubble: of(|c| c.bubble) };
                let whose = if is_ours { "standby" } else { "paper" };
                console.say(format!(
                    "γ = {gamma}, {name}, replacement as {whose}: drop {:.1} %, recovery {:.0} s, bubble {:+.2} %",
                    found.drop * 100.0,
                    found.recovery_s,
                    found.bubble * 100.0
                ));
                // The paper's table is of γ = 1.0.
                let paper = (gamma == 1.0)
                    .then(|| json!({"drop": drop, "recovery_s": recovery_s, "bubble_increase": bubble}));
                rows.push(json!({
                    "gamma": gamma, "fault": name, "replacement": whose, "workers": workers, "drop": found.drop,
                    "recovery_s": found.recovery_s, "bubble_increase": found.bubble, "paper": paper,
                }));
                if gamma > 1.0 {
                    with_spare.push(found.bubble);
                } else if is_ours && !fault.in_broadcast {
                    recoveries.push(found.recovery_s);
                }
            }
        }
    }
    let claims = vec![
        claim(
            "with gamma = 1.1 no fault of one worker raises the bubble by more than 1 %",
            with_spare.iter().all(|bubble| *bubble <= 0.01),
            json!({"increases": with_spare, "largest": largest(&with_spare)}),
        ),
        claim(
            "a node that stands by makes up for a fault at rollouts within 10 s",
            recoveries.iter().all(|seconds| *seconds <= 10.0),
            json!({"recovery_s": recoveries}),
        ),
    ];
    Ok(report("faults", rows, claims, console))
}

fn cost(
    workers: usize,
    fault: FaultCase,
    is_ours: bool,
    seed: u64,
    workload: &Arc<Workload>,
) -> anyhow::Result<Cost> {
    let quiet = fleet::course(scene(workers, seed, Vec::new())?, workload)?;
    let before = quiet.periods.get(..FAULTY).context("the run made too few updates")?;
    let published_ms = before.iter().map(|(_, period)| period).sum::<u64>();
    let broadcast_ms = (BROADCAST_S * 1e3) as u64;
    // A third of the way into a broadcast, or a while after one.
    let at_ms = published_ms + if fault.in_broadcast { broadcast_ms / 3 } else { broadcast_ms + 100_000 };
    let paper_s = if fault.in_broadcast { PAPER_S.1 } else { PAPER_S.0 };
    let back_ms = at_ms + if is_ours { STANDBY_MS } else { (paper_s * 1e3) as u64 };
    let mut changes = Vec::new();
    if fault.leaves {
        changes.push(Change { at_ms, node: 0, kind: ChangeKind::Leaves });
    } else {
        changes.push(Change { at_ms, node: 0, kind: ChangeKind::Slows(2.0) });
        if fault.in_broadcast {
            // Half of the rate for what is left: the node and those behind it have it that much later.
            let kind = ChangeKind::Stalls(broadcast_ms - broadcast_ms / 3);
            changes.push(Change { at_ms, node: 0, kind });
        }
    }
    changes.push(Change { at_ms: back_ms, node: workers, kind: ChangeKind::Comes });
    let faulty = fleet::course(scene(workers, seed, changes)?, workload)?;
    let (drop, recovery_s) = missing(&faulty, at_ms)?;
    Ok(Cost { drop, recovery_s, bubble: faulty.bubble(SETTLING) - quiet.bubble(SETTLING) })
}

/// Groups a millisecond of one worker: eight are μ_min.
fn worker_rate() -> anyhow::Result<f64> {
    let pipeline = Pipeline { train_s: TRAIN_S, broadcast_s: BROADCAST_S, batch: BATCH as f64 };
    let required = pipeline.required_rate(BUDGET - 1).context("no rate is enough")?;
    Ok(required / WORKERS as f64 / 1e3)
}

/// The largest share of what is needed that was missing since a moment, and the seconds with any missing.
fn missing(course: &Course, since_ms: u64) -> anyhow::Result<(f64, f64)> {
    // A little less, so that rounding is no drop.
    let target = worker_rate()? * WORKERS as f64 * (1.0 - 1e-9);
    let after = || course.rates.iter().filter(|(at, _)| *at >= since_ms);
    let lowest = after().map(|(_, rate)| *rate).fold(target, f64::min);
    let Some((begun, _)) = after().find(|(_, rate)| *rate < target) else { return Ok((0.0, 0.0)) };
    let over = after().find(|(at, rate)| at > begun && *rate >= target);
    let over_ms = over.map_or(course.millis, |(at, _)| *at);
    Ok((1.0 - lowest / target, (over_ms - since_ms) as f64 / 1e3))
}

fn scene(workers: usize, seed: u64, changes: Vec<Change>) -> anyhow::Result<Scene> {
    let order_ms = 1.0 / worker_rate()?;
    let mut nodes = vec![worker(order_ms, true); workers];
    nodes.push(worker(order_ms, false));
    Ok(Scene {
        seed,
        budget: BUDGET,
        period: BUDGET - 1,
        batch: BATCH,
        update_ms: TRAIN_S * 1e3,
        sigma: (0.1, 0.0),
        // One chain, so that a forwarder has all others behind it: the paper's worst case.
        chains: 1,
        ask_again_ms: (1_000, 1_000),
        changes,
        end: End::Updates(UPDATES),
        ..quiet(nodes, BROADCAST_S)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_gone_is_an_eighth_until_another_one_comes() {
        let workload = fleet::workload().unwrap();
        let gone = FaultCase { in_broadcast: false, leaves: true };
        let without = cost(WORKERS, gone, false, 1, &workload).unwrap();
        assert!((without.drop - 0.125).abs() < 1e-6, "{without:?}");
        assert!((without.recovery_s - PAPER_S.0).abs() < 1.0, "{without:?}");
        let standby = cost(WORKERS, gone, true, 1, &workload).unwrap();
        assert!(standby.recovery_s <= 10.0, "{standby:?}");
        let spare = cost(WORKERS + 1, gone, false, 1, &workload).unwrap();
        assert_eq!((spare.drop, spare.recovery_s), (0.0, 0.0));
    }
}
