//! Whether a demo did what it is there to show.

use super::{Demo, STALENESS_BUDGET, UPDATES};
use crate::output::console::{CommandReport, Console};
use echo_learner::telemetry::summary::RunSummary;
use serde_json::{Value, json};

/// The starting policy may answer at most this share of the held-out orders: more would
/// leave nothing to learn.
const MOST_BEFORE: f64 = 0.45;
/// What has to be reached by an undisturbed run of full length, and by one with kills.
const LEAST_AFTER: [f64; 2] = [0.70, 0.65];

/// Judges a run that took `wall_s` seconds. Shorter runs than a whole demo are not held to its accuracy.
///
/// `accepted_by_nodes` is what the volunteers were told was accepted (less what killed ones could
/// not write down): the learner's own account may not fall below it.
pub(super) fn judge(
    demo: &Demo,
    summary: &RunSummary,
    accepted_by_nodes: u64,
    wall_s: f64,
) -> anyhow::Result<CommandReport> {
    let disturbed = demo.faults.nodes > 0 || demo.faults.learner;
    let least = LEAST_AFTER[usize::from(disturbed)];
    let whole = demo.updates >= UPDATES;
    let accounted = summary.trained + summary.dropped.values().sum::<u64>();
    let checks = [
        ("accuracy_before", summary.accuracy_before.is_some_and(|before| before <= MOST_BEFORE)),
        ("accuracy_after", !whole || summary.accuracy_after.is_some_and(|after| after >= least)),
        ("max_staleness", summary.max_staleness <= STALENESS_BUDGET),
        ("acknowledged", summary.acknowledged == accounted),
        ("accepted_by_nodes", accepted_by_nodes <= summary.acknowledged),
        ("updates", summary.updates == demo.updates),
    ];
    let missed: Vec<&str> = checks.iter().filter(|(_, holds)| !holds).map(|(name, _)| *name).collect();
    let mut json = serde_json::to_value(summary)?;
    if let Value::Object(fields) = &mut json {
        fields.insert("staleness_budget".into(), json!(STALENESS_BUDGET));
        fields.insert("wall_s".into(), json!(wall_s));
        fields.insert("accepted_by_nodes".into(), json!(accepted_by_nodes));
        fields.insert("nodes".into(), json!(demo.nodes));
        fields.insert("killed_nodes".into(), json!(demo.faults.nodes));
        fields.insert("killed_learner".into(), json!(demo.faults.learner));
        fields.insert("dir".into(), json!(demo.dir));
        fields.insert("missed".into(), json!(missed));
    }
    Ok(CommandReport { passed: missed.is_empty(), json })
}

/// Says the outcome in a few lines.
pub(super) fn tell(console: &Console, summary: &RunSummary, report: &CommandReport) {
    let s = summary;
    console.say(format!(
        "accuracy     {:.3} → {:.3} ({} held-out orders)",
        s.accuracy_before.unwrap_or(f64::NAN),
        s.accuracy_after.unwrap_or(f64::NAN),
        s.evaluation_orders
    ));
    console.say(format!("staleness    at most {} of {STALENESS_BUDGET} updates", s.max_staleness));
    console.say(format!(
        "trajectories {} acknowledged = {} trained + {:?} dropped",
        s.acknowledged, s.trained, s.dropped
    ));
    console.say(format!(
        "learner      {:.2} updates/s, {:.0} % of its time waiting",
        s.updates_per_s,
        s.bubble_ratio * 100.0
    ));
    let ms = |value: Option<u64>| value.map_or("-".to_owned(), |ms| ms.to_string());
    console.say(format!("T_bcast      p50 {} ms, p95 {} ms", ms(s.t_bcast_ms.p50), ms(s.t_bcast_ms.p95)));
    if !report.passed {
        console.say(format!("missed       {}", report.json["missed"]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::DemoFaults;

    fn judged(change: impl FnOnce(&mut RunSummary), faults: DemoFaults) -> bool {
        let mut summary = RunSummary {
            updates: UPDATES,
            accuracy_before: Some(0.4),
            accuracy_after: Some(0.67),
            max_staleness: 3,
            acknowledged: 10,
            trained: 8,
            dropped: [("stale".to_owned(), 2)].into(),
            ..RunSummary::default()
        };
        change(&mut summary);
        let demo = Demo { nodes: 4, updates: UPDATES, dir: "x".into(), faults, build: true };
        judge(&demo, &summary, 10, 1.0).unwrap().passed
    }

    #[test]
    fn every_goal_counts() {
        let kills = DemoFaults { nodes: 2, learner: true };
        assert!(judged(|_| (), kills));
        assert!(!judged(|_| (), DemoFaults::default()), "an undisturbed run is held to more");
        assert!(judged(|s| s.accuracy_after = Some(0.7), DemoFaults::default()));
        assert!(!judged(|s| s.accuracy_before = Some(0.5), kills));
        assert!(!judged(|s| s.max_staleness = 4, kills));
        assert!(!judged(|s| s.trained = 7, kills), "a trajectory was lost");
        let forgotten = |s: &mut RunSummary| (s.acknowledged, s.trained) = (9, 7);
        assert!(!judged(forgotten, kills), "the learner forgot what it had acknowledged");
    }
}
