//! What a run asks of its fleet, from what earlier updates took.

use crate::metrics::UpdateRow;
use echo_protocol::staleness::{Mode, Pipeline, Staleness};

/// Updates that the measured times are taken from.
const RECENT: usize = 50;

/// What is good to know about a staleness policy before the first batch.
pub fn of_policy(staleness: &Staleness) -> Option<&'static str> {
    match staleness.mode() {
        Mode::OnPolicy => Some(
            "on-policy: the learner waits for every batch, and nodes wait while it is trained on; [staleness] mode = \"one_step\" overlaps the two",
        ),
        Mode::Unbounded => Some(
            "unbounded staleness: nothing is too old; when nodes are faster than updates, [buffer] drops the oldest",
        ),
        Mode::OneStep | Mode::Bounded => None,
    }
}

/// The rate that keeps the learner busy and the lag to expect, for an update of `batch` trajectories; none on-policy, and before updates
/// were made and snapshots installed.
pub fn of_fleet(staleness: &Staleness, batch: usize, rows: &[UpdateRow]) -> Option<String> {
    if staleness.mode() == Mode::OnPolicy {
        // There is nothing to overlap: both halves wait for each other at any rate.
        return None;
    }
    let recent = &rows[rows.len().saturating_sub(RECENT)..];
    let mut seconds: Vec<f64> = recent.iter().map(|row| row.update_s).collect();
    seconds.sort_by(f64::total_cmp);
    let train_s = *seconds.get(seconds.len() / 2)?;
    let broadcast_s = recent.iter().rev().find_map(|row| row.t_bcast_ms[1])? as f64 / 1e3;
    let pipeline = Pipeline { train_s, broadcast_s, batch: batch as f64 };
    let period = staleness.period();
    Some(match pipeline.required_rate(period) {
        Some(rate) => format!(
            "with updates of {train_s:.2} s and broadcasts of {broadcast_s:.2} s, the learner never waits from {rate:.0} trajectories/s on; \
             the lag is then at most {} updates by ECHO-2's bound",
            pipeline.worst_lag_overlapping(period).unwrap_or(u64::MAX)
        ),
        None => format!(
            "a broadcast takes {broadcast_s:.2} s, as long as {period} updates of {train_s:.2} s: the learner will wait whatever the fleet \
             brings; raise [staleness] period"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_run_says_what_it_needs() {
        let staleness = Staleness::new(3, None).unwrap();
        let row = |update_s, p95| UpdateRow { update_s, t_bcast_ms: [Some(1), p95], ..UpdateRow::default() };
        assert_eq!(of_fleet(&staleness, 1024, &[]), None);
        assert_eq!(of_fleet(&staleness, 1024, &[row(2.0, None)]), None);
        let rows = [row(2.0, Some(900)), row(9.0, Some(1000)), row(2.0, None)];
        let text = of_fleet(&staleness, 1200, &rows).unwrap();
        assert!(text.contains("from 800 trajectories/s") && text.contains("at most 3 updates"), "{text}");
        assert_eq!(of_fleet(&Staleness::on_policy(), 1200, &rows), None);
        let text = of_fleet(&staleness, 1200, &[row(2.0, Some(4000))]).unwrap();
        assert!(text.contains("raise [staleness] period"), "{text}");
    }

    #[test]
    fn who_waits_is_told() {
        assert!(of_policy(&Staleness::on_policy()).unwrap().contains("the learner waits"));
        assert_eq!(of_policy(&Staleness::one_step()), None);
    }
}
