use super::*;
use crate::common::testing;
use crate::config::{CheckpointsSection, TrainSection};
use crate::fleet::capacity::CapacityState;
use crate::intake::buffer::{Count, Totals, Watermark};
use crate::intake::coordinator::CoordinatorState;
use crate::intake::leases::{LeaseSnapshot, OpenLease};
use crate::run::release::tests::deaf;
use crate::storage::run_dir::RunDir;
use crate::training::evaluation::EvaluationRow;
use crate::training::trainer::Trainer;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::lease::{Lease, LeaseId};
use echo_protocol::work::order::OrderCounter;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A state of some run, with something in every part.
pub(crate) fn state_at(run: RunId, version: u64) -> CheckpointState {
    let next = OrderCounter(4 * version + 4);
    let node = PublicKey::from_bytes([9; 32]);
    let lease =
        Lease { run, id: LeaseId(version), node, first: OrderCounter(next.0 - 2), count: 2, lifetime_ms: 7 };
    let leases = vec![OpenLease::of(lease.clone(), lease.orders())];
    let count = Count { groups: 2, trajectories: 8 };
    let totals = Totals { acknowledged: count, waiting: count, ..Totals::default() };
    let coordinator = CoordinatorState {
        leases: LeaseSnapshot { run, cursor: next, next_lease: LeaseId(version + 1), leases },
        buffer: Watermark { next_arrival: 5, totals, ..Watermark::default() },
        tally: Default::default(),
        record: Default::default(),
    };
    let evaluated =
        EvaluationRow { evaluated: version, held_out_accuracy: Some(0.1), ..EvaluationRow::default() };
    let capacity = CapacityState { usd: 1.25, ..CapacityState::default() };
    CheckpointState::new(
        run,
        PolicyVersion(version),
        Some(evaluated),
        version,
        coordinator,
        Vec::new(),
        capacity,
    )
}

/// A trainer, its run, and a directory for checkpoints.
struct Fixture {
    trainer: Trainer,
    run: RunId,
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let (workload, weights) = testing::workload();
        let trainer = Trainer::new(&workload.model, &weights, &TrainSection::default()).unwrap();
        Self { trainer, run: workload.run, dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, version: u64, name: &str) -> PathBuf {
        self.dir.path().join(format!("{version:012}")).join(name)
    }

    fn open(&self) -> Checkpoints {
        Checkpoints::in_directory(self.dir.path(), 3).unwrap()
    }

    async fn write(&self, checkpoints: &Checkpoints, version: u64) {
        let (decoder, optimizer) = (self.trainer.decoder(), self.trainer.optimizer().state().unwrap());
        checkpoints.write(state_at(self.run, version), decoder, &optimizer).await.unwrap();
    }

    /// The newest whole version, and how many are damaged.
    async fn newest(&self, checkpoints: &Checkpoints) -> (Option<u64>, usize) {
        let (found, damaged) = checkpoints.newest(&self.run, &Device::Cpu).await.unwrap();
        (found.map(|found| found.state.version.0), damaged.len())
    }
}

