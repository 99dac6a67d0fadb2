//! Messages from strangers: decoding must not panic, what is read is written in one form, and what
//! is checked is within its bounds.
#![no_main]

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use echo_fuzz::{Edit, edited, reread};
use echo_protocol::control::heartbeat::{
    Heartbeat, MAX_ADDRESS_BYTES, MAX_ADDRESSES, Offer, Reach, UplinkReport, WHOLE_PERMILLE,
};
use echo_protocol::control::requests::{
    ControlRequest, ControlResponse, MAX_NEIGHBOURS, MAX_PEER_ADDRESSES, MAX_REQUEST_BYTES,
    MAX_RESPONSE_BYTES, Neighbour, Neighbourhood, Peer,
};
use echo_protocol::dissemination::{DisseminationMode, NeighbourRole};
use echo_protocol::run::charter::{
    Charter, MAX_CHARTER_BYTES, RunId, Sampling, Takeover, TaskSpec, TokenizerSpec,
};
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::precision::{Caches, MAX_PRECISION_BYTES, PrecisionName};
use echo_protocol::run::prompt::PromptSpec;
use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::{Manifest, TensorEntry, TensorType};
use echo_protocol::wire::codec::{decode, encode};
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::rate::BytesPerSec;
use echo_protocol::wire::signed::{ENVELOPE_BYTES, Signable, Signed};
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::{HeldOrder, Lease, LeaseId, MAX_LEASE_ORDERS, ReturnReason, Returned};
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::receipt::Receipt;
use echo_protocol::work::submission::{Answer, MAX_ANSWER_BYTES, Outcome, RefuseReason};
use echo_protocol::work::trajectory::{
    Form, MAX_GROUP_BYTES, MAX_TURNS, MetaValue, Trajectory, TrajectoryGroup, VersionSpan, spans,
};
use echo_protocol::work::verification::{MAX_CAPACITY, MAX_HELD, Offer, Opinion, Report, VerifierMessage};
use libfuzzer_sys::fuzz_target;

/// The form that groups are checked against.
static FORM: LazyLock<Form> = LazyLock::new(|| Form {
    group_size: 2,
    max_new_tokens: 64,
    vocabulary: 64,
    precisions: vec![PrecisionName::default(), rounded()],
    keeps_caches: true,
    is_raw: false,
});

fuzz_target!(|input: (u8, u8, Vec<Edit>, &[u8])| {
    let (kind, sample, edits, bytes) = input;
    let samples = samples();
    let made = edited(&samples[usize::from(sample) % samples.len()], &edits);
    let bytes = if bytes.is_empty() { &made } else { bytes };
    match kind % 14 {
        0 => {
            if let Some(ControlRequest::Heartbeat(heartbeat)) = reread(bytes, MAX_REQUEST_BYTES) {
                check_heartbeat(heartbeat);
            }
        }
        1 => check_response(bytes),
        2 => {
            if let Some(answer) = reread::<Answer>(bytes, MAX_ANSWER_BYTES) {
                assert!(answer.in_version_1().receipt.is_none());
            }
        }
        3 => {
            if let Some(group) = reread::<TrajectoryGroup>(bytes, MAX_GROUP_BYTES) {
                open_own(&group);
                check_group(&group);
            }
        }
        4 => {
            if let Some(lease) = reread::<Lease>(bytes, Lease::MAX_BYTES) {
                open_own(&lease);
                check_lease(&lease);
            }
        }
        5 => {
            if let Some(charter) = reread::<Charter>(bytes, MAX_CHARTER_BYTES) {
                check_charter(&charter);
            }
        }
        6 => check_signed::<TrajectoryGroup>(bytes),
        7 => check_signed::<Lease>(bytes),
        8 => check_signed::<Charter>(bytes),
        9 => check_signed::<Receipt>(bytes),
        10 => {
            if let Some(receipt) = reread::<Receipt>(bytes, Receipt::MAX_BYTES) {
                open_own(&receipt);
            }
        }
        11 => check_word(bytes),
        12 => {
            if let Some(report) = reread::<Report>(bytes, Report::MAX_BYTES) {
                open_own(&report);
            }
        }
        _ => check_signed::<Report>(bytes),
    }
});

fn check_heartbeat(heartbeat: Heartbeat) {
    let heartbeat = heartbeat.checked();
    assert!(heartbeat.rollouts_per_s.is_finite() && heartbeat.rollouts_per_s >= 0.0);
    assert!(heartbeat.progress.is_none_or(|(_, permille)| permille <= WHOLE_PERMILLE));
    assert!(heartbeat.addresses.len() <= MAX_ADDRESSES && heartbeat.uplinks.len() <= MAX_NEIGHBOURS);
    assert!(heartbeat.addresses.iter().all(|address| address.len() <= MAX_ADDRESS_BYTES));
    assert_eq!(heartbeat.clone().checked(), heartbeat);
    // Whoever is checked can say it to others.
    ControlRequest::Heartbeat(heartbeat).to_bytes().expect("a heartbeat within its bounds is a request");
}

