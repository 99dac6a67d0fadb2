//! The learner's intake as it is, over a store in memory: leases, work-ahead, staleness, buffer, record.

use super::node::key;
use super::scene::{HOUR_MS, Scene};
use anyhow::Context as _;
use echo_learner::common::workload::Workload;
use echo_learner::intake::admission::{Admission, AdmissionTally, Admitted, Rejection};
use echo_learner::intake::buffer::{BufferLimits, StoredGroup, Totals, Unflushed};
use echo_learner::intake::coordinator::{
    Coordinator, CoordinatorConfig, CoordinatorState, Granted, LeaseRequest, WorkAheadReport,
};
use echo_learner::intake::filter::Filter;
use echo_learner::intake::leases::LeaseConfig;
use echo_learner::reputation::RecordConfig;
use echo_learner::storage::MemoryStore;
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::weights::DType;
use echo_protocol::run::charter::{Charter, RunId, Sampling, TaskSpec, TokenizerSpec};
use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::TensorType;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::HeldOrder;
use echo_protocol::work::submission::{Outcome, RefuseReason};
use echo_protocol::work::trajectory::{Omega, Trajectory, TrajectoryGroup, spans};
use echo_sandbox::task::files::TaskFiles;
use std::path::Path;
use std::sync::Arc;

/// Most orders of one node, as a run file has it by default.
const ORDERS_PER_NODE: u64 = 64;
/// How long a lease runs. Slow nodes of drawn fleets take an hour for an order.
const LIFETIME_MS: u64 = 2 * HOUR_MS;

/// Leases, buffer and record of the simulated learner.
pub(super) struct Intake {
    coordinator: Coordinator,
    admission: Admission,
    store: Arc<MemoryStore>,
    config: CoordinatorConfig,
    staleness: Staleness,
}

/// A charter that every simulated run can have. Nothing is generated, so its model and task are of no matter.
///
/// # Errors
/// When it is none that a learner takes.
pub(crate) fn workload() -> anyhow::Result<Arc<Workload>> {
    let sizes = TinySizes {
        vocab: 64,
        hidden: 16,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 8,
        intermediate: 24,
        positions: 32,
    };
    let learner = NodeKey::from_secret([1; 32]);
    let charter = Charter {
        name: "simulated".into(),
        learner: learner.public(),
        created: UnixMillis(1),
        model: ModelConfig::tiny_qwen3(sizes)?.to_json(DType::F32),
        tokenizer: TokenizerSpec::Characters { alphabet: String::new() },
        tasks: vec![TaskSpec::new("chain_sum").with("digits", 1)],
        group_size: 1,
        sampling: Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_new_tokens: 4,
            draw: Default::default(),
        },
        staleness: Staleness::new(3, None)?,
        snapshot_type: TensorType::F32,
        chunk_bytes: 16 << 10,
        precisions: vec![Default::default()],
        takeover: Default::default(),
        prompt: Default::default(),
    };
    let run = RunId::of(&Signed::sign(&charter, &learner)?);
    Ok(Arc::new(Workload::open(run, charter, Path::new(""), &TaskFiles::none())?))
}

impl Intake {
    /// The intake of a new run.
    pub(super) fn open(workload: &Arc<Workload>, scene: &Scene) -> anyhow::Result<Self> {
        let staleness = Staleness::new(scene.budget, Some(scene.period))?;
        let run = workload.run;
        let charter = Charter { staleness, ..workload.charter.clone() };
        let admission = Admission::new(run, &charter, workload.mix.clone(), workload.clone());
        let config = CoordinatorConfig {
            leases: LeaseConfig { run, lifetime_ms: LIFETIME_MS, max_open_per_node: ORDERS_PER_NODE },
            limits: BufferLimits::default(),
            filter: Filter::default(),
            staleness,
            groups_per_update: scene.batch,
            record: RecordConfig::default(),
            by_lag: staleness.is_by_lag(),
        };
        let store = Arc::new(MemoryStore::default());
        let coordinator = reopen(&store, config, UnixMillis(0), PolicyVersion(0))?;
        Ok(Self { coordinator, admission, store, config, staleness })
    }

    /// Leases that are durable.
    pub(super) fn grant(&mut self, now: UnixMillis, wish: &LeaseRequest) -> anyhow::Result<Granted> {
        // Nobody here lies, so everybody is heard.
        self.coordinator.hear(now, &wish.node)?;
        let granted = self.coordinator.grant(now, wish);
        let flushed = self.coordinator.write_leases()?.flush()?;
        self.coordinator.leased(flushed);
        Ok(granted)
    }

