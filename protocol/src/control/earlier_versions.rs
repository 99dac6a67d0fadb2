//! Messages in the form that programs of commit 9bb4e69 wrote: still read, or refused by their version.
//!
//! Their types are written out here, so no change of ours changes them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::control::requests::ControlRequest;
use crate::run::charter::{Charter, RunId, TaskSpec, TokenizerSpec};
use crate::run::staleness::Staleness;
use crate::run::tensor_type::TensorType;
use crate::run::version::PolicyVersion;
use crate::snapshot::manifest::{DeltaEntry, FileEntry, Manifest, TensorEntry};
use crate::wire::codec::encode;
use crate::wire::content_id::ContentId;
use crate::wire::identity::{NodeKey, PublicKey, Signature};
use crate::wire::signed::{Signed, SignedError};
use crate::wire::time::UnixMillis;
use crate::work::lease::{Lease, LeaseId};
use crate::work::order::OrderCounter;
use crate::work::receipt::Receipt;
use crate::work::submission::RefuseReason;
use crate::work::trajectory::{GroupHead, MetaValue, TrajectoryGroup, VersionSpan};
use crate::work::verification::{Offer, Opinion, Report, VerifierMessage};

/// More than any message here has.
const MAX: usize = 1 << 20;

#[derive(Serialize)]
struct Envelope<'a> {
    #[serde(with = "serde_bytes")]
    body: &'a [u8],
    key: PublicKey,
    signature: Signature,
}

#[derive(Serialize)]
struct OldManifest {
    run: RunId,
    version: PolicyVersion,
    base: Option<PolicyVersion>,
    files: Vec<FileEntry>,
    tensors: Vec<TensorEntry>,
    total_bytes: u64,
    chunk_bytes: u32,
    chunks: Vec<ContentId>,
    deltas: Vec<Option<DeltaEntry>>,
}

#[derive(Serialize)]
struct OldLease {
    run: RunId,
    id: LeaseId,
    node: PublicKey,
    first: OrderCounter,
    count: u32,
    deadline: UnixMillis,
}

#[derive(Serialize)]
struct OldGroup {
    run: RunId,
    lease: LeaseId,
    counter: OrderCounter,
    node: PublicKey,
    trajectories: Vec<OldTrajectory>,
    precision: &'static str,
    caches: &'static str,
    recomputed: Vec<u32>,
}

#[derive(Serialize)]
struct OldTrajectory {
    response: Vec<u32>,
    turns: Vec<u32>,
    logprobs: Vec<f32>,
    raw_logprobs: Vec<f32>,
    versions: Vec<VersionSpan>,
    reward: f32,
    stopped: bool,
    omega: BTreeMap<&'static str, OldValue>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum OldValue {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(&'static str),
}

#[derive(Serialize)]
struct OldCharter {
    name: String,
    learner: PublicKey,
    created: UnixMillis,
    model: String,
    tokenizer: TokenizerSpec,
    tasks: Vec<TaskSpec>,
    group_size: u32,
    sampling: OldSampling,
    staleness: Staleness,
    snapshot_type: TensorType,
    chunk_bytes: u32,
}

#[derive(Serialize)]
struct OldSampling {
    temperature: f32,
    top_p: f32,
    top_k: u32,
    max_new_tokens: u32,
}

#[derive(Serialize)]
struct OldReceipt {
    run: RunId,
    node: PublicKey,
    sequence: u64,
    counter: OrderCounter,
    group: ContentId,
    oldest: PolicyVersion,
    newest: PolicyVersion,
    trajectories: u32,
    rewards: f64,
    at: UnixMillis,
}

#[derive(Serialize)]
struct OldReport {
    run: RunId,
    group: ContentId,
    opinion: OldOpinion,
}

#[derive(Serialize)]
enum OldOpinion {
    Lie { reason: &'static str, detail: &'static str },
}

#[derive(Serialize)]
enum OldRequest {
    Heartbeat(OldHeartbeat),
}