fn check_response(bytes: &[u8]) {
    match reread(bytes, MAX_RESPONSE_BYTES) {
        Some(
            ControlResponse::News { neighbourhood: Some(neighbourhood), .. }
            | ControlResponse::Neighbours(Some(neighbourhood)),
        ) => {
            let bounded = neighbourhood.bounded();
            assert_ne!(bounded.digest(), 0);
            let Neighbourhood { neighbours, dial, consumers, .. } = &bounded;
            assert!(
                [neighbours.len(), dial.len(), consumers.len()]
                    .iter()
                    .all(|length| *length <= MAX_NEIGHBOURS)
            );
            let mut peers = neighbours.iter().map(|neighbour| &neighbour.peer).chain(dial);
            assert!(peers.all(|peer| peer.addresses.len() <= MAX_PEER_ADDRESSES));
        }
        Some(ControlResponse::Charter(charter)) => {
            if let Ok((run, charter)) = Charter::open(&charter) {
                assert!(run.as_bytes() != &[0; 32] && charter.validate().is_ok());
            }
        }
        Some(ControlResponse::Manifest(Some(manifest))) => {
            assert!(manifest.open_from(&stranger().public()).is_err())
        }
        Some(ControlResponse::Leases { leases, .. }) => {
            assert!(leases.iter().all(|lease| lease.open_from(&stranger().public()).is_err()));
        }
        _ => {}
    }
}

fn check_group(group: &TrajectoryGroup) {
    let (oldest, newest) = (group.oldest_version(), group.newest_version());
    assert!(oldest <= newest);
    if group.check_form(&FORM).is_err() {
        return;
    }
    assert_eq!(group.trajectories.len(), FORM.group_size as usize);
    assert!(group.precision.is_default() || group.precision == rounded());
    assert!(group.caches == Caches::Recomputed || oldest < newest);
    for trajectory in &group.trajectories {
        let tokens = trajectory.response.len();
        assert!(
            trajectory.logprobs.len() == tokens && trajectory.response.iter().all(|id| *id < FORM.vocabulary)
        );
        let raw = &trajectory.raw_logprobs;
        assert!(raw.is_empty() || raw.len() == tokens && raw.iter().all(|logprob| logprob.is_finite()));
        assert_eq!(trajectory.token_versions().count(), tokens);
        assert_eq!(spans(trajectory.token_versions()), trajectory.versions);
        for other in &group.trajectories {
            let mut both = trajectory.token_versions().zip(other.token_versions());
            assert!(both.all(|(one, another)| one == another));
        }
        let mut end = 0;
        for range in trajectory.turn_ranges() {
            assert!(range.start == end && range.start < range.end);
            end = range.end;
        }
        assert!(end == tokens && trajectory.turn_ranges().count() <= MAX_TURNS);
    }
}

fn check_lease(lease: &Lease) {
    let orders: Vec<OrderCounter> = lease.orders().collect();
    assert!(orders.len() <= MAX_LEASE_ORDERS as usize);
    assert!(orders.iter().all(|order| lease.covers(*order)));
}

fn check_charter(charter: &Charter) {
    let named = |name: &PrecisionName| (1..=MAX_PRECISION_BYTES).contains(&name.as_str().len());
    assert!(charter.precisions.iter().all(named));
    if charter.validate().is_err() {
        return;
    }
    let signed = Signed::sign(charter, &stranger());
    if let Ok(signed) = signed {
        assert_eq!(Charter::open(&signed).is_ok(), charter.learner == stranger().public());
    }
}

/// Words have limits of their own besides those of their encoding.
fn check_word(bytes: &[u8]) {
    let Ok(word) = VerifierMessage::from_bytes(bytes) else { return };
    match &word {
        VerifierMessage::Offer(Offer { capacity, held }) => {
            assert!((1..=MAX_CAPACITY).contains(capacity) && held.len() <= MAX_HELD);
        }
        VerifierMessage::Report(report) => assert!(report.open_from(&stranger().public()).is_err()),
    }
    // Other forms of CBOR are read as well, and some are shorter than ours.
    if let Ok(written) = word.to_bytes() {
        assert_eq!(VerifierMessage::from_bytes(&written).expect("what was written is read"), word);
    }
}

/// An envelope around anything is read and written, and the key of nobody has signed none.
fn check_signed<T: Signable>(bytes: &[u8]) {
    let cap = T::MAX_BYTES + ENVELOPE_BYTES;
    let Some(signed) = reread::<Signed<T>>(bytes, cap) else { return };
    assert!(signed.open_from(&stranger().public()).is_err());
    if signed.verify().is_ok() {
        let again = Signed::<T>::from_bytes(&signed.to_bytes()).expect("what was written is read");
        assert!(again.verify().is_ok() && again.body_id() == signed.body_id());
    }
}

