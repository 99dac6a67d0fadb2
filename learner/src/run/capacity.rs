//! What a run asks of its fleet, from what earlier updates took.

use crate::config::{RunConfig, TrainSection};
use crate::telemetry::metrics::{RECENT_UPDATES, UpdateRow};
use crate::verification::sampling_audit::MAX_POLICIES;
use echo_protocol::run::staleness::{Pipeline, Staleness, StalenessMode};

/// What is good to know about a staleness policy before the first batch.
pub fn of_policy(staleness: &Staleness) -> Option<&'static str> {
    match staleness.mode() {
        StalenessMode::OnPolicy => Some(
            "on-policy: the learner waits for every batch, and nodes wait while it is trained on; [staleness] mode = \"one_step\" overlaps the two",
        ),
        StalenessMode::Unbounded => Some(
            "unbounded staleness: no lag is too long; when nodes are faster than updates, [buffer] drops the oldest",
        ),
        StalenessMode::OneStep | StalenessMode::Bounded => None,
    }
}

/// What an operator had better know of a run file before a run is founded on it, or goes on.
pub fn warnings(config: &RunConfig, staleness: &Staleness) -> Vec<String> {
    let audit = config.admission.audit.then(|| of_audit(staleness)).flatten();
    audit.into_iter().chain(of_objective(&config.train)).collect()
}

/// That the sampling audit, which keeps the policies of [`MAX_POLICIES`] publications, refuses what
/// the staleness budget would let in.
fn of_audit(staleness: &Staleness) -> Option<String> {
    let (budget, period) = (staleness.budget(), staleness.period());
    let reach = MAX_POLICIES as u64 - 1;
    if budget / period <= reach {
        return None;
    }
    let shortest = budget / MAX_POLICIES as u64 + 1;
    let advice = match staleness.mode() {
        StalenessMode::Unbounded => "a longer [staleness] period".to_owned(),
        _ => format!("[staleness] period = {shortest}"),
    };
    Some(format!(
        "the sampling audit keeps the policies of the newest {MAX_POLICIES} publications, and refuses as stale what was made under an older \
         one, some {} updates old: {advice} reaches further, and [admission] audit = false as far as the budget",
        reach * period
    ))
}

/// That an objective which is clipped around the policy at the start of an update has nothing to
/// clip in its first step.
fn of_objective(train: &TrainSection) -> Option<String> {
    let clipped_around_start = train.objective.objective.ratio.is_proximal();
    (clipped_around_start && train.minibatches == 1).then(|| {
        format!(
            "[train] objective {} is clipped around the policy at the start of an update, and with minibatches = 1 no step begins anywhere else: \
             the clip never acts. AReaL makes 4, at a rate to match",
            train.objective.preset.name()
        )
    })
}

/// The rate that keeps the learner busy and the lag to expect, for an update of `batch`
/// trajectories; none on-policy, and before updates were made and snapshots installed.
pub fn of_fleet(staleness: &Staleness, batch: usize, rows: &[UpdateRow]) -> Option<String> {
    if staleness.mode() == StalenessMode::OnPolicy {
        // There is nothing to overlap: both halves wait for each other at any rate.
        return None;
    }
    let recent = &rows[rows.len().saturating_sub(RECENT_UPDATES)..];
    let mut seconds: Vec<f64> = recent.iter().map(|row| row.update_s).collect();
    seconds.sort_by(f64::total_cmp);
    let train_s = *seconds.get(seconds.len() / 2)?;
    let broadcast_s = recent.iter().rev().find_map(|row| row.t_bcast_ms[1])? as f64 / 1e3;
    let pipeline = Pipeline { train_s, broadcast_s, batch: batch as f64 };
    let period = staleness.period();
    Some(match pipeline.required_rate(period) {
        Some(rate) => format!(
            "with updates of {train_s:.2} s and broadcasts of {broadcast_s:.2} s, the learner never waits from {rate:.2} trajectories/s on; \
             the lag is then at most {} updates by ECHO-2's bound",
            pipeline.worst_lag_overlapping(period).unwrap_or(u64::MAX)
        ),
        None => format!(
            "a broadcast takes {broadcast_s:.2} s, as long as {period} updates of {train_s:.2} s: the learner will wait whatever the fleet \
             brings; a run with a longer [staleness] period would not"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::objective::Preset;

    #[test]
    fn a_resumed_run_says_what_it_needs() {
        let staleness = Staleness::new(3, None).unwrap();
        let row = |update_s, p95| UpdateRow { update_s, t_bcast_ms: [Some(1), p95], ..UpdateRow::default() };
        assert_eq!(of_fleet(&staleness, 1024, &[]), None);
        assert_eq!(of_fleet(&staleness, 1024, &[row(2.0, None)]), None);
        let rows = [row(2.0, Some(900)), row(9.0, Some(1000)), row(2.0, None)];
        let text = of_fleet(&staleness, 1200, &rows).unwrap();
        assert!(text.contains("from 800.00 trajectories/s") && text.contains("at most 3 updates"), "{text}");
        assert_eq!(of_fleet(&Staleness::on_policy(), 1200, &rows), None);
        let text = of_fleet(&staleness, 1200, &[row(2.0, Some(4000))]).unwrap();
        assert!(text.contains("longer [staleness] period"), "{text}");
    }

    #[test]
    fn an_audit_that_reaches_less_far_than_the_budget_is_told() {
        let bounded = |budget, period| Staleness::new(budget, Some(period)).unwrap();
        assert_eq!(of_audit(&bounded(3, 2)), None);
        assert_eq!(of_audit(&bounded(64, 9)), None, "the period that is advised");
        let text = of_audit(&bounded(64, 8)).unwrap();
        assert!(text.contains("some 56 updates") && text.contains("period = 9 "), "{text}");
        assert!(of_audit(&Staleness::unbounded(4).unwrap()).unwrap().contains("a longer [staleness] period"));
    }

    #[test]
    fn a_clip_that_never_acts_is_told() {
        let train = |preset: Preset, minibatches| TrainSection {
            objective: preset.into(),
            minibatches,
            ..TrainSection::default()
        };
        assert!(of_objective(&train(Preset::DecoupledPpo, 1)).unwrap().contains("decoupled_ppo"));
        assert_eq!(of_objective(&train(Preset::DecoupledPpo, 4)), None);
        assert_eq!(of_objective(&train(Preset::Gepo, 1)), None);
    }

    #[test]
    fn who_waits_is_told() {
        assert!(of_policy(&Staleness::on_policy()).unwrap().contains("the learner waits"));
        assert_eq!(of_policy(&Staleness::one_step()), None);
    }
}
