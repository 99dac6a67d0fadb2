//! Figure 3c of ECHO-2 with real processes: the bubble against the number of workers, for several S.
//!
//! A run for each S begins with too few workers. While the learner waits, what comes in says what one of
//! them brings; equation 2 says from that how many are enough. The same run then gets more workers, level
//! by level.

use super::paced;
use super::simulated::{BUBBLES, Claim, FleetStudy, bubble_claims, claim, of_processes, picture, too_few};
use super::simulated_chart::{Axis, Line, Marker, draw};
use crate::harness::binaries::Binaries;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use echo_learner::telemetry::metrics::UpdateRow;
use echo_protocol::run::staleness::Pipeline;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// S of the figure; κ = S-1.
const BUDGETS: [u64; 4] = [3, 4, 6, 11];
/// B: enough that the spread of order times hardly makes a batch late, and ten workers are needed.
const GROUPS: u64 = 16;
/// T_train, in milliseconds.
const UPDATE_MS: u64 = 1_000;
/// The mean order time of a worker, in milliseconds.
const ORDER_MS: u64 = 520;
/// γ (§4.3).
const GAMMA: f64 = 1.1;
/// Workers at the beginning, which are too few for any S.
const FEWEST: usize = 7;
/// Workers that two cores bear.
const MOST: usize = 16;
/// Updates after a level has begun that are not measured: workers come, and what waits is used up.
const SKIPPED: usize = 5;
/// No run ends by itself.
const WITHOUT_END: u64 = 1_000_000;
/// The bubble at which a threshold is read off, between two levels.
const AT_THRESHOLD: f64 = 0.05;

/// What the run with one S came to.
#[derive(Clone, Debug)]
struct Sweep {
    budget: u64,
    /// Groups a second of one worker.
    rate: f64,
    pipeline: Pipeline,
    /// Workers that bring μ_min.
    needed: f64,
    /// The bubble of each level.
    points: Vec<(usize, f64)>,
}

/// Sweeps the workers for each S. Passes when every claim holds.
///
/// # Errors
/// When something cannot be built, started, read or drawn, or a run stands still.
pub async fn run(study: FleetStudy, console: &Console) -> anyhow::Result<CommandReport> {
    Binaries::fresh(console).await?;
    let scratch = tempfile::tempdir()?;
    let mut sweeps = Vec::new();
    for budget in BUDGETS {
        let sweep = sweep(budget, study.updates, scratch.path()).await?;
        console.say(sweep.line());
        sweeps.push(sweep);
    }
    let lines: Vec<Line> = sweeps.iter().map(Sweep::curve).collect();
    let markers: Vec<Marker> =
        sweeps.iter().enumerate().map(|(line, sweep)| Marker { line, x: sweep.needed }).collect();
    let axes = Axis { x: "workers", y: "bubble", is_logarithmic: false };
    let path = picture(&study.out, "capacity-processes.png")?;
    draw(&path, "The learner's bubble (real processes)", &axes, &lines, &markers)?;
    let rows = sweeps.iter().map(Sweep::row).collect();
    Ok(of_processes("capacity", rows, claims(&sweeps), console))
}

async fn sweep(budget: u64, updates: usize, dir: &Path) -> anyhow::Result<Sweep> {
    let settings = paced::table(WITHOUT_END, GROUPS, budget)?;
    let dir = dir.join(format!("s{budget}"));
    let mut network = paced::start(dir, settings, UPDATE_MS, &[ORDER_MS; FEWEST]).await?;
    let rows = paced::next_rows(&mut network, SKIPPED, updates).await?;
    let mut sweep = Sweep::begin(budget, &rows)?;
    for workers in sweep.levels()? {
        while network.node_count() < workers {
            let number = network.node_count() + 1;
            network.add_node(paced::node(number, ORDER_MS))?;
        }
        let rows = paced::next_rows(&mut network, SKIPPED, updates).await?;
        sweep.points.push((workers, paced::bubble(&rows)));
    }
    network.stop(paced::GRACE).await?;
    Ok(sweep)
}

impl Sweep {
    /// From the updates of the fewest workers, for which the learner has to wait.
    fn begin(budget: u64, rows: &[UpdateRow]) -> anyhow::Result<Self> {
        let bubble = paced::bubble(rows);
        ensure!(
            bubble >= BUBBLES.1,
            "with S = {budget} the learner waits {bubble:.3} of its time for {FEWEST} workers: what one brings is not to be seen"
        );
        let sum = |figure: fn(&UpdateRow) -> f64| rows.iter().map(figure).sum::<f64>();
        let count = rows.len() as f64;
        let rate = count * GROUPS as f64 / sum(|row| row.period_s) / FEWEST as f64;
        // Where no publication was timed yet, what is planned with.
        let broadcast_s = rows.last().and_then(|row| row.capacity.broadcast_s).unwrap_or(paced::BROADCAST_S);
        let pipeline =
            Pipeline { train_s: sum(|row| row.update_s) / count, broadcast_s, batch: GROUPS as f64 };
        let required = pipeline.required_rate(budget - 1).context("no rate is enough")?;
        Ok(Self { budget, rate, pipeline, needed: required / rate, points: vec![(FEWEST, bubble)] })
    }

    /// ⌈γ μ_min/μ⌉
    fn target(&self) -> usize {
        (GAMMA * self.needed).ceil() as usize
    }

    /// Too few, or the fewest that were tried where those are more.
    fn fewer(&self) -> usize {
        too_few(self.target()).max(FEWEST)
    }