fn change(path: &Path, how: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    how(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_checkpoint_is_read_as_it_was_written() {
    let fixture = Fixture::new();
    let checkpoints = fixture.open();
    fixture.write(&checkpoints, 6).await;
    let (found, damaged) = checkpoints.newest(&fixture.run, &Device::Cpu).await.unwrap();
    let found = found.unwrap();
    assert!(damaged.is_empty());
    let parts = found.state.parts.clone();
    assert_eq!(found.state, CheckpointState { parts: parts.clone(), ..state_at(fixture.run, 6) });
    assert_eq!(
        parts["model.safetensors"].bytes,
        fs::metadata(fixture.path(6, "model.safetensors")).unwrap().len()
    );
    assert_eq!(found.state.streams.orders, OrderCounter(28));
    for (name, var) in fixture.trainer.decoder().vars() {
        let values = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(values(&found.weights[name]), values(var.as_tensor()), "{name}");
    }
    assert_eq!(found.optimizer.len(), 1 + 2 * found.weights.len());
}

#[tokio::test]
async fn every_kind_of_damage_is_passed_over() {
    type Damage = fn(&Fixture);
    let kinds: [(&str, Damage, usize); 10] = [
        ("a flipped bit in the weights", |r| change(&r.path(4, "model.safetensors"), |b| b[200] ^= 1), 1),
        (
            "a flipped bit in the optimizer",
            |r| change(&r.path(4, "optimizer.safetensors"), |b| b[99] ^= 1),
            1,
        ),
        ("truncated weights", |r| change(&r.path(4, "model.safetensors"), |b| b.truncate(100)), 1),
        ("an empty optimizer", |r| change(&r.path(4, "optimizer.safetensors"), Vec::clear), 1),
        ("no weights", |r| fs::remove_file(r.path(4, "model.safetensors")).unwrap(), 1),
        (
            "a flipped bit in a number of the state",
            |r| change(&r.path(4, "state.json"), |text| flip_a_digit(text)),
            1,
        ),
        ("a truncated state", |r| change(&r.path(4, "state.json"), |b| b.truncate(b.len() / 2)), 1),
        (
            "the state of another version",
            |r| drop(fs::copy(r.path(2, "state.json"), r.path(4, "state.json"))),
            1,
        ),
        ("another form", |r| change(&r.path(4, "state.json"), |b| *b = b"{\"form\": 2}".to_vec()), 1),
        // Killed before it was committed: it never was a checkpoint.
        ("no state", |r| fs::remove_file(r.path(4, "state.json")).unwrap(), 0),
    ];
    for (what, damage, damaged) in kinds {
        let fixture = Fixture::new();
        let checkpoints = fixture.open();
        fixture.write(&checkpoints, 2).await;
        fixture.write(&checkpoints, 4).await;
        assert_eq!(fixture.newest(&checkpoints).await, (Some(4), 0));
        damage(&fixture);
        let checkpoints = fixture.open();
        assert_eq!(fixture.newest(&checkpoints).await, (Some(2), damaged), "{what}");
        // The run comes back to the version, and replaces what is damaged.
        fixture.write(&checkpoints, 4).await;
        assert_eq!(fixture.newest(&checkpoints).await, (Some(4), 0), "{what}");
    }
}

/// Leaves `state.json` as readable as it was.
fn flip_a_digit(text: &mut [u8]) {
    let key = b"\"optimizer_steps\": ";
    let at = text.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    assert!(text[at].is_ascii_digit());
    text[at] ^= 1;
}

#[tokio::test]
async fn the_state_of_an_earlier_learner_has_no_hash_and_is_read() {
    let fixture = Fixture::new();
    let checkpoints = fixture.open();
    fixture.write(&checkpoints, 4).await;
    change(&fixture.path(4, "state.json"), |text| {
        let mut state: serde_json::Value = serde_json::from_slice(text).unwrap();
        assert!(state.as_object_mut().unwrap().remove("blake3").is_some());
        assert!(state["desk"].is_object(), "the coordinator, by its name in the file");
        *text = serde_json::to_vec(&state).unwrap();
    });
    assert_eq!(fixture.newest(&checkpoints).await, (Some(4), 0));
}

#[tokio::test]
async fn a_reader_beside_a_learner_reads_what_is_whole_and_changes_nothing() {
    let fixture = Fixture::new();
    let checkpoints = fixture.open();
    let dir = RunDir::new(&fixture.dir.path().join("run"));
    let section = CheckpointsSection { store: fixture.dir.path().to_str().map(str::to_owned), keep: 3 };
    let look = || Checkpoints::look(&dir, &section).unwrap();
    let weights = async |wanted: Option<u64>| {
        let found = look().newest_weights(wanted.map(PolicyVersion), &fixture.run).await;
        found.map(|found| found.map(|(version, weights)| (version.0, weights.len())))
    };
    assert_eq!(weights(None).await.unwrap(), None);
    assert_eq!(look().occupied().await.unwrap(), None);
    for version in [2, 4, 6] {
        fixture.write(&checkpoints, version).await;
    }
    // The learner is just writing the next one.
    let partial = fixture.path(8, "model.safetensors#1");
    fs::create_dir(partial.parent().unwrap()).unwrap();
    fs::write(&partial, "half").unwrap();
    let tensors = fixture.trainer.decoder().vars().len();
    assert_eq!(weights(None).await.unwrap(), Some((6, tensors)));
    assert_eq!(weights(Some(2)).await.unwrap(), Some((2, tensors)));
    assert_eq!(weights(Some(3)).await.unwrap(), None);
    change(&fixture.path(6, "model.safetensors"), |bytes| bytes[300] ^= 1);
    assert_eq!(weights(None).await.unwrap(), Some((4, tensors)));
    assert!(matches!(weights(Some(6)).await, Err(CheckpointError::Damaged { .. })));
    assert!(partial.exists() && !dir.path().exists());
    assert_eq!(look().listed().await.0, [6, 4, 2].map(PolicyVersion));
}

#[tokio::test]
async fn the_newest_few_are_kept_and_nothing_that_was_never_finished() {
    let fixture = Fixture::new();
    let checkpoints = fixture.open();
    for version in [2, 4] {
        fixture.write(&checkpoints, version).await;
    }
    // A process was killed while it wrote version 5.
    fs::create_dir(fixture.path(5, "")).unwrap();
    for name in ["model.safetensors", "optimizer.safetensors#1"] {
        fs::write(fixture.path(5, name), "half").unwrap();
    }
    let checkpoints = fixture.open();
    assert!(!fixture.path(5, "optimizer.safetensors#1").exists(), "swept when the store was opened");
    assert_eq!(fixture.newest(&checkpoints).await, (Some(4), 0));
    for version in [6, 8] {
        fixture.write(&checkpoints, version).await;
    }
    let mut names: Vec<_> =
        fs::read_dir(fixture.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["000000000004", "000000000006", "000000000008"]);
    assert_eq!(checkpoints.oldest().await.unwrap(), Some(PolicyVersion(4)));
}

#[tokio::test]
async fn another_runs_checkpoints_are_refused() {
    let fixture = Fixture::new();
    let checkpoints = fixture.open();
    let other = state_at(fixture.run, 2).coordinator.leases.leases[0].lease.node;
    let other: RunId = serde_json::from_str(&serde_json::to_string(&other).unwrap()).unwrap();
    let (decoder, optimizer) = (fixture.trainer.decoder(), fixture.trainer.optimizer().state().unwrap());
    checkpoints.write(state_at(other, 2), decoder, &optimizer).await.unwrap();
    let found = checkpoints.newest(&fixture.run, &Device::Cpu).await;
    assert!(matches!(found, Err(CheckpointError::WrongRun { found, .. }) if found == other));
}

#[tokio::test]
async fn a_store_elsewhere_is_enough_when_the_machine_is_lost() {
    let fixture = Fixture::new();
    let bucket = Arc::new(InMemory::new());
    let prefix = ObjectPath::from("runs/small");
    let checkpoints = fixture.open().copied_to(bucket.clone(), prefix.clone(), "memory");
    for version in [2, 4, 6, 8] {
        fixture.write(&checkpoints, version).await;
        checkpoints.upload(PolicyVersion(version)).await.unwrap();
    }
    // Once more costs nothing, and changes nothing.
    checkpoints.upload(PolicyVersion(8)).await.unwrap();
    // Written here, and not copied yet.
    fixture.write(&checkpoints, 10).await;
    assert_eq!(fixture.newest(&checkpoints).await, (Some(10), 0));
    change(&fixture.path(10, "model.safetensors"), |bytes| bytes[300] ^= 1);
    assert!(matches!(checkpoints.upload(PolicyVersion(10)).await, Err(CheckpointError::Damaged { .. })));
    assert_eq!(fixture.newest(&checkpoints).await, (Some(8), 1), "damage is not copied");

    let elsewhere = Fixture::new();
    let checkpoints = elsewhere.open().copied_to(bucket, prefix, "memory");
    assert_eq!(elsewhere.newest(&checkpoints).await, (Some(8), 0));
    // What comes after it may be damaged: then this machine has to know it.
    assert_eq!(checkpoints.oldest().await.unwrap(), Some(PolicyVersion(8)));
    assert_eq!(elsewhere.newest(&elsewhere.open()).await, (Some(8), 0));
    checkpoints.upload(PolicyVersion(8)).await.unwrap();
    assert_eq!(checkpoints.far.as_ref().unwrap().versions().await.unwrap(), [4, 6, 8].map(PolicyVersion));
}

#[tokio::test]
async fn tensors_of_every_kind_come_back_bit_for_bit() {
    let tensors: BTreeMap<String, Tensor> = [
        ("step", Tensor::new(&[i64::MAX - 1], &Device::Cpu).unwrap()),
        ("norms", Tensor::new(&[0.1f64, 1e-300], &Device::Cpu).unwrap()),
        ("weight", Tensor::new(&[[0.1f32, -1e-40], [3.0, f32::MAX]], &Device::Cpu).unwrap()),
    ]
    .map(|(name, tensor)| (name.to_owned(), tensor))
    .into();
    let (store, at) = (InMemory::new(), ObjectPath::from("some.safetensors"));
    tensors::put(&store, &at, &tensors).await.unwrap();
    let bytes = store.get(&at).await.unwrap().bytes().await.unwrap();
    let found = candle_core::safetensors::load_buffer(&bytes, &Device::Cpu).unwrap();
    assert_eq!(found.len(), tensors.len());
    for (name, tensor) in &tensors {
        assert_eq!((found[name].dims(), found[name].dtype()), (tensor.dims(), tensor.dtype()));
        assert_eq!(found[name].to_string(), tensor.to_string());
    }
    assert_eq!(found["norms"].to_vec1::<f64>().unwrap(), [0.1, 1e-300]);
}

#[test]
fn what_is_not_ours_is_not_swept_away() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        path
    };
    let kept =
        ["photos/img#2", "photos/state.json#1", "000000000004/notes#1", "000000000004/state.json"].map(put);
    let swept = put("000000000006/model.safetensors#3");
    fs::create_dir(dir.path().join("empty")).unwrap();
    Checkpoints::in_directory(dir.path(), 3).unwrap();
    assert!(kept.iter().all(|path| path.exists()) && dir.path().join("empty").exists());
    assert!(!swept.exists() && !swept.parent().unwrap().exists());
}

