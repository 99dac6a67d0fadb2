//! Tables 1 and 6 of ECHO-2: prices times hours, and what the learner's own ledger makes of the same hours.
//!
//! The paper names prices, machines and total costs of its runs, and not their hours. The hours of the 32B
//! runs follow from one total, and have to give the other one.

use super::simulated::{claim, picture, report};
use super::simulated_capacity::{required, worker_rate};
use super::simulated_chart::{Axis, Line, draw};
use crate::output::console::{CommandReport, Console};
use clap::Args;
use echo_learner::fleet::capacity::{Activation, Beat, Capacity, CapacityConfig, Prices};
use echo_protocol::control::heartbeat::Offer;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Dollars an hour of a card (table 1; of an H100, appendix E.3).
pub(super) const A100: f64 = 3.06;
pub(super) const RTX5090: f64 = 0.35;
const H100: f64 = 2.90;
/// Seconds of an hour.
pub(super) const HOUR_S: f64 = 3_600.0;
/// Steps of the 32B runs, and of a line of the picture (table 6).
const STEPS: f64 = 100.0;
/// Training cards of both 32B runs, and the rollout cards of each (table 6).
const TRAINING_32B: f64 = 8.0;
const PRIME_ROLLOUT: f64 = 10.0;
const ECHO_ROLLOUT: u8 = 76;
/// Total dollars of each (table 6).
const PRIME_USD: f64 = 1_914.0;
const ECHO_USD: f64 = 1_826.0;
/// How much less ECHO-2 costs than centralized 8B runs, by the paper (§5.2): from and to.
const REDUCTION_8B: (f64, f64) = (0.333, 0.363);
/// So far outside of that a reduction by prices and hours alone may be: the paper compares at equal accuracy.
const TOLERANCE_8B: f64 = 0.02;

/// Where the study of costs leaves its picture.
#[derive(Args, Clone, Debug)]
pub struct CostStudy {
    /// Where the picture goes.
    #[arg(long, value_name = "DIR", default_value = "runs/studies")]
    pub out: PathBuf,
}

/// A run: what its machines cost an hour, and seconds of a step.
struct CostCase {
    name: &'static str,
    usd_per_hour: f64,
    step_s: f64,
    /// What the paper says of it, in dollars for all steps.
    paper_usd: Option<f64>,
}

impl CostCase {
    fn usd_per_step(&self) -> f64 {
        self.usd_per_hour * self.step_s / HOUR_S
    }

    fn usd(&self) -> f64 {
        STEPS * self.usd_per_step()
    }
}

/// Works out every run. Passes when every claim holds.
///
/// # Errors
/// When the picture cannot be drawn.
pub fn run(study: &CostStudy, console: &Console) -> anyhow::Result<CommandReport> {
    let cases = cases()?;
    let mut rows = Vec::new();
    for case in &cases {
        let (step, all) = (case.usd_per_step(), case.usd());
        console.say(format!(
            "{}: {:.2} $ an hour, {:.1} s a step: {step:.4} $ a step, {all:.2} $ for {STEPS} steps",
            case.name, case.usd_per_hour, case.step_s
        ));
        rows.push(json!({
            "run": case.name, "usd_per_hour": case.usd_per_hour, "step_s": case.step_s, "usd_per_step": step, "usd": all,
            "paper_usd": case.paper_usd,
        }));
    }
    let lines: Vec<Line> = cases
        .iter()
        .map(|case| Line { name: case.name.to_owned(), points: vec![(0.0, 0.0), (STEPS, case.usd())] })
        .collect();
    let axes = Axis { x: "steps", y: "dollars", is_logarithmic: false };
    draw(&picture(&study.out, "cost.png")?, "Prices times hours", &axes, &lines, &[])?;
    Ok(report("cost", rows, claims(&cases), console))
}

