//! A plan as a table for people, and as JSON.

use super::forecast::{Course, Forecast, Obstacle, PlanInputs};
use crate::founding::room::bytes;
use serde::Serialize;
use serde_json::json;
use std::fmt::Write as _;

/// Bytes that do not depend on S.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct PlanSizes {
    /// Memory and disk of the learner.
    pub(super) learner_memory: u64,
    pub(super) learner_disk: u64,
    /// Memory of a node that generates.
    pub(super) node_memory: u64,
    /// A publication in full, and as deltas.
    pub(super) publication: u64,
    pub(super) deltas: u64,
}

/// All that a plan comes to.
#[derive(Clone, Debug)]
pub(super) struct PlanReport {
    pub(super) inputs: PlanInputs,
    pub(super) sizes: PlanSizes,
    pub(super) forecasts: Vec<Forecast>,
    /// The cheapest S that is safe.
    pub(super) cheapest: Option<u64>,
    pub(super) advice: Vec<String>,
    /// What was assumed.
    pub(super) notes: Vec<String>,
}

impl PlanReport {
    /// One line.
    pub(super) fn json(&self) -> String {
        let Self { inputs, sizes, forecasts, cheapest, advice, notes } = self;
        let found = json!({
            "passed": cheapest.is_some(), "cheapest": cheapest, "train_s": inputs.train_s, "batch": inputs.batch,
            "updates": inputs.updates, "gamma": inputs.gamma, "learner_price": inputs.learner_price,
            "uplink": inputs.uplink, "classes": inputs.classes, "sizes": sizes, "budgets": forecasts,
            "advice": advice, "assumed": notes,
        });
        format!("{found}\n")
    }

    /// The table, the cheapest budget, and what to change.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a text does not fail.
        let _ = self.head(&mut text);
        let _ = writeln!(
            text,
            "\n{:>2} {:>2} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>11} {:>11}",
            "S",
            "κ",
            "T_bcast",
            "in full",
            "μ_min",
            "μ_target",
            "μ_pool",
            "nodes",
            "lag",
            "$/update",
            "$ of all"
        );
        for forecast in &self.forecasts {
            let _ = row(&mut text, forecast);
        }
        let best = self.forecasts.iter().find(|forecast| Some(forecast.budget) == self.cheapest);
        let _ = match best {
            Some(best) => closing(&mut text, best),
            None => writeln!(text, "\nNo S from 1 to 12 is safe with these nodes. What to change:"),
        };
        for advice in &self.advice {
            let _ = writeln!(text, "- {advice}");
        }
        for note in &self.notes {
            let _ = writeln!(text, "assumed: {note}");
        }
        text
    }

    fn head(&self, text: &mut String) -> std::fmt::Result {
        let Self { inputs, sizes, .. } = self;
        writeln!(
            text,
            "T_train {:.2} s, R = {} trajectories, {} updates, γ = {}",
            inputs.train_s, inputs.batch, inputs.updates, inputs.gamma
        )?;
        writeln!(
            text,
            "a publication has {}, and {} as deltas; the learner sends {}",
            bytes(sizes.publication),
            bytes(sizes.deltas),
            inputs.uplink
        )?;
        writeln!(
            text,
            "memory: about {} for the learner on the CPU, about {} for a node; disk of the learner: {}",
            bytes(sizes.learner_memory),
            bytes(sizes.node_memory),
            bytes(sizes.learner_disk)
        )?;
        for class in &inputs.classes {
            writeln!(
                text,
                "up to {} {}: μ = {:.4} rollouts/s, {} $/h, an order {:.1} s, up {}, down {}",
                class.count, class.name, class.rate, class.price, class.order_s, class.up, class.down
            )?;
        }
        Ok(())
    }
}