    /// The workers that are tried after the fewest.
    fn levels(&self) -> anyhow::Result<BTreeSet<usize>> {
        let target = self.target();
        ensure!(
            (FEWEST + 1..=MOST).contains(&target),
            "{target} workers are needed: this machine is too slow"
        );
        let levels = BTreeSet::from([self.fewer(), self.needed as usize, target]);
        Ok(levels.into_iter().filter(|workers| *workers > FEWEST).collect())
    }

    fn bubble(&self, workers: usize) -> f64 {
        let found = self.points.iter().find(|(level, _)| *level == workers);
        found.map_or(f64::NAN, |(_, bubble)| *bubble)
    }

    /// The workers from which on the learner hardly waits, read off between two levels.
    fn threshold(&self) -> Option<f64> {
        self.points.windows(2).find_map(|pair| {
            let [(fewer, high), (more, low)] = pair else { return None };
            let share = (high - AT_THRESHOLD) / (high - low);
            (*high > AT_THRESHOLD && *low <= AT_THRESHOLD)
                .then(|| *fewer as f64 + share * (more - fewer) as f64)
        })
    }

    fn line(&self) -> String {
        let points: Vec<String> =
            self.points.iter().map(|(workers, bubble)| format!("{workers}: {bubble:.3}")).collect();
        let found = self.threshold().map_or_else(|| "none".to_owned(), |found| format!("{found:.2}"));
        format!(
            "S = {}: {:.2} groups/s a worker, predicted {:.2} workers, with γ {}; found {found}; bubble by workers {}",
            self.budget,
            self.rate,
            self.needed,
            self.target(),
            points.join(", ")
        )
    }

    fn curve(&self) -> Line {
        let points = self.points.iter().map(|(workers, bubble)| (*workers as f64, *bubble)).collect();
        Line { name: format!("S = {}", self.budget), points }
    }

    fn row(&self) -> Value {
        let bubbles: Vec<Value> = self
            .points
            .iter()
            .map(|(workers, bubble)| json!({"workers": workers, "bubble": bubble}))
            .collect();
        json!({
            "s": self.budget, "worker_rate": self.rate, "train_s": self.pipeline.train_s,
            "broadcast_s": self.pipeline.broadcast_s, "predicted_workers": self.needed,
            "target_workers": self.target(), "found_workers": self.threshold(), "bubbles": bubbles,
        })
    }
}

fn claims(sweeps: &[Sweep]) -> Vec<Claim> {
    let enough: Vec<f64> = sweeps.iter().map(|sweep| sweep.bubble(sweep.target())).collect();
    let scarce: Vec<f64> = sweeps.iter().map(|sweep| sweep.bubble(sweep.fewer())).collect();
    let found: Vec<Option<f64>> = sweeps.iter().map(Sweep::threshold).collect();
    let moves = found.first().copied().flatten().zip(found.last().copied().flatten());
    let mut claims = bubble_claims(&enough, &scarce).to_vec();
    claims.push(claim(
        "the largest S takes fewer workers than the smallest",
        moves.is_some_and(|(smallest, largest)| largest < smallest),
        json!({"workers": found}),
    ));
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_learner::fleet::capacity::CapacityReport;

    /// Updates of a second each with so much waiting, for 7 workers.
    fn rows(waited_s: f64) -> Vec<UpdateRow> {
        let row = UpdateRow {
            waited_s,
            period_s: 1.0 + waited_s,
            update_s: 1.0,
            capacity: CapacityReport { broadcast_s: Some(0.1), ..CapacityReport::default() },
            ..UpdateRow::default()
        };
        vec![row; 4]
    }

    #[test]
    fn what_a_worker_brings_says_how_many_are_enough() {
        // 16 groups in 1.28 s are 12.5 a second, of seven workers.
        let sweep = Sweep::begin(3, &rows(0.28)).unwrap();
        assert!((sweep.rate - 12.5 / 7.0).abs() < 1e-9);
        assert!((sweep.needed - 2.0 * 16.0 / 1.9 / sweep.rate).abs() < 1e-9, "{sweep:?}");
        assert_eq!((sweep.fewer(), sweep.target()), (8, 11));
        assert_eq!(sweep.levels().unwrap(), BTreeSet::from([8, 9, 11]));
        assert!(Sweep::begin(3, &rows(0.01)).is_err(), "the learner does not wait");
    }

    #[test]
    fn thresholds_lie_between_levels_and_every_claim_can_fail() {
        let sweep = |budget, between, enough| {
            let begun = Sweep::begin(budget, &rows(0.28)).unwrap();
            Sweep { points: vec![(7, 0.21), (8, 0.12), (9, between), (begun.target(), enough)], ..begun }
        };
        let judged = |sweeps: &[Sweep]| claims(sweeps).iter().map(|(_, holds, _)| *holds).collect::<Vec<_>>();
        let (small, large) = (sweep(3, 0.04, 0.005), sweep(11, 0.01, 0.0));
        assert!((small.threshold().unwrap() - (8.0 + 0.07 / 0.08)).abs() < 1e-9);
        assert_eq!(judged(&[small.clone(), large.clone()]), [true, true, true]);
        assert_eq!(judged(&[large, small.clone()]), [true, true, false]);
        assert_eq!(judged(&[small.clone(), sweep(11, 0.01, 0.02)]), [false, true, true]);
        let none = Sweep { points: vec![(7, 0.02), (8, 0.02), (9, 0.01), (11, 0.0)], ..small.clone() };
        assert_eq!(judged(&[small, none]), [true, false, false]);
    }
}
