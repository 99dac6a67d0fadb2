//! What a run came to: `summary.json`, derived from the metrics and the account of trajectories.

use crate::intake::buffer::Totals;
use crate::telemetry::metrics;
use crate::telemetry::metrics::UpdateRow;
use crate::training::evaluation::EvaluationRow;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The figures of a whole run, over all processes that worked on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Updates made, over all processes of the run.
    pub updates: u64,
    /// Held-out accuracy of the starting policy; none where no order could be judged.
    pub accuracy_before: Option<f64>,
    /// Held-out accuracy of the final policy; none where no order could be judged.
    pub accuracy_after: Option<f64>,
    /// Held-out orders in each evaluation.
    pub evaluation_orders: u64,
    /// Largest lag of any token that was trained on, in updates.
    pub max_staleness: u64,
    /// Lag in updates → tokens trained on.
    pub staleness: BTreeMap<u64, u64>,
    /// Trajectories of groups that were accepted.
    pub trajectories_accepted: u64,
    /// Trajectories refused, by reason.
    pub trajectories_rejected: BTreeMap<String, u64>,
    /// Trajectories acknowledged to nodes.
    pub acknowledged: u64,
    /// Trajectories that were trained on, those without a settled checkpoint included.
    pub trained: u64,
    /// Trajectories acknowledged and not trained on, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// T_bcast in milliseconds, of the last process.
    pub t_bcast_ms: Percentiles,
    /// Share of the learner's time that it waited for rollouts: of all updates' periods, which
    /// checkpoints, publications and evaluations belong to.
    pub bubble_ratio: f64,
    /// Updates a second, while it learned.
    pub updates_per_s: f64,
    /// Hours of nodes that were active or on standby.
    #[serde(default)]
    pub node_hours: f64,
    /// Dollars that nodes and learner cost, by the prices that are known.
    #[serde(default)]
    pub usd: f64,
    /// Dollars an update.
    #[serde(default)]
    pub usd_per_update: f64,
}

/// The middle and the slow end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median; `None` where nothing was measured.
    pub p50: Option<u64>,
    /// 95th percentile, by the same measurements.
    pub p95: Option<u64>,
}

impl RunSummary {
    /// Sums a run up from its metrics, the buffer's account, and the groups refused by reason.
    pub fn of(
        metrics: &Path,
        totals: &Totals,
        refused: &BTreeMap<String, u64>,
        group_size: u32,
    ) -> io::Result<Self> {
        let evaluations = metrics::evaluations(metrics)?;
        let accuracy = |row: Option<&EvaluationRow>| row.and_then(|row| row.held_out_accuracy);
        let (mut staleness, mut newest) = (BTreeMap::new(), UpdateRow::default());
        let (mut updates, mut waited, mut learning) = (0_u64, 0.0, 0.0);
        metrics::each_row(metrics, |row: UpdateRow| {
            for (lag, tokens) in &row.staleness {
                *staleness.entry(*lag).or_default() += tokens;
            }
            updates += 1;
            waited += row.waited_s;
            // Rows of older learners have no period.
            learning += row.period_s.max(row.waited_s + row.update_s);
            newest = row;
        })?;
        let rate = |value: f64| if learning > 0.0 { value / learning } else { 0.0 };
        let [p50, p95] = newest.t_bcast_ms;
        let trajectories = |groups: &u64| groups * u64::from(group_size);
        let dropped =
            totals.dropped.iter().map(|(reason, count)| (reason.name().to_owned(), count.trajectories));
        Ok(Self {
            updates: newest.update,
            accuracy_before: accuracy(evaluations.first()),
            accuracy_after: accuracy(evaluations.last()),
            evaluation_orders: evaluations.last().map_or(0, |row| row.orders),
            max_staleness: staleness.keys().max().copied().unwrap_or(0),
            staleness,
            trajectories_accepted: totals.acknowledged.trajectories,
            trajectories_rejected: refused
                .iter()
                .map(|(reason, groups)| (reason.clone(), trajectories(groups)))
                .collect(),
            acknowledged: totals.acknowledged.trajectories,
            // Of a run that is over all batches are, whether or not they are kept to fall back on.
            trained: totals.trained.trajectories + totals.batched.trajectories,
            dropped: dropped.collect(),
            t_bcast_ms: Percentiles { p50, p95 },
            bubble_ratio: rate(waited),
            updates_per_s: rate(updates as f64),
            node_hours: newest.capacity.node_hours,
            usd: newest.capacity.usd,
            usd_per_update: newest.capacity.usd / newest.update.max(1) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The page that describes the file.
    const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/metrics.md"));

    #[test]
    fn the_reference_has_every_key_of_the_summary_and_no_other() {
        let section = PAGE.split("## summary.json").nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows: Vec<&str> =
            section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let json = serde_json::to_value(RunSummary::default()).unwrap();
        let keys: BTreeSet<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(rows.iter().copied().collect::<BTreeSet<&str>>(), keys);
        assert_eq!(rows.len(), keys.len(), "a key is there twice");
    }
}
