//! A node that makes rollouts once, and afterwards delivers them again as often as it has to.

use super::learner_process::ProcessLog;
use super::run_file::GROUPS;
use super::tape::{Recorded, Tape};
use crate::harness::liar::{Liar, LiarOrder};
use anyhow::Context as _;
use echo_learner::common::workload::Workload;
use echo_learner::storage::run_dir::RunDir;
use echo_learner::training::local_rollouts;
use echo_policy::generation::Policy;
use echo_policy::model::weights::Weights;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::{OrderCounter, Purpose};
use echo_protocol::work::submission::{Answer, Outcome, RefuseReason};
use echo_protocol::work::trajectory::TrajectoryGroup;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The secret key of the one node.
const SECRET: [u8; 32] = [7; 32];
/// Orders that it asks for at once.
const WANTED: u32 = GROUPS as u32;
/// The pause before it tries again, whatever it is.
const PAUSE: Duration = Duration::from_millis(10);
/// An order that is not leased for so long was leased in an answer that never came.
const HUNGRY_AFTER: Duration = Duration::from_secs(2);
/// A node that is silent for so long is gone for the learner, and its orders are free again.
const SILENCE: Duration = Duration::from_secs(6);

/// A node of the study.
#[derive(Default)]
pub(super) struct KillPlayer {
    tape: Tape,
    /// Groups of the tape that are delivered.
    next: usize,
    leases: BTreeMap<OrderCounter, LeaseId>,
    acknowledged: BTreeSet<OrderCounter>,
    /// The group that was sent last, if no answer has come: it may be durable all the same.
    unanswered: Option<OrderCounter>,
    redelivered: u64,
}

/// The learner will never take a group that it took before.
#[derive(Debug, thiserror::Error)]
#[error("order {counter} was answered with {outcome:?}")]
struct Unacceptable {
    counter: OrderCounter,
    outcome: Outcome,
}

impl KillPlayer {
    /// One whose tape is empty.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// One that plays a tape.
    pub(super) fn with(tape: Tape) -> Self {
        Self { tape, ..Self::default() }
    }

    /// The tape that it plays, or is still recording.
    pub(super) fn tape(&self) -> &Tape {
        &self.tape
    }

    /// What it has made.
    pub(super) fn into_tape(self) -> Tape {
        self.tape
    }

    /// The orders that the learner has acknowledged.
    pub(super) fn acknowledged(&self) -> &BTreeSet<OrderCounter> {
        &self.acknowledged
    }

    /// The order of the group that was sent and not answered, if the run ended meanwhile.
    pub(super) fn unanswered(&self) -> Option<OrderCounter> {
        self.unanswered
    }

    /// Groups that were sent again.
    pub(super) fn redelivered(&self) -> u64 {
        self.redelivered
    }

    /// Makes rollouts for the learner that writes to `log` and whose run is in `dir`, under every
    /// version that it publishes, until the run ends. Returns only an error.
    pub(super) async fn record(&mut self, log: &ProcessLog, dir: &RunDir) -> anyhow::Error {
        let Err(error) = self.session(log, Some(dir)).await;
        error
    }

    /// Plays the tape from where it is, for as long as it is polled; a line that breaks is taken up
    /// again. Returns only an error.
    pub(super) async fn play(&mut self, log: &ProcessLog) -> anyhow::Error {
        loop {
            let Err(error) = self.session(log, None).await;
            if error.is::<Unacceptable>() {
                return error;
            }
            tracing::debug!(%error, "the line to the learner broke");
            sleep(PAUSE).await;
        }
    }

