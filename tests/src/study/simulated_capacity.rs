//! Figure 3c of ECHO-2 in simulation: the bubble against the number of workers, for several S.
//!
//! Its equation 2 is of workers that begin nothing while they receive a policy. Echo's nodes work on
//! under the one that they have, so that fewer are enough. Both are simulated.

use super::fleet::{self, End, Scene, SceneNode};
use super::simulated::{
    BUBBLES, FleetStudy, bubble_claims, claim, mean, picture, quiet, report, too_few, worker,
};
use super::simulated_chart::{Axis, Line, Marker, draw};
use super::worker_pool;
use crate::output::console::{CommandReport, Console};
use anyhow::Context as _;
use echo_protocol::run::staleness::Pipeline;
use serde_json::{Value, json};

/// S of the figure, with T_train of each in seconds. The paper names those of 3 and 4 (§5.2); the larger
/// are taken to be as that of 4.
const BUDGETS: [(u64, f64); 4] = [(3, 1631.2), (4, 1649.3), (6, 1649.3), (11, 1649.3)];
/// T_bcast in seconds, to nine workers (table 2).
pub(super) const BROADCAST_S: f64 = 1437.0;
/// Prompts of an update (§5.1).
pub(super) const BATCH: usize = 128;
/// Workers that table 2 has for S = 3: the rate of one follows from equation 2.
const TABLE_WORKERS: f64 = 9.0;
/// γ (§4.3).
const GAMMA: f64 = 1.1;
/// Most workers of a sweep.
const MOST: usize = 14;
/// Updates at the beginning that are not measured.
const SETTLING: usize = 12;
/// Updates of a run besides those.
const MEASURED: u64 = 66;

/// Groups a second of one worker.
pub(super) fn worker_rate() -> anyhow::Result<f64> {
    let (budget, train_s) = BUDGETS[0];
    Ok(required(budget, train_s)? / TABLE_WORKERS)
}

/// μ_min in groups a second, for κ = S-1.
pub(super) fn required(budget: u64, train_s: f64) -> anyhow::Result<f64> {
    let pipeline = Pipeline { train_s, broadcast_s: BROADCAST_S, batch: BATCH as f64 };
    pipeline.required_rate(budget - 1).context("no rate is enough")
}

/// What workers do while they receive a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    /// Nothing, as those of ECHO-2.
    Wait,
    /// They begin further orders under the policy that they have, as Echo's nodes.
    WorkOn,
}

/// A point of the sweep: an index into [`BUDGETS`], workers, what they do meanwhile, and a seed.
type Point = (usize, usize, Meanwhile, u64);