    /// What is answered about a group, once it is durable.
    pub(super) fn deliver(&mut self, now: UnixMillis, group: &TrajectoryGroup) -> anyhow::Result<Outcome> {
        match self.coordinator.screen(now, &self.admission, group) {
            Ok(()) => {}
            Err(Rejection::Retry(_)) => return Ok(Outcome::Retry),
            Err(Rejection::Refused(refusal)) => {
                if refusal.reason == RefuseReason::Stale {
                    self.coordinator.came_too_late(group);
                }
                return Ok(self.coordinator.refuse(now, &group.node, refusal).answer.outcome);
            }
        }
        let (replies, written) = self.coordinator.admit(now, &self.admission, vec![admitted(group)]);
        let flushed = written.and_then(Unflushed::flush);
        let replies = self.coordinator.acknowledge(replies, flushed);
        let reply = replies.into_iter().next().context("a group without an answer")?;
        Ok(reply.answer.outcome)
    }

    /// Kills the learner while this group is written and not yet durable, and starts it again at
    /// `checkpoint`. The first `survivors` of the writes since the last flush have reached the disk.
    pub(super) fn crash(
        &mut self,
        now: UnixMillis,
        group: &TrajectoryGroup,
        survivors: usize,
        checkpoint: PolicyVersion,
    ) -> anyhow::Result<()> {
        // Nobody is answered, so what would have been is of no matter.
        let _ = self.coordinator.admit(now, &self.admission, vec![admitted(group)]);
        self.store.crash(survivors);
        self.coordinator = reopen(&self.store, self.config, now, checkpoint)?;
        Ok(())
    }

    pub(super) fn batch(
        &mut self,
        now: UnixMillis,
        version: PolicyVersion,
    ) -> anyhow::Result<Option<Vec<StoredGroup>>> {
        Ok(self.coordinator.batch(now, version)?)
    }

    /// The learner comes to a version. Where it publishes it, a checkpoint is durable before.
    pub(super) fn at(&mut self, now: UnixMillis, version: PolicyVersion) -> anyhow::Result<bool> {
        self.coordinator.at(now, version);
        let publishes = self.staleness.publishes(version);
        if publishes {
            self.coordinator.settle(version)?;
            self.coordinator.published(version);
        }
        Ok(publishes)
    }

    pub(super) fn gone(&mut self, node: PublicKey) {
        self.coordinator.nodes_gone(&[node]);
    }

    /// Everything that a checkpoint would say, for the account at the end.
    pub(super) fn state(&self, version: PolicyVersion) -> CoordinatorState {
        self.coordinator.state(version)
    }

    /// Orders that are out with each node.
    pub(super) fn holders(&self, version: PolicyVersion) -> Vec<(PublicKey, u64)> {
        self.coordinator.work(version).holders
    }

    /// Groups that were filtered out so far.
    pub(super) fn filtered(&self) -> u64 {
        self.coordinator.filtered()
    }

    pub(super) fn totals(&self) -> &Totals {
        self.coordinator.totals()
    }

    pub(super) fn work_ahead(&self) -> Option<WorkAheadReport> {
        self.coordinator.work_ahead()
    }

    /// Most orders of one node.
    pub(super) fn lease_size(&self) -> u64 {
        self.config.leases.max_open_per_node
    }

    /// A group of one token, of this version.
    pub(super) fn group(&self, node: usize, held: HeldOrder, version: u64) -> TrajectoryGroup {
        let trajectory = Trajectory {
            response: vec![1],
            turns: Vec::new(),
            logprobs: vec![-0.5],
            versions: spans([PolicyVersion(version)]),
            reward: 1.0,
            stopped: true,
            omega: Omega::new(),
            raw_logprobs: Vec::new(),
        };
        TrajectoryGroup {
            run: self.config.leases.run,
            lease: held.lease,
            counter: held.counter,
            node: key(node),
            trajectories: vec![trajectory],
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        }
    }
}

fn reopen(
    store: &Arc<MemoryStore>,
    config: CoordinatorConfig,
    now: UnixMillis,
    version: PolicyVersion,
) -> anyhow::Result<Coordinator> {
    Ok(Coordinator::open(store.clone(), config, now, version, AdmissionTally::default(), None)?)
}

fn admitted(group: &TrajectoryGroup) -> Admitted {
    let id = ContentId::of(&group.counter.0.to_le_bytes());
    Admitted { id, group: group.clone(), correct: vec![true] }
}
