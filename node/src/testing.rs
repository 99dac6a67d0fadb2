//! A run in miniature for the tests of this crate.

pub(crate) mod card;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::weights::{DType, Weights};
use echo_protocol::net::{ConnectionLimits, DhtMode, Host, HostConfig, HostEvents};
use echo_protocol::run::charter::{Charter, RunId, Sampling, TaskSpec, TokenizerSpec};
use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::delta;
use echo_protocol::snapshot::delta::Width;
use echo_protocol::snapshot::manifest::{DeltaEntry, Manifest, TensorType};
use echo_protocol::store::{ChunkStore, SnapshotItem, write_snapshot};
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::{Trajectory, TrajectoryGroup, VersionSpan};
use parking_lot::Mutex;

use crate::devices::fallback::DeviceFallback;
use crate::snapshots::install;
use crate::snapshots::install::{Images, Installed};
use crate::workload::NodeWorkload;

/// G of the run.
pub(crate) const GROUP: u32 = 4;
/// Longest response of the run.
pub(crate) const RESPONSE: u32 = 6;

/// The learner of the run.
pub(crate) fn learner_key() -> NodeKey {
    NodeKey::from_secret([200; 32])
}

pub(crate) fn model() -> ModelConfig {
    ModelConfig::tiny_qwen3(TinySizes {
        vocab: 64,
        hidden: 32,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        head_dim: 16,
        intermediate: 96,
        positions: 64,
    })
    .unwrap()
}

/// The run's signed charter.
pub(crate) fn charter() -> Signed<Charter> {
    charter_of(TaskSpec::new("chain_sum"))
}

fn charter_of(task: TaskSpec) -> Signed<Charter> {
    let charter = Charter {
        name: "sums".into(),
        learner: learner_key().public(),
        created: UnixMillis(1_700_000_000_000),
        model: model().to_json(DType::F32),
        tokenizer: TokenizerSpec::Characters { alphabet: String::new() },
        tasks: vec![task],
        group_size: GROUP,
        sampling: Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_new_tokens: RESPONSE,
            draw: Default::default(),
        },
        staleness: Staleness::new(3, None).unwrap(),
        snapshot_type: TensorType::F32,
        chunk_bytes: 16 << 10,
        precisions: vec![Default::default()],
        takeover: Default::default(),
        prompt: Default::default(),
    };
    Signed::sign(&charter, &learner_key()).unwrap()
}

/// The id of the run, the hash of its charter.
pub(crate) fn run_id() -> RunId {
    RunId::of(&charter())
}

/// What the run asks for.
pub(crate) fn workload() -> Arc<NodeWorkload> {
    let (run, charter) = Charter::open(&charter()).unwrap();
    Arc::new(NodeWorkload::new(run, &charter).unwrap())
}

/// What the run would ask for if its task were another.
pub(crate) fn workload_of(task: TaskSpec) -> NodeWorkload {
    let (run, charter) = Charter::open(&charter_of(task)).unwrap();
    NodeWorkload::new(run, &charter).unwrap()
}

/// Puts a random policy into `store` as a snapshot.
pub(crate) fn snapshot(store: &ChunkStore, version: u64) -> Manifest {
    let weights = Weights::random(&model(), version);
    let items = weights.iter().map(|tensor| SnapshotItem::Tensor {
        name: tensor.name().to_owned(),
        dtype: TensorType::F32,
        shape: tensor.shape().iter().map(|&side| side as u64).collect(),
        bytes: tensor.bytes().to_vec(),
    });
    write_snapshot(store, run_id(), PolicyVersion(version), 16 << 10, items).unwrap()
}

/// A random policy, by way of `store`, as it is installed for `workload`.
pub(crate) fn installed(store: &ChunkStore, version: u64, workload: &NodeWorkload) -> Installed {
    installed_on(&DeviceFallback::cpu(), store, version, workload)
}

/// The same on the best of these devices.
pub(crate) fn installed_on(
    fallback: &DeviceFallback,
    store: &ChunkStore,
    version: u64,
    workload: &NodeWorkload,
) -> Installed {
    let dir = tempfile::tempdir().unwrap();
    let images = Images::open(dir.path()).unwrap();
    install::load(store, &images, &snapshot(store, version), workload, fallback).unwrap()
}

/// Puts into `store` a policy that differs from that of `base` in few numbers, with deltas against it.
pub(crate) fn update(store: &ChunkStore, base: &Manifest) -> Manifest {
    let version = base.version.next();
    let (mut chunks, mut deltas) = (Vec::new(), Vec::new());
    for chunk in &base.chunks {
        let old = store.read(chunk).unwrap();
        let mut new = old.clone();
        // The lowest bits of a few f32, others in each version.
        new.iter_mut().skip(4 * version.0 as usize).step_by(4_000).for_each(|byte| *byte ^= 1);
        let delta = delta::encode(&old, &new, Width::Four).unwrap();
        let (id, length) = (store.put(&delta).unwrap(), delta.len() as u32);
        chunks.push(store.put(&new).unwrap());
        deltas.push(Some(DeltaEntry { base: *chunk, id, length }));
    }
    let manifest = Manifest { version, base: Some(base.version), chunks, deltas, ..base.clone() };
    manifest.validate().unwrap();
    manifest
}

/// A group that `node` might have generated.
pub(crate) fn group(node: PublicKey, counter: OrderCounter) -> TrajectoryGroup {
    let versions = vec![VersionSpan { version: PolicyVersion(5), tokens: 1 }];
    let trajectory = Trajectory {
        response: vec![3],
        turns: Vec::new(),
        logprobs: vec![-1.0],
        versions,
        reward: 0.0,
        stopped: false,
        omega: BTreeMap::new(),
        raw_logprobs: Vec::new(),
    };
    TrajectoryGroup {
        run: run_id(),
        lease: LeaseId(0),
        counter,
        node,
        trajectories: vec![trajectory],
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    }
}

/// A host on loopback.
pub(crate) async fn host(secret: u8, topics: Vec<String>) -> (Host, HostEvents) {
    Host::start(HostConfig {
        listen: vec![
            "/ip4/127.0.0.1/udp/0/quic-v1".parse().unwrap(),
            "/ip4/127.0.0.1/tcp/0".parse().unwrap(),
        ],
        mode: DhtMode::Server,
        topics,
        limits: ConnectionLimits::hub(),
        ..HostConfig::client([secret; 32], "test")
    })
    .await
    .unwrap()
}

/// What this thread logs from now on.
pub(crate) struct Logged {
    text: Sink,
    _guard: tracing::subscriber::DefaultGuard,
}

/// Keeps what is logged on this thread, for as long as the result lives.
pub(crate) fn logged() -> Logged {
    let text = Sink::default();
    let sink = text.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_ansi(false)
        .with_writer(move || sink.clone())
        .finish();
    Logged { text, _guard: tracing::subscriber::set_default(subscriber) }
}

impl Logged {
    /// The lines that contain `part`.
    pub(crate) fn lines(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8(self.text.0.lock().clone()).unwrap();
        text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