/// What one signs is opened under that key as it was, and under no other.
fn open_own<T: Signable>(value: &T) {
    let key = NodeKey::from_secret([9; 32]);
    let Ok(signed) = Signed::sign(value, &key) else { return };
    let received = Signed::<T>::from_bytes(&signed.to_bytes()).expect("what was written is read");
    let opened = received.open_from(&key.public()).expect("what was signed is opened");
    // As bytes: what is not a number equals nothing.
    assert_eq!(encode(&opened, T::MAX_BYTES).ok(), encode(value, T::MAX_BYTES).ok());
    assert!(received.open_from(&stranger().public()).is_err());
}

/// A key that nothing among the samples is signed with: no input can hold its signature.
fn stranger() -> NodeKey {
    NodeKey::from_secret([7; 32])
}

fn samples() -> &'static [Vec<u8>] {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SAMPLES.get_or_init(sound)
}

/// Sound messages of every kind.
fn sound() -> Vec<Vec<u8>> {
    let key = NodeKey::from_secret([1; 32]);
    let me = key.public();
    let run: RunId = written(&ContentId::of(b"run"));
    let group = group(run, me);
    let lease =
        Lease { run, id: LeaseId(3), node: me, first: OrderCounter(64), count: 8, lifetime_ms: 600_000 };
    let charter = charter(me);
    let receipt = Receipt {
        run,
        node: me,
        sequence: 4,
        counter: OrderCounter(65),
        group: ContentId::of(b"group"),
        oldest: PolicyVersion(2),
        newest: PolicyVersion(3),
        trajectories: 2,
        rewards: 1.5,
        at: UnixMillis(1_700_000_000_000),
    };
    let [signed_lease, signed_charter] = [signed(&lease, &key).to_bytes(), signed(&charter, &key).to_bytes()];
    let receipt_signed = signed(&receipt, &key);
    let answer = Answer {
        counter: Some(OrderCounter(65)),
        outcome: Outcome::Accepted,
        receipt: Some(Box::new(receipt_signed.clone())),
    };
    let refused = Answer::new(
        Some(OrderCounter(1)),
        Outcome::Refused { reason: RefuseReason::Schema, detail: "too long".into() },
    );
    let mut samples = vec![
        bytes(&group),
        bytes(&lease),
        bytes(&charter),
        bytes(&receipt),
        bytes(&answer),
        bytes(&refused),
        signed(&group, &key).to_bytes(),
        signed_lease,
        signed_charter,
        receipt_signed.to_bytes(),
    ];
    samples.extend(words(run, &key));
    samples.extend(requests(me).iter().map(bytes));
    let answers = responses(me, signed(&charter, &key), signed(&lease, &key), signed(&manifest(run), &key));
    samples.extend(answers.iter().map(bytes));
    samples
}

fn words(run: RunId, key: &NodeKey) -> [Vec<u8>; 6] {
    let body = |opinion| Report { run, group: ContentId::of(b"group"), opinion };
    let report = |opinion| signed(&body(opinion), key);
    let lie = report(Opinion::lie(RefuseReason::Sampling, "drawn otherwise"));
    let offer = Offer { capacity: 4, held: vec![PolicyVersion(2), PolicyVersion(3)] };
    let sound = VerifierMessage::Report(report(Opinion::Sound));
    let unable = bytes(&body(Opinion::unable("no memory")));
    let bare = bytes(&body(Opinion::lie(RefuseReason::Sampling, "drawn otherwise")));
    [
        bytes(&VerifierMessage::Offer(offer)),
        bytes(&sound),
        lie.to_bytes(),
        bytes(&VerifierMessage::Report(lie)),
        bare,
        unable,
    ]
}

fn requests(me: PublicKey) -> [ControlRequest; 6] {
    let heartbeat = Heartbeat {
        epoch: Epoch(2),
        installed: Some(PolicyVersion(2)),
        progress: Some((PolicyVersion(3), 500)),
        rollouts_per_s: 1.5,
        outbox: 2,
        addresses: vec!["/ip4/192.0.2.1/tcp/4001".into()],
        reach: Reach::default(),
        relays: true,
        max_upload: Some(BytesPerSec(5_000_000)),
        uplinks: vec![UplinkReport { peer: me, bytes: 9, bytes_per_s: 1, failed: 0, rotten: false }],
        neighbourhood: 7,
        offer: Offer { label: Some("rented".into()), class: Some("cuda".into()), micro_usd_per_hour: Some(350_000) },
    };
    [
        ControlRequest::Charter,
        ControlRequest::Heartbeat(heartbeat),
        ControlRequest::Manifest(Some(PolicyVersion(3))),
        ControlRequest::Lease {
            orders: 8,
            last: Some(HeldOrder { lease: LeaseId(3), counter: OrderCounter(9) }),
        },
        ControlRequest::Return(Returned {
            orders: vec![HeldOrder { lease: LeaseId(3), counter: OrderCounter(9) }],
            reason: ReturnReason::Undoable,
            detail: "a trap".into(),
        }),
        ControlRequest::Neighbours { lost: vec![me] },
    ]
}