/// Sweeps the workers for each S. Passes when every claim holds.
///
/// # Errors
/// When a rule of the simulation is broken, or the picture cannot be drawn.
pub fn run(study: &FleetStudy, console: &Console) -> anyhow::Result<CommandReport> {
    let (workload, rate) = (fleet::workload()?, worker_rate()?);
    let jobs = points(study.seeds);
    let bubbles = worker_pool::share(&jobs, |&(at, workers, meanwhile, seed)| {
        Ok(fleet::course(scene(at, workers, meanwhile, rate, seed), &workload)?.bubble(SETTLING))
    })?;
    let mean_of = |at: usize, workers: usize, meanwhile: Meanwhile| {
        let is_of = |point: &Point| (point.0, point.1, point.2) == (at, workers, meanwhile);
        mean(jobs.iter().zip(&bubbles).filter(|(point, _)| is_of(point)).map(|(_, bubble)| *bubble))
    };
    let bubble = |at: usize, workers: usize| mean_of(at, workers, Meanwhile::Wait);
    // The fewest with which the learner hardly waits.
    let enough_of =
        |at: usize, meanwhile| (2..=MOST).find(|workers| mean_of(at, *workers, meanwhile) <= BUBBLES.0);
    let (mut rows, mut lines, mut markers, mut thresholds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut saved = Vec::new();
    let (mut enough, mut scarce) = (Vec::new(), Vec::new());
    for (at, (budget, train_s)) in BUDGETS.into_iter().enumerate() {
        let needed = required(budget, train_s)? / rate;
        let target = (GAMMA * needed).ceil() as usize;
        let fewer = too_few(target);
        let points: Vec<(f64, f64)> =
            (2..=MOST).map(|workers| (workers as f64, bubble(at, workers))).collect();
        let (found, working_on) = (enough_of(at, Meanwhile::Wait), enough_of(at, Meanwhile::WorkOn));
        saved.push(working_on.is_some_and(|fewer| found.is_none_or(|found| fewer <= found)));
        enough.push(bubble(at, target));
        scarce.push(bubble(at, fewer));
        thresholds.push(found.unwrap_or(usize::MAX));
        let said = |found: Option<usize>| found.map_or_else(|| format!("none of {MOST}"), |n| n.to_string());
        console.say(format!(
            "S = {budget}: predicted {needed:.2} workers, with γ {target}; found {}; bubble {:.3} at {target}, {:.3} at {fewer}; Echo's nodes {}",
            said(found),
            bubble(at, target),
            bubble(at, fewer),
            said(working_on)
        ));
        rows.push(json!({
            "s": budget, "predicted_workers": needed, "target_workers": target, "found_workers": found,
            "found_workers_working_on": working_on,
            "bubbles": points.iter().map(|(workers, bubble)| json!({"workers": workers, "bubble": bubble})).collect::<Vec<_>>(),
        }));
        lines.push(Line { name: format!("S = {budget}"), points });
        markers.push(Marker { line: at, x: needed });
    }
    let axes = Axis { x: "workers", y: "bubble", is_logarithmic: false };
    draw(&picture(&study.out, "capacity.png")?, "The learner's bubble (simulated)", &axes, &lines, &markers)?;
    let mut claims = bubble_claims(&enough, &scarce).to_vec();
    claims.extend([
        claim(
            "a larger S needs no more workers, and the largest fewer than the smallest",
            thresholds.is_sorted_by(|a, b| a >= b) && thresholds.first() > thresholds.last(),
            json!({"workers": rows.iter().map(|row| row["found_workers"].clone()).collect::<Vec<Value>>()}),
        ),
        claim(
            "nodes that work on while a policy arrives are enough with no more of them",
            saved.iter().all(|saved| *saved),
            json!({"workers": rows.iter().map(|row| row["found_workers_working_on"].clone()).collect::<Vec<Value>>()}),
        ),
    ]);
    Ok(report("capacity", rows, claims, console))
}

fn points(seeds: u64) -> Vec<Point> {
    let mut points = Vec::new();
    for at in 0..BUDGETS.len() {
        for workers in 2..=MOST {
            for meanwhile in [Meanwhile::Wait, Meanwhile::WorkOn] {
                points.extend((0..seeds).map(|seed| (at, workers, meanwhile, seed)));
            }
        }
    }
    points
}

fn scene(at: usize, workers: usize, meanwhile: Meanwhile, rate: f64, seed: u64) -> Scene {
    let (budget, train_s) = BUDGETS[at];
    let nodes: Vec<SceneNode> = vec![worker(1e3 / rate, true); workers];
    Scene {
        seed,
        budget,
        period: budget - 1,
        batch: BATCH,
        update_ms: train_s * 1e3,
        sigma: (0.3, 0.01),
        waits_for_policy: meanwhile == Meanwhile::Wait,
        end: End::Updates(SETTLING as u64 + MEASURED),
        ..quiet(nodes, BROADCAST_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_table_gives_its_workers_and_a_larger_s_needs_fewer() {
        let rate = worker_rate().unwrap();
        let needed: Vec<f64> = BUDGETS.map(|(s, train_s)| required(s, train_s).unwrap() / rate).to_vec();
        assert!((needed[0] - 9.0).abs() < 1e-9, "{needed:?}");
        assert!(needed.is_sorted_by(|a, b| a > b), "{needed:?}");
    }

    #[test]
    fn far_too_few_workers_leave_the_learner_waiting_and_many_do_not() {
        let (workload, rate) = (fleet::workload().unwrap(), worker_rate().unwrap());
        let bubble = |workers| {
            fleet::course(scene(2, workers, Meanwhile::Wait, rate, 1), &workload).unwrap().bubble(SETTLING)
        };
        let (few, many) = (bubble(2), bubble(MOST));
        assert!(few > 0.4 && many < few / 4.0, "{few} {many}");
    }
}