#[test]
fn the_run_file_says_where() {
    let dir = tempfile::tempdir().unwrap();
    let open = |store: Option<&str>| {
        let section = CheckpointsSection { store: store.map(str::to_owned), keep: 1 };
        Checkpoints::open(&RunDir::new(&dir.path().join("run")), &section)
    };
    assert!(open(None).unwrap().far.is_none() && dir.path().join("run/checkpoints").is_dir());
    let other = dir.path().join("other");
    assert!(open(other.to_str()).unwrap().far.is_none() && other.is_dir());
    let bucket = open(Some("s3://bucket/some/prefix")).unwrap();
    let far = bucket.far.as_ref().unwrap();
    assert_eq!((far.root.as_ref(), far.keep, bucket.near.keep), ("some/prefix", 1, 1));
    for wrong in ["gs://bucket", "s3://", "s3:///prefix"] {
        assert!(matches!(open(Some(wrong)), Err(CheckpointError::Place { .. })), "{wrong}");
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_not_an_empty_one() {
    let fixture = Fixture::new();
    let checkpoints = fixture.open().copied_to(deaf(), ObjectPath::default(), "deaf");
    let nothing = checkpoints.newest(&fixture.run, &Device::Cpu).await;
    assert!(matches!(nothing, Err(CheckpointError::Store { .. })));
    fixture.write(&checkpoints, 2).await;
    let uploaded = checkpoints.upload(PolicyVersion(2)).await;
    assert!(matches!(uploaded, Err(CheckpointError::Store { .. })));
    assert_eq!(fixture.newest(&checkpoints).await, (Some(2), 1), "the disk is enough to go on");
}
