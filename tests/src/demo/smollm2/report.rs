//! What a run of a published model came to, and whether it did what it is there to show.

use super::evaluation::{Average, HeldOut, SAMPLES};
use super::run_file::{RunSize, STALENESS_BUDGET, TEMPERATURE};
use super::samples::Samples;
use crate::demo::Demo;
use crate::output::console::{CommandReport, Console};
use echo_learner::publishing::snapshots::PublicationRow;
use echo_learner::telemetry::metrics::UpdateRow;
use echo_learner::telemetry::summary::RunSummary;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What avg@4 has to rise by: on sums, and on word problems.
const LEAST_GAINS: [f64; 2] = [0.30, 0.10];
/// Largest mean gap of log-probs at lag 0, in nats: only kernels differ there.
const MOST_GAP: f64 = 0.005;
/// Updates whose batches stand for the end of the run.
const LAST: usize = 8;

/// Everything that was found.
pub(super) struct Outcome<'a> {
    pub(super) demo: &'a Demo,
    pub(super) size: RunSize,
    pub(super) summary: RunSummary,
    /// Trajectories that volunteers were told were accepted, less what killed ones could not write down.
    pub(super) accepted_by_nodes: u64,
    pub(super) before: HeldOut,
    pub(super) after: HeldOut,
    pub(super) updates: Vec<UpdateRow>,
    pub(super) publications: Vec<PublicationRow>,
    pub(super) samples: Samples,
    /// Peaks in megabytes.
    pub(super) memory: BTreeMap<String, u64>,
    pub(super) wall_s: f64,
    /// Rows and pairs that training has in common with sums, and with word problems.
    pub(super) common: [(usize, usize); 2],
}

/// A share with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share {
    mean: f64,
    half: f64,
}

impl Share {
    /// The mean of several values, which are taken to be independent.
    fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (values.len() > 1).then(|| Self { mean, half: 1.96 * (variance / count).sqrt() })
    }

    /// Of so many answers that are right or wrong.
    fn of_answers(mean: f64, count: u64) -> Option<Self> {
        (count > 0).then(|| Self { mean, half: 1.96 * (mean * (1.0 - mean) / count as f64).sqrt() })
    }

    fn agrees(&self, other: &Self) -> bool {
        (self.mean - other.mean).abs() <= self.half + other.half
    }
}