#[derive(Serialize)]
struct OldHeartbeat {
    installed: Option<PolicyVersion>,
    progress: Option<(PolicyVersion, u16)>,
    rollouts_per_s: f32,
    outbox: u32,
    addresses: Vec<String>,
    reach: &'static str,
    relays: bool,
    max_upload: Option<u64>,
    uplinks: Vec<u64>,
    neighbourhood: u64,
}

fn key() -> NodeKey {
    NodeKey::from_secret([1; 32])
}

fn charter() -> Charter {
    crate::run::charter::tests::charter(&key())
}

fn run() -> RunId {
    RunId::of(&Signed::sign(&charter(), &key()).unwrap())
}

/// A signed value as a program wrote it that knew its kind under the name `context`.
fn signed(context: &str, value: &impl Serialize) -> Vec<u8> {
    let body = encode(value, MAX).unwrap();
    let message = [context.as_bytes(), &[0], blake3::hash(&body).as_bytes()].concat();
    let envelope = Envelope { body: &body, key: key().public(), signature: key().sign(&message) };
    encode(&envelope, MAX).unwrap()
}

#[test]
fn manifests_and_leases_of_an_earlier_version_are_refused_by_its_name() {
    let manifest = OldManifest {
        run: run(),
        version: PolicyVersion(3),
        base: None,
        files: Vec::new(),
        tensors: vec![TensorEntry { name: "w".into(), dtype: TensorType::F32, shape: vec![4], offset: 0 }],
        total_bytes: 16,
        chunk_bytes: 16 << 10,
        chunks: vec![ContentId::of(b"a chunk")],
        deltas: Vec::new(),
    };
    let bytes = signed("echo snapshot manifest 2", &manifest);
    let refused = Signed::<Manifest>::from_bytes(&bytes).unwrap().open_from(&key().public()).unwrap_err();
    assert!(matches!(refused, SignedError::Before { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("echo snapshot manifest 2") && text.contains("echo snapshot manifest 3"), "{text}");

    let lease = OldLease {
        run: run(),
        id: LeaseId(7),
        node: key().public(),
        first: OrderCounter(9),
        count: 2,
        deadline: UnixMillis(1_000),
    };
    let bytes = signed("echo lease 1", &lease);
    let refused = Signed::<Lease>::from_bytes(&bytes).unwrap().open().unwrap_err();
    assert!(matches!(refused, SignedError::Before { before: "echo lease 1", .. }), "{refused}");
    // Under the name of this version they are no such thing.
    let bytes = signed("echo lease 2", &lease);
    assert!(matches!(Signed::<Lease>::from_bytes(&bytes).unwrap().open(), Err(SignedError::Codec(_))));
}

#[test]
fn groups_are_read_as_they_were() {
    let trajectory = || OldTrajectory {
        response: vec![1, 2, 300],
        turns: vec![1, 2],
        logprobs: vec![-0.5, -0.25, 0.0],
        raw_logprobs: vec![-0.75, -0.5, 0.0],
        versions: vec![
            VersionSpan { version: PolicyVersion(2), tokens: 2 },
            VersionSpan { version: PolicyVersion(4), tokens: 1 },
        ],
        reward: 0.5,
        stopped: true,
        omega: BTreeMap::from([
            ("flag", OldValue::Flag(true)),
            ("moves", OldValue::Integer(-3)),
            ("note", OldValue::Text("ok")),
            ("share", OldValue::Number(0.25)),
        ]),
    };
    let group = OldGroup {
        run: run(),
        lease: LeaseId(7),
        counter: OrderCounter(9),
        node: key().public(),
        trajectories: vec![trajectory(), trajectory()],
        precision: "bf16",
        caches: "kept",
        recomputed: vec![2],
    };
    let bytes = signed("echo trajectory group 1", &group);
    let read = Signed::<TrajectoryGroup>::from_bytes(&bytes).unwrap();
    let head = GroupHead { run: run(), lease: LeaseId(7), counter: OrderCounter(9), node: key().public() };
    assert_eq!(GroupHead::read(read.body()), Some(head), "it begins with what is asked for first");
    let opened = read.open_from(&key().public()).unwrap();
    assert_eq!((opened.trajectories.len(), opened.precision.as_str()), (2, "bf16"));
    let omega = &opened.trajectories[1].omega;
    assert_eq!(omega["moves"], MetaValue::Integer(-3));
    assert_eq!(omega["share"], MetaValue::Number(0.25));
    assert_eq!(omega["note"], MetaValue::Text("ok".into()));
    // To the byte: what an older learner stored is what this one would sign.
    assert_eq!(encode(&opened, MAX).unwrap(), encode(&group, MAX).unwrap());
}

#[test]
fn charters_and_receipts_keep_their_bytes() {
    let now = charter();
    let before = OldCharter {
        name: now.name.clone(),
        learner: now.learner,
        created: now.created,
        model: now.model.clone(),
        tokenizer: now.tokenizer.clone(),
        tasks: now.tasks.clone(),
        group_size: now.group_size,
        sampling: OldSampling {
            temperature: now.sampling.temperature,
            top_p: now.sampling.top_p,
            top_k: now.sampling.top_k,
            max_new_tokens: now.sampling.max_new_tokens,
        },
        staleness: now.staleness,
        snapshot_type: now.snapshot_type,
        chunk_bytes: now.chunk_bytes,
    };
    let bytes = signed("echo charter 1", &before);
    let read = Signed::<Charter>::from_bytes(&bytes).unwrap();
    assert_eq!(read.open().unwrap(), now);
    assert_eq!(RunId::of(&read), run(), "the run has the name that it had");

    let receipt = OldReceipt {
        run: run(),
        node: key().public(),
        sequence: 5,
        counter: OrderCounter(9),
        group: ContentId::of(b"a group"),
        oldest: PolicyVersion(2),
        newest: PolicyVersion(4),
        trajectories: 2,
        rewards: 1.5,
        at: UnixMillis(1_000),
    };
    let read = Signed::<Receipt>::from_bytes(&signed("echo receipt 1", &receipt)).unwrap();
    let opened = read.open().unwrap();
    assert_eq!((opened.sequence, opened.counter, opened.rewards), (5, OrderCounter(9), 1.5));
    assert_eq!(encode(&opened, MAX).unwrap(), encode(&receipt, MAX).unwrap());
}

#[test]
fn verifiers_are_understood_as_they_were() {
    let offer = b"\xa1\x65Offer\xa2\x68capacity\x02\x64held\x82\x03\x04";
    let read = VerifierMessage::from_bytes(offer).unwrap();
    let held = vec![PolicyVersion(3), PolicyVersion(4)];
    assert_eq!(read, VerifierMessage::Offer(Offer { capacity: 2, held }));

    let opinion = OldOpinion::Lie { reason: "reward", detail: "claims 1, earns 0" };
    let report = OldReport { run: run(), group: ContentId::of(b"a group"), opinion };
    let read = Signed::<Report>::from_bytes(&signed("echo check report 1", &report)).unwrap().open().unwrap();
    let detail = "claims 1, earns 0".to_owned();
    assert_eq!(read.opinion, Opinion::Lie { reason: RefuseReason::Reward, detail });
}

/// Under the name of their own version, requests are not read at all: `net::behaviour::control_codec`.
#[test]
fn heartbeats_without_an_epoch_are_none() {
    let heartbeat = OldHeartbeat {
        installed: Some(PolicyVersion(3)),
        progress: None,
        rollouts_per_s: 1.5,
        outbox: 0,
        addresses: Vec::new(),
        reach: "public",
        relays: true,
        max_upload: None,
        uplinks: Vec::new(),
        neighbourhood: 0,
    };
    let bytes = encode(&OldRequest::Heartbeat(heartbeat), MAX).unwrap();
    let refused = ControlRequest::from_bytes(&bytes).unwrap_err().to_string();
    assert!(refused.contains("epoch"), "{refused}");
}
