//! What became of everything that the learner acknowledged, as its own database and metrics tell;
//! and whether it was fresh enough, as the tape tells.

use super::player::KillPlayer;
use anyhow::Context as _;
use echo_learner::config::RunConfig;
use echo_learner::intake::buffer::{BufferLimits, OrderStatus, ReplayBuffer, Totals};
use echo_learner::storage::SledStore;
use echo_learner::storage::run_dir::RunDir;
use echo_learner::telemetry::metrics;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::OrderCounter;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The account of a run.
#[derive(Debug)]
pub(super) struct RunAccount {
    /// Groups that the learner acknowledged.
    pub(super) acknowledged: u64,
    /// Of these, trained on.
    pub(super) trained: u64,
    /// Of these, dropped, by reason.
    pub(super) dropped: BTreeMap<&'static str, u64>,
    /// Acknowledged groups that were neither trained on nor dropped.
    pub(super) lost: Vec<OrderCounter>,
    /// Updates that do not have exactly B groups of their own: a group that was trained on in two
    /// updates is missing in one.
    pub(super) uneven: Vec<u64>,
    /// Trained on more than S updates after the version that made them on the tape, or before it.
    pub(super) outside_s: Vec<OrderCounter>,
    /// Whether the buffer's totals add up, and say the same.
    pub(super) adds_up: bool,
    /// Updates in the metrics, each once.
    pub(super) rows: u64,
    /// The largest lag of any token, by the metrics.
    pub(super) largest_lag: u64,
    /// Held-out accuracy of the first and the last evaluation.
    pub(super) accuracy: [f64; 2],
}

/// The account of a run that has ended, and of what its learners told `player`.
pub(super) fn of(dir: &RunDir, player: &KillPlayer, config: &RunConfig) -> anyhow::Result<RunAccount> {
    let store = Arc::new(SledStore::open(&dir.database())?);
    let buffer = ReplayBuffer::open(store, BufferLimits::default())?;
    let mut by_update: BTreeMap<u64, usize> = (0..config.run.updates).map(|update| (update, 0)).collect();
    let (versions, budget) = (player.tape().versions(), config.staleness()?.budget());
    let is_known = |counter| Ok(buffer.status(counter)?.is_some());
    let acknowledged = kept(player.acknowledged(), player.unanswered(), is_known)?;
    let (mut trained, mut dropped, mut lost, mut outside_s) = (0, BTreeMap::new(), Vec::new(), Vec::new());
    for counter in &acknowledged {
        match buffer.status(*counter)? {
            // The batches since the oldest checkpoint are kept: the run is over, and all
            // its updates were made.
            Some(OrderStatus::Trained { update } | OrderStatus::Batched { update })
                if update.0 < config.run.updates =>
            {
                trained += 1;
                *by_update.entry(update.0).or_default() += 1;
                if !versions.get(counter).is_some_and(|made| is_within(budget, *made, update)) {
                    outside_s.push(*counter);
                }
            }
            Some(OrderStatus::Dropped { reason }) => *dropped.entry(reason.name()).or_default() += 1,
            Some(
                OrderStatus::Staged
                | OrderStatus::Waiting
                | OrderStatus::Batched { .. }
                | OrderStatus::Trained { .. },
            )
            | None => lost.push(*counter),
        }
    }
    let batch = config.train.groups_per_update;
    let uneven = by_update.into_iter().filter(|(_, groups)| *groups != batch).map(|(update, _)| update);
    let totals: &Totals = buffer.totals();
    let adds_up = totals.add_up()
        && totals.acknowledged.groups == acknowledged.len() as u64
        && totals.trained.groups + totals.batched.groups == trained;
    let rows = metrics::updates(&dir.metrics())?;
    let each_once = rows.iter().zip(1..).take_while(|(row, update)| row.update == *update).count();
    let evaluations = metrics::evaluations(&dir.metrics())?;
    let first = evaluations.first().context("no evaluation was made")?;
    let last = evaluations.last().unwrap_or(first);
    Ok(RunAccount {
        acknowledged: acknowledged.len() as u64,
        trained,
        dropped,
        lost,
        uneven: uneven.collect(),
        outside_s,
        adds_up,
        rows: if each_once == rows.len() { rows.len() as u64 } else { 0 },
        largest_lag: rows.iter().flat_map(|row| row.staleness.keys()).max().copied().unwrap_or_default(),
        accuracy: [first, last].map(|row| row.held_out_accuracy.unwrap_or_default()),
    })
}

/// What the learner answers for: all that it said it has, and the group whose answer was lost if it
/// is in the database nevertheless. A learner that is killed between its flush and its answer at
/// the very end of a run never gets to say so.
fn kept(
    acknowledged: &BTreeSet<OrderCounter>,
    unanswered: Option<OrderCounter>,
    is_known: impl Fn(OrderCounter) -> anyhow::Result<bool>,
) -> anyhow::Result<BTreeSet<OrderCounter>> {
    let mut kept = acknowledged.clone();
    if let Some(counter) = unanswered
        && is_known(counter)?
    {
        kept.insert(counter);
    }
    Ok(kept)
}

/// Whether what `made` made may be trained on at `update`, said without the learner's own words for it.
fn is_within(budget: u64, made: PolicyVersion, update: PolicyVersion) -> bool {
    update.0.checked_sub(made.0).is_some_and(|lag| lag <= budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_counts_whose_answer_was_lost_at_the_end() {
        let counters = |counters: &[u64]| counters.iter().copied().map(OrderCounter).collect::<BTreeSet<_>>();
        let kept = |unanswered: Option<u64>| {
            let durable = counters(&[0, 1]);
            kept(&counters(&[0]), unanswered.map(OrderCounter), |counter| Ok(durable.contains(&counter)))
                .unwrap()
        };
        assert_eq!(kept(Some(1)), counters(&[0, 1]), "durable, and its answer was lost");
        assert_eq!(kept(Some(2)), counters(&[0]), "it never arrived");
        assert_eq!(kept(None), counters(&[0]));
    }

    #[test]
    fn within_s_is_neither_too_late_nor_too_early() {
        let found = [0, 1, 4, 5].map(|update| is_within(3, PolicyVersion(1), PolicyVersion(update)));
        assert_eq!(found, [false, true, true, false]);
    }
}