    async fn session(&mut self, log: &ProcessLog, dir: Option<&RunDir>) -> anyhow::Result<Infallible> {
        let mut node = Liar::meet(&log.address().await?, SECRET).await?;
        let mut installed = None;
        let mut fed = Instant::now();
        loop {
            let news = node.learner().beat().await?;
            if news.ended {
                // What the learner does from here on is not ours.
                return pending().await;
            }
            if let Some(newest) = news.newest {
                if installed != Some(newest) {
                    // Only who says that it has a version gets work for it.
                    node.learner().beat().await?;
                    installed = Some(newest);
                }
                if let Some(dir) = dir {
                    self.make(&node, newest, dir)?;
                }
                if self.deliver(&mut node, newest).await? || self.holds_next() {
                    fed = Instant::now();
                } else if self.ask(&node).await? {
                    fed = Instant::now();
                    continue;
                }
                if fed.elapsed() > HUNGRY_AFTER {
                    sleep(SILENCE).await;
                    fed = Instant::now();
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Whether the next group may be delivered as far as leases go; or there is none.
    fn holds_next(&self) -> bool {
        self.tape.get(self.next).is_some_and(|group| self.leases.contains_key(&group.counter))
    }

    /// Asks for orders; whether some came.
    async fn ask(&mut self, node: &Liar) -> anyhow::Result<bool> {
        let orders = node.lease(WANTED).await?;
        self.leases.extend(orders.iter().map(|order| (order.counter, order.lease)));
        Ok(!orders.is_empty())
    }

    /// Answers the orders that are leased and not on the tape yet, under `version`.
    fn make(&mut self, node: &Liar, version: PolicyVersion, dir: &RunDir) -> anyhow::Result<()> {
        let first = OrderCounter(self.tape.len() as u64);
        let counters: Vec<OrderCounter> = self.leases.range(first..).map(|(counter, _)| *counter).collect();
        if counters.is_empty() {
            return Ok(());
        }
        let groups = tokio::task::block_in_place(|| answers(node.workload(), &counters, version, dir))?;
        groups.into_iter().for_each(|group| self.tape.push(group));
        Ok(())
    }

    /// Delivers what may be delivered, one group after the other; whether anything was.
    async fn deliver(&mut self, node: &mut Liar, newest: PolicyVersion) -> anyhow::Result<bool> {
        let mut any = false;
        while let Some(group) = self.tape.get(self.next).filter(|group| group.version <= newest) {
            let counter = group.counter;
            let Some(&lease) = self.leases.get(&counter) else { break };
            let frame = node.sign(&TrajectoryGroup {
                trajectories: group.trajectories.clone(),
                ..node.empty_group(LiarOrder { lease, counter })
            })?;
            self.redelivered += u64::from(self.unanswered.replace(counter) == Some(counter));
            let Answer { outcome, .. } = node.offer(&frame).await?;
            self.unanswered = None;
            match outcome {
                // A duplicate is what was durable before the learner could say so.
                Outcome::Accepted | Outcome::Refused { reason: RefuseReason::Duplicate, .. } => {
                    self.acknowledged.insert(counter);
                    self.leases.remove(&counter);
                    (self.next, any) = (self.next + 1, true);
                }
                Outcome::Retry => break,
                // It was leased to us again meanwhile, in an answer that never came.
                Outcome::Refused { reason: RefuseReason::Lease, .. } => {
                    self.leases.remove(&counter);
                    break;
                }
                outcome => return Err(Unacceptable { counter, outcome }.into()),
            }
        }
        Ok(any)
    }
}

/// What a node makes of orders under a version, whose weights are those of its checkpoint.
fn answers(
    workload: &Workload,
    counters: &[OrderCounter],
    version: PolicyVersion,
    dir: &RunDir,
) -> anyhow::Result<Vec<Recorded>> {
    let weights = dir.checkpoints().join(format!("{:012}", version.0));
    let weights =
        Weights::load_dir(&weights, &workload.model).with_context(|| format!("the weights of {version}"))?;
    let policy = Arc::new(Policy::load(version.0, &workload.model, &weights)?);
    let orders: Vec<_> = counters.iter().map(|counter| workload.order(Purpose::Train, counter.0)).collect();
    let answers = local_rollouts::answers(workload, policy, &orders, workload.charter.group_size)?;
    let groups = counters.iter().zip(answers).map(|(&counter, answers)| Recorded {
        counter,
        version,
        trajectories: answers.into_iter().map(local_rollouts::LocalAnswer::trajectory).collect(),
    });
    Ok(groups.collect())
}
