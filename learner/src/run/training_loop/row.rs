//! The figures of an update that follow from its batch and report alone.

use crate::intake::buffer::StoredGroup;
use crate::intake::coordinator::{Coordinator, WorkAheadReport};
use crate::intake::filter::same_rewards;
use crate::telemetry::metrics::{UpdateRow, WeightRow};
use crate::training::trainer::UpdateReport;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::trajectory::{MetaValue, Trajectory};
use echo_sandbox::task::Miss;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Nodes whose stale groups a row counts: those with the most, so that rows of a large fleet stay short.
const STALE_NODES: usize = 16;

pub(super) fn of(version: PolicyVersion, batch: &[StoredGroup], report: &UpdateReport) -> UpdateRow {
    let trajectories = || batch.iter().flat_map(|g| &g.group.trajectories);
    let mean = |sum: f64| sum / trajectories().count().max(1) as f64;
    let reward = mean(trajectories().map(|t| f64::from(t.reward)).sum());
    let spread = mean(trajectories().map(|t| (f64::from(t.reward) - reward).powi(2)).sum());
    let correct = batch.iter().flat_map(|g| &g.correct).filter(|c| **c).count();
    let lengths = || trajectories().map(|t| t.response.len());
    let staleness = staleness(version, batch);
    let tokens: u64 = staleness.values().sum();
    let lags: f64 = staleness.iter().map(|(lag, tokens)| *lag as f64 * *tokens as f64).sum();
    let (stats, step) = (&report.stats, &report.step);
    // What was not scored is not known; zeros would say that it agrees.
    let scored = stats.tokens() > 0;
    UpdateRow {
        update: version.next().0,
        reward,
        reward_std: spread.sqrt(),
        accuracy: mean(correct as f64),
        loss: report.loss,
        grad_norm: Some(step.gradient_norm).filter(|norm| norm.is_finite()),
        learning_rate: step.learning_rate,
        clip_shares: scored.then(|| [stats.clip_share_low(), stats.clip_share_high()]),
        clip_share: scored.then(|| stats.clip_share()),
        weight: scored.then(|| WeightRow {
            mean: stats.weight_mean(),
            max: stats.weight_max(),
            variance: stats.weight_variance(),
            ess: stats.ess(),
        }),
        kl: scored.then(|| stats.kl_k3()),
        kl_reference: stats.kl_reference(),
        logp_gap: report.gaps.reported,
        logp_gap_by_precision: report.gaps.by_precision.clone(),
        logp_gap_by_lag: by_lag(version, &report.gaps.by_version),
        logp_gap_recomputed: report.gaps.recomputed,
        bounded_tokens: report.bounded.values().sum(),
        echo_clips: stats.echo_clips(),
        entropy: stats.entropy(),
        response_tokens: mean(lengths().sum::<usize>() as f64),
        response_tokens_max: lengths().max().unwrap_or(0) as u64,
        cut_off: mean(trajectories().filter(|t| !t.stopped).count() as f64),
        not_understood: mean(trajectories().filter(|t| is_not_understood(t)).count() as f64),
        degenerate_groups: batch.iter().filter(|g| same_rewards(&g.group)).count() as f64
            / batch.len().max(1) as f64,
        lag_mean: lags / tokens.max(1) as f64,
        lag_max: staleness.keys().max().copied().unwrap_or(0),
        staleness,
        tokens: report.effort.trained.tokens,
        proximal_s: report.effort.proximal_s,
        reference_s: report.effort.reference_s,
        steps: report.steps.into(),
        skipped_steps: report.skipped.into(),
        skipped: report.all_skipped().is_some(),
        skip_cause: report.skip_cause,
        ..UpdateRow::default()
    }
}

/// Tokens of all responses of a batch.
pub(super) fn response_tokens(batch: &[StoredGroup]) -> usize {
    batch.iter().flat_map(|group| &group.group.trajectories).map(|t| t.response.len()).sum()
}

/// Whether the task found no answer in a response.
fn is_not_understood(trajectory: &Trajectory) -> bool {
    let miss = trajectory.omega.get("miss");
    matches!(miss, Some(MetaValue::Text(code)) if code == Miss::Malformed.code())
}