fn row(text: &mut String, forecast: &Forecast) -> std::fmt::Result {
    let Forecast { budget, period, deltas, full } = forecast;
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.4}"));
    let lag = |lag: Option<u64>| lag.map_or_else(|| "-".to_owned(), |lag| lag.to_string());
    let nodes: u64 = deltas.nodes.iter().map(|chosen| chosen.nodes).sum();
    write!(
        text,
        "{budget:>2} {period:>2} {:>9} {:>9} {:>9} {:>9} {:>9} {nodes:>7} {:>7} {:>11} {:>11}",
        format!("{:.1}", deltas.broadcast_s),
        format!("{:.1}", full.broadcast_s),
        rate(deltas.required),
        rate(deltas.target),
        rate(Some(deltas.pool)),
        format!("{}/{}", lag(deltas.lag), lag(deltas.lag_overlapping)),
        format!("{:.4}", deltas.usd_per_update),
        format!("{:.2}", deltas.usd),
    )?;
    writeln!(text, "  {}", verdict(*budget, deltas))
}

fn verdict(budget: u64, course: &Course) -> String {
    match &course.obstacle {
        None => "safe".to_owned(),
        Some(Obstacle::Period) => format!("κ is above {}", budget + 1),
        Some(Obstacle::Broadcast) => "the broadcast is too long".to_owned(),
        Some(Obstacle::Pool { missing }) => format!("{missing:.4} rollouts/s are missing"),
        Some(Obstacle::Lag { .. }) => "the lag is above S".to_owned(),
    }
}

fn closing(text: &mut String, best: &Forecast) -> std::fmt::Result {
    let Forecast { budget, deltas, full, .. } = best;
    writeln!(text, "\nS = {budget} is the cheapest that is safe ([staleness] budget = {budget}).")?;
    let nodes: Vec<String> =
        deltas.nodes.iter().map(|chosen| format!("{} {}", chosen.nodes, chosen.class)).collect();
    writeln!(
        text,
        "nodes: {}; with the learner {:.2} $ an hour, {:.4} $ an update, {:.2} $ in all",
        nodes.join(", "),
        deltas.usd_per_hour,
        deltas.usd_per_update,
        deltas.usd
    )?;
    for (form, course) in [("with deltas", deltas), ("in full", full)] {
        let traffic = course.traffic;
        writeln!(
            text,
            "GB a day, {form}: the learner sends {:.2} and receives {:.2}, a node sends {:.2} and receives {:.2}",
            traffic.learner_up_gb, traffic.learner_down_gb, traffic.node_up_gb, traffic.node_down_gb
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::forecast::cheapest;
    use super::super::testing;
    use super::*;

    fn report(count: u64) -> PlanReport {
        let inputs = testing::inputs(testing::rented(count));
        let forecasts = inputs.forecasts();
        PlanReport {
            cheapest: cheapest(&forecasts).map(|forecast| forecast.budget),
            inputs,
            sizes: PlanSizes {
                learner_memory: 2_000_000_000,
                learner_disk: 5_000_000_000,
                node_memory: 1_000_000_000,
                publication: 250_000_000,
                deltas: 25_000_000,
            },
            forecasts,
            advice: vec!["do this".into()],
            notes: vec!["that".into()],
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_budget_and_a_closing() {
        let text = report(50).text();
        let parts = [
            "T_train 10.00 s, R = 64",
            "250.0 MB, and 25.0 MB as deltas",
            "up to 50 rented: μ = 1.0000",
            "S = 3 is the cheapest",
            "nodes: 8 rented; with the learner 5.00 $ an hour, 0.0139 $ an update, 5.00 $ in all",
            "with deltas: the learner sends 108.00 and receives 0.55",
            "- do this",
            "assumed: that",
        ];
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.lines().filter(|line| line.ends_with("  safe")).count(), 12, "{text}");
        assert!(report(2).text().contains("What to change"));
    }

    #[test]
    fn the_json_has_every_budget_and_whether_one_is_safe() {
        let json: serde_json::Value = serde_json::from_str(&report(50).json()).unwrap();
        assert_eq!((json["passed"].as_bool(), json["cheapest"].as_u64()), (Some(true), Some(3)));
        assert_eq!(json["budgets"][2]["deltas"]["nodes"][0]["nodes"], 8);
        assert_eq!(json["budgets"][2]["full"]["obstacle"]["problem"], "broadcast");
        let none: serde_json::Value = serde_json::from_str(&report(2).json()).unwrap();
        assert_eq!(none["passed"], false);
    }
}