impl Outcome<'_> {
    /// All figures, with the claims that they decide.
    pub(super) fn report(&self) -> anyhow::Result<CommandReport> {
        let claims = self.claims();
        let passed = claims.iter().all(|(_, holds)| *holds);
        let claims: Vec<Value> =
            claims.into_iter().map(|(claim, holds)| json!({"claim": claim, "holds": holds})).collect();
        let mut json = serde_json::to_value(&self.summary)?;
        for part in [self.accuracies(), self.costs(), self.curve()] {
            if let (Value::Object(all), Value::Object(part)) = (&mut json, part) {
                all.extend(part);
            }
        }
        json["passed"] = json!(passed);
        json["claims"] = json!(claims);
        Ok(CommandReport { passed, json })
    }

    fn claims(&self) -> Vec<(String, bool)> {
        let s = &self.summary;
        let lost = s.acknowledged != s.trained + s.dropped.values().sum::<u64>();
        let mut claims = vec![
            (format!("all {} updates were made", self.demo.updates), s.updates == self.demo.updates),
            (
                "training and evaluation have no row and no pair of operands in common".to_owned(),
                self.common == [(0, 0); 2],
            ),
            (
                format!("nothing older than {STALENESS_BUDGET} updates was trained on"),
                s.max_staleness <= STALENESS_BUDGET,
            ),
            (
                "nothing that was acknowledged is lost".to_owned(),
                !lost && self.accepted_by_nodes <= s.acknowledged,
            ),
            (
                format!("at lag 0 the policy's log-probs are the nodes' within {MOST_GAP} nats"),
                self.gap_holds(),
            ),
        ];
        if self.size.judged {
            let [sums, words] = LEAST_GAINS;
            let rises = |what: &str, least: f64| {
                format!("avg@{SAMPLES} on {what} rises by {least} or more, intervals apart")
            };
            claims.push((rises("sums", sums), self.after.sums.is_above(&self.before.sums, sums)));
            claims
                .push((rises("word problems", words), self.after.words.is_above(&self.before.words, words)));
            claims.push((
                "held-out accuracy is the reward of fresh batches, within their intervals".to_owned(),
                self.held_out_agrees(),
            ));
        }
        claims
    }

    fn gap_holds(&self) -> bool {
        self.samples.gap <= MOST_GAP && self.gap_at_lag_0().is_none_or(|gap| gap <= MOST_GAP)
    }

    /// Of the last update whose batch was all of the newest policy; the first update aside.
    fn gap_at_lag_0(&self) -> Option<f64> {
        let fresh = self.updates.iter().skip(1).filter(|row| row.lag_max == 0);
        fresh.filter_map(|row| row.logp_gap.as_ref()).next_back().map(|gap| gap.mean)
    }

    fn last(&self) -> &[UpdateRow] {
        &self.updates[self.updates.len().saturating_sub(LAST)..]
    }

    /// Rewards of the last batches, and accuracy on held-out orders at the same sampling settings.
    fn fresh_and_held_out(&self) -> [Option<Share>; 2] {
        let rewards: Vec<f64> = self.last().iter().map(|row| row.reward).collect();
        let held_out = self.summary.accuracy_after;
        [
            Share::of(&rewards),
            held_out.and_then(|mean| Share::of_answers(mean, self.summary.evaluation_orders)),
        ]
    }

    fn held_out_agrees(&self) -> bool {
        matches!(self.fresh_and_held_out(), [Some(fresh), Some(held_out)] if fresh.agrees(&held_out))
    }

    fn accuracies(&self) -> Value {
        let interval = |average: &Average| [average.low, average.high];
        let [fresh, held_out] = self.fresh_and_held_out();
        let (before, after) = (&self.before, &self.after);
        json!({
            "avg4_before": before.sums.avg,
            "avg4_before_interval": interval(&before.sums),
            "avg4_after": after.sums.avg,
            "avg4_after_interval": interval(&after.sums),
            "word_avg4_before": before.words.avg,
            "word_avg4_before_interval": interval(&before.words),
            "word_avg4_after": after.words.avg,
            "word_avg4_after_interval": interval(&after.words),
            "temperature": TEMPERATURE,
            "reward_last": fresh.map(|share| share.mean),
            "reward_last_half": fresh.map(|share| share.half),
            "accuracy_after_half": held_out.map(|share| share.half),
            "common_rows": self.common.iter().map(|(rows, _)| rows).sum::<usize>(),
            "common_pairs": self.common.iter().map(|(_, pairs)| pairs).sum::<usize>(),
            "samples": self.samples.samples,
        })
    }

    fn costs(&self) -> Value {
        // The first publication has no version before it.
        let deltas: Vec<u64> =
            self.publications.iter().map(|row| row.delta_bytes).filter(|bytes| *bytes > 0).collect();
        let mean = (!deltas.is_empty()).then(|| deltas.iter().sum::<u64>() / deltas.len() as u64);
        json!({
            "wall_s": self.wall_s,
            "update_s": mean_of(&self.updates, |row| Some(row.update_s)),
            "staleness_budget": STALENESS_BUDGET,
            "nodes": self.demo.nodes,
            "groups_per_update": self.size.groups,
            "memory_mb": self.memory,
            "publication_bytes": mean,
            "publication_bytes_largest": deltas.iter().max(),
            "snapshot_bytes": self.publications.last().map(|row| row.full_bytes),
            "publications": self.publications.len(),
            "accepted_by_nodes": self.accepted_by_nodes,
            "dir": self.demo.dir,
        })
    }

    fn curve(&self) -> Value {
        let gap = |row: &UpdateRow| row.logp_gap.as_ref().map(|gap| gap.mean);
        let rows = self.updates.iter().map(|row| {
            json!({
                "update": row.update, "reward": row.reward, "tokens": row.response_tokens, "cut": row.cut_off,
                "no_signal": row.degenerate_groups, "logp_gap": gap(row), "lag": row.lag_mean, "entropy": row.entropy,
            })
        });
        json!({
            "logp_gap": mean_of(self.last(), gap),
            "logp_gap_lag_0": self.samples.gap,
            "logp_gap_lag_0_in_training": self.gap_at_lag_0(),
            "curve": rows.collect::<Vec<_>>(),
        })
    }

    /// Says the outcome in a few lines, with what the policy wrote before and after.
    pub(super) fn tell(&self, console: &Console, report: &CommandReport) {
        for sample in &self.samples.samples {
            console.say(format!("asked        {:?}", sample.prompt.trim_end()));
            for (when, responses) in [("before", &sample.before), ("after ", &sample.after)] {
                for response in responses {
                    console.say(format!("  {when}     {:.0}  {:?}", response.reward, response.text));
                }
            }
        }
        let both =
            [("sums", &self.before.sums, &self.after.sums), ("words", &self.before.words, &self.after.words)];
        for (what, before, after) in both {
            let text =
                |average: &Average| format!("{:.3} ({:.3} to {:.3})", average.avg, average.low, average.high);
            console.say(format!("avg@{SAMPLES} {what:<6} {} → {}", text(before), text(after)));
        }
        let s = &self.summary;
        console.say(format!("staleness    at most {} of {STALENESS_BUDGET} updates", s.max_staleness));
        console.say(format!(
            "time         {:.0} s, {:.0} % of it waiting",
            self.wall_s,
            s.bubble_ratio * 100.0
        ));
        console.say(format!("memory, MB   {}", report.json["memory_mb"]));
        console.say(format!("publication  {} bytes", report.json["publication_bytes"]));
        for claim in report.json["claims"].as_array().into_iter().flatten() {
            let verdict = if claim["holds"] == true { "holds " } else { "MISSED" };
            console.say(format!("{verdict}       {}", claim["claim"].as_str().unwrap_or_default()));
        }
    }
}

/// The mean over the rows that have the value.
fn mean_of(rows: &[UpdateRow], value: impl Fn(&UpdateRow) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = rows.iter().filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests;