fn responses(
    me: PublicKey,
    charter: Signed<Charter>,
    lease: Signed<Lease>,
    manifest: Signed<Manifest>,
) -> [ControlResponse; 8] {
    let peer = Peer { key: me, addresses: vec!["/ip4/192.0.2.1/tcp/4001".into()] };
    let neighbourhood = Neighbourhood {
        mode: DisseminationMode::Echo,
        neighbours: vec![Neighbour { peer: peer.clone(), role: NeighbourRole::Parent }],
        dial: vec![peer],
        consumers: vec![me],
    };
    [
        ControlResponse::Charter(charter),
        ControlResponse::News {
            epoch: Epoch(2),
            wall: UnixMillis(1_700_000_000_000),
            newest: Some(PolicyVersion(3)),
            neighbourhood: Some(neighbourhood.clone()),
            ended: false,
        },
        ControlResponse::Manifest(None),
        ControlResponse::Manifest(Some(manifest)),
        ControlResponse::Leases { leases: vec![lease], retry_after_ms: 500 },
        ControlResponse::Neighbours(Some(neighbourhood)),
        ControlResponse::Returned,
        ControlResponse::Refused("not now".into()),
    ]
}

fn group(run: RunId, node: PublicKey) -> TrajectoryGroup {
    let trajectory = Trajectory {
        response: vec![5, 6, 7, 2],
        turns: vec![3, 1],
        logprobs: vec![-0.5, -1.25, 0.0, -0.125],
        versions: vec![
            VersionSpan { version: PolicyVersion(2), tokens: 1 },
            VersionSpan { version: PolicyVersion(3), tokens: 3 },
        ],
        reward: 0.5,
        stopped: true,
        omega: BTreeMap::from([
            ("chips".to_owned(), MetaValue::Integer(-3)),
            ("miss".to_owned(), MetaValue::Text("cut".to_owned())),
        ]),
        raw_logprobs: vec![-0.75, -1.5, 0.0, -0.25],
    };
    TrajectoryGroup {
        run,
        lease: LeaseId(3),
        counter: OrderCounter(65),
        node,
        trajectories: vec![trajectory.clone(), trajectory],
        precision: rounded(),
        caches: Caches::Kept,
        recomputed: vec![],
    }
}

fn rounded() -> PrecisionName {
    PrecisionName::try_from("bf16".to_owned()).expect("a short plain name")
}

fn charter(learner: PublicKey) -> Charter {
    Charter {
        name: "addition".into(),
        learner,
        created: UnixMillis(1_700_000_000_000),
        model: "{}".into(),
        tokenizer: TokenizerSpec::Characters { alphabet: "ab".into() },
        tasks: vec![TaskSpec::new("chain_sum").with("digits", 2)],
        group_size: 4,
        sampling: Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, max_new_tokens: 8, draw: Default::default() },
        staleness: Staleness::new(3, None).expect("κ follows from S"),
        snapshot_type: TensorType::F32,
        chunk_bytes: 16 << 10,
        precisions: vec![PrecisionName::default(), rounded()],
        takeover: Takeover::Keep,
        prompt: PromptSpec { bos: true, end_tokens: vec![2], ..PromptSpec::default() },
    }
}

/// A tensor in one chunk.
fn manifest(run: RunId) -> Manifest {
    Manifest {
        run,
        epoch: Epoch(2),
        version: PolicyVersion(3),
        base: None,
        files: Vec::new(),
        tensors: vec![TensorEntry {
            name: "w".into(),
            dtype: TensorType::Bf16,
            shape: vec![64, 64],
            offset: 0,
        }],
        total_bytes: 8 << 10,
        chunk_bytes: 16 << 10,
        chunks: vec![ContentId::of(b"chunk")],
        deltas: Vec::new(),
    }
}

fn bytes<T: serde::Serialize>(message: &T) -> Vec<u8> {
    encode(message, MAX_GROUP_BYTES).expect("samples are short")
}

fn signed<T: Signable>(value: &T, key: &NodeKey) -> Signed<T> {
    Signed::sign(value, key).expect("samples are short")
}

/// A run is named by a content id, and travels like one.
fn written(id: &ContentId) -> RunId {
    decode(&bytes(id), 64).expect("a run id travels like a content id")
}