/// What is known by version, by lag.
fn by_lag(now: PolicyVersion, gaps: &BTreeMap<u64, f64>) -> BTreeMap<u64, f64> {
    gaps.iter().map(|(version, gap)| (now.lag_behind(PolicyVersion(*version)), *gap)).collect()
}

/// How far work runs ahead, and what came too late for it.
pub(super) fn describe_work(row: &mut UpdateRow, coordinator: &Coordinator) {
    if let Some(WorkAheadReport { depth, again }) = coordinator.work_ahead() {
        row.work_ahead = Some(depth);
        (row.late_orders, row.backup_orders) = (again.late, again.backups);
    }
    let stale = coordinator.stale();
    row.stale_by_length = stale.by_length().clone();
    let mut nodes: Vec<_> = stale.by_node().iter().map(|(node, groups)| (node.short(), *groups)).collect();
    nodes.sort_by_key(|(_, groups)| Reverse(*groups));
    row.stale_by_node = nodes.into_iter().take(STALE_NODES).collect();
}

/// Lag in updates → tokens of the batch with that lag.
fn staleness(version: PolicyVersion, batch: &[StoredGroup]) -> BTreeMap<u64, u64> {
    let mut staleness: BTreeMap<u64, u64> = BTreeMap::new();
    for span in batch.iter().flat_map(|g| &g.group.trajectories).flat_map(|t| &t.versions) {
        *staleness.entry(version.lag_behind(span.version)).or_default() += u64::from(span.tokens);
    }
    staleness
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use crate::telemetry::metrics::{Metrics, updates};
    use crate::training::objective::ObjectiveStats;
    use crate::training::optimizer::{SkipCause, StepOutcome, StepReport};
    use crate::training::trainer::{Effort, LogpGaps};
    use echo_protocol::work::lease::LeaseId;
    use echo_protocol::work::order::OrderCounter;
    use echo_protocol::work::trajectory::{TrajectoryGroup, spans};

    #[test]
    fn a_skipped_update_stays_in_the_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let step = StepReport {
            outcome: StepOutcome::Skipped(SkipCause::Gradient),
            gradient_norm: f64::NAN,
            clip_scale: 1.0,
            learning_rate: 1e-3,
            updates: 4,
        };
        let report = UpdateReport {
            loss: None,
            stats: ObjectiveStats::default(),
            step,
            steps: 1,
            skipped: 1,
            skip_cause: Some(SkipCause::Gradient),
            gaps: LogpGaps::default(),
            bounded: BTreeMap::new(),
            effort: Effort::default(),
        };
        let mut metrics = Metrics::open(&path, PolicyVersion(0)).unwrap();
        metrics.write(&of(PolicyVersion(4), &[], &report)).unwrap();
        let rows = updates(&path).unwrap();
        assert_eq!((rows.len(), rows[0].update, rows[0].skipped, rows[0].grad_norm), (1, 5, true, None));
        assert_eq!(rows[0].skip_cause, Some(SkipCause::Gradient));
        // Nothing was scored, so nothing is said of the policy.
        assert_eq!((rows[0].loss, rows[0].kl, rows[0].entropy, rows[0].clip_share), (None, None, None, None));
        assert_eq!((rows[0].weight, rows[0].logp_gap), (None, None));
    }

    #[test]
    fn a_response_of_several_versions_counts_token_by_token() {
        let trajectory = |versions: &[u64]| Trajectory {
            response: vec![1; versions.len()],
            turns: Vec::new(),
            logprobs: vec![-1.0; versions.len()],
            versions: spans(versions.iter().map(|version| PolicyVersion(*version))),
            reward: 0.0,
            stopped: true,
            omega: Default::default(),
            raw_logprobs: Vec::new(),
        };
        let (workload, _) = testing::workload();
        let group = TrajectoryGroup {
            run: workload.run,
            lease: LeaseId(0),
            counter: OrderCounter(0),
            node: workload.charter.learner,
            trajectories: vec![trajectory(&[4, 4, 5, 6]), trajectory(&[6, 6])],
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        };
        let batch = [StoredGroup { arrival: 0, correct: vec![false; 2], group }];
        assert_eq!(staleness(PolicyVersion(7), &batch), [(3, 2), (2, 1), (1, 3)].into());
        assert_eq!(by_lag(PolicyVersion(7), &[(5, 0.25), (7, 0.5)].into()), [(2, 0.25), (0, 0.5)].into());
    }
}