/// Those of §5.2 with an 8B policy, then those of table 6 with one of 32B.
fn cases() -> anyhow::Result<[CostCase; 6]> {
    let case = |name, usd_per_hour, step_s| CostCase { name, usd_per_hour, step_s, paper_usd: None };
    let learner = 4.0 * A100;
    // Workers of S = 3 are those of table 2; those of S = 4 follow from equation 2.
    let (of_three, of_four) = (9.0, (required(4, 1649.3)? / worker_rate()?).ceil());
    let prime_per_hour = (TRAINING_32B + PRIME_ROLLOUT) * H100;
    let echo_per_hour = TRAINING_32B * H100 + f64::from(ECHO_ROLLOUT) * RTX5090;
    let step_s = PRIME_USD / prime_per_hour * HOUR_S / STEPS;
    Ok([
        case("8B, veRL, synchronous", 8.0 * A100, 1508.2),
        case("8B, veRL, asynchronous", 8.0 * A100, 1582.3),
        case("8B, ECHO-2, S = 3", learner + of_three * RTX5090, 1631.2),
        case("8B, ECHO-2, S = 4", learner + of_four * RTX5090, 1649.3),
        CostCase { paper_usd: Some(PRIME_USD), ..case("32B, Prime-RL", prime_per_hour, step_s) },
        CostCase { paper_usd: Some(ECHO_USD), ..case("32B, ECHO-2", echo_per_hour, step_s) },
    ])
}

fn claims(cases: &[CostCase; 6]) -> Vec<(&'static str, bool, Value)> {
    let [synchronous, asynchronous, three, four, prime, echo] = cases;
    let less = |case: &CostCase, than: &CostCase| 1.0 - case.usd() / than.usd();
    let counted = by_the_ledger(echo.step_s * STEPS / 60.0);
    let reductions = [
        less(three, synchronous),
        less(three, asynchronous),
        less(four, synchronous),
        less(four, asynchronous),
    ];
    let (low, high) = REDUCTION_8B;
    vec![
        claim(
            "the hours of Prime-RL's total give ECHO-2's total to the cent",
            (echo.usd() - ECHO_USD).abs() < 0.005,
            json!({"hours": echo.step_s * STEPS / HOUR_S, "usd": echo.usd()}),
        ),
        claim(
            "that is 4.6 % less",
            (less(echo, prime) - 0.046).abs() < 0.0005,
            json!({"reduction": less(echo, prime)}),
        ),
        claim(
            "the learner's ledger counts the same to the cent",
            (counted - echo.usd()).abs() < 0.005,
            json!({"usd": counted}),
        ),
        claim(
            "8B runs cost a third less than centralized ones, within two points of the paper's range",
            reductions.iter().all(|less| (low - TOLERANCE_8B..=high + TOLERANCE_8B).contains(less)),
            json!({"reductions": reductions}),
        ),
    ]
}

/// Dollars that [`Capacity`] counts for the machines of ECHO-2's 32B run in so many minutes.
fn by_the_ledger(minutes: f64) -> f64 {
    let config = CapacityConfig {
        activation: Activation::All,
        gamma: 1.1,
        batch: 1,
        period: None,
        prices: Prices::new([("rtx5090".to_owned(), RTX5090)]),
        learner_price: TRAINING_32B * H100,
    };
    let mut capacity = Capacity::new(config, UnixMillis(0));
    let offer = Offer { label: Some("rtx5090".to_owned()), ..Offer::default() };
    let beat = Beat { offer, ..Beat::default() };
    for minute in 0..=minutes.round() as u64 {
        let now = UnixMillis(60_000 * minute);
        for node in 0..ECHO_ROLLOUT {
            capacity.heard(now, PublicKey::from_bytes([node; 32]), beat.clone());
        }
        capacity.tick(now);
    }
    capacity.report().usd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_arithmetic_comes_out_to_the_cent() {
        let dir = tempfile::tempdir().unwrap();
        let found = run(&CostStudy { out: dir.path().to_owned() }, &Console::new(true)).unwrap();
        assert!(found.passed, "{}", found.json);
        assert!(dir.path().join("cost.png").exists());
        let of = |run: &str, key: &str| {
            let rows = found.json["results"].as_array().unwrap();
            rows.iter().find(|row| row["run"] == run).unwrap()[key].as_f64().unwrap()
        };
        // 8 · 2.90 + 76 · 0.35 = 49.80 dollars an hour, for 1914/52.20 = 36.667 hours.
        assert!((of("32B, ECHO-2", "usd_per_hour") - 49.8).abs() < 1e-9);
        assert!((of("32B, ECHO-2", "usd") - 1_826.0).abs() < 0.005);
        assert!((of("32B, Prime-RL", "step_s") - 1_320.0).abs() < 1e-6);
        // 24.48 · 1508.2/3600.
        assert!((of("8B, veRL, synchronous", "usd_per_step") - 10.255_76).abs() < 1e-6);
    }
}
