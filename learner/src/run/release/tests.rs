use super::*;
use crate::common::testing;
use crate::config::{SnapshotSection, TrainSection};
use crate::publishing::checkpoint::state_at;
use echo_protocol::store::ChunkStore;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as ObjectPath;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use parking_lot::Mutex;
use std::net::TcpListener;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A version that was announced, and whether its checkpoint was on the disk then.
type Announced = Arc<Mutex<Vec<(PolicyVersion, bool)>>>;

/// A learner without a network.
pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    runtime: Runtime,
    pub(crate) shared: Arc<SharedState>,
    trainer: Trainer,
    announced: Announced,
    pub(crate) stop: CancellationToken,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let (workload, weights) = testing::workload();
        let trainer = Trainer::new(&workload.model, &weights, &TrainSection::default()).unwrap();
        let shared = Arc::new(testing::shared(Arc::new(workload), 4));
        let (dir, runtime) = (tempfile::tempdir().unwrap(), Runtime::new().unwrap());
        let (announced, stop) = (Announced::default(), CancellationToken::new());
        Self { dir, runtime, shared, trainer, announced, stop }
    }

    fn path(&self, version: u64, name: &str) -> PathBuf {
        self.dir.path().join("checkpoints").join(format!("{version:012}")).join(name)
    }

    pub(crate) fn checkpoints(&self) -> Checkpoints {
        Checkpoints::in_directory(&self.dir.path().join("checkpoints"), 3).unwrap()
    }

    pub(crate) fn releases(&self, checkpoints: Checkpoints) -> Releases {
        let store = Arc::new(ChunkStore::open(&self.dir.path().join("chunks")).unwrap());
        let (announced, home) = (self.announced.clone(), self.dir.path().join("checkpoints"));
        let announce = move |manifest: Arc<Manifest>, _: Signed<Manifest>| {
            let state = home.join(format!("{:012}/state.json", manifest.version.0));
            announced.lock().push((manifest.version, state.exists()));
        };
        Releases::start(Releaser {
            checkpoints,
            publisher: Publisher::new(store, Vec::new(), SnapshotSection::default()),
            announce: Box::new(announce),
            shared: self.shared.clone(),
            runtime: self.runtime.handle().clone(),
            stop: self.stop.clone(),
        })
        .unwrap()
    }

    pub(crate) fn release(&self, releases: &mut Releases, version: u64) -> Result<(), ReleaseError> {
        releases.checkpoint(state_at(self.shared.workload.run, version), &self.trainer)?;
        releases.publish(PolicyVersion(version), &self.trainer)
    }

    pub(crate) fn announced(&self) -> Vec<(u64, bool)> {
        self.announced.lock().iter().map(|(version, durable)| (version.0, *durable)).collect()
    }
}

fn published(releases: &mut Releases) -> Vec<u64> {
    releases.published().iter().map(|row| row.published).collect()
}

/// A store where nobody listens.
pub(crate) fn deaf() -> Arc<dyn ObjectStore> {
    store_at("http://127.0.0.1:1")
}

/// A store that takes connections and answers nothing, as long as its listener is there.
pub(crate) fn mute() -> (TcpListener, Arc<dyn ObjectStore>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = store_at(&format!("http://{}", listener.local_addr().unwrap()));
    (listener, store)
}

fn store_at(endpoint: &str) -> Arc<dyn ObjectStore> {
    let store = AmazonS3Builder::new()
        .with_bucket_name("bucket")
        .with_endpoint(endpoint)
        .with_client_options(ClientOptions::new().with_allow_http(true).with_timeout_disabled())
        .with_access_key_id("key")
        .with_secret_access_key("secret")
        .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() });
    Arc::new(store.build().unwrap())
}

#[test]
fn a_version_is_announced_behind_its_checkpoint_as_it_was_when_it_was_due() {
    let fixture = Fixture::new();
    let mut releases = fixture.releases(fixture.checkpoints());
    let before = fixture.trainer.decoder().copy_to_host().unwrap();
    fixture.release(&mut releases, 2).unwrap();
    // Training goes on at once.
    for (_, var) in fixture.trainer.decoder().vars() {
        var.set(&var.zeros_like().unwrap()).unwrap();
    }
    fixture.release(&mut releases, 4).unwrap();
    releases.finish().unwrap();
    let rows = releases.published();
    assert_eq!(rows.iter().map(|row| row.published).collect::<Vec<_>>(), [2, 4]);
    // The checkpoint is part of it.
    assert!(rows.iter().all(|row| row.release_s > row.publish_s), "{rows:?}");
    assert_eq!(fixture.announced(), [(2, true), (4, true)]);
    let read = |version: u64| {
        let bytes = std::fs::read(fixture.path(version, "model.safetensors")).unwrap();
        candle_core::safetensors::load_buffer(&bytes, &candle_core::Device::Cpu).unwrap()
    };
    let values = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let (first, second) = (read(2), read(4));
    for (name, var) in before.vars() {
        assert_eq!(values(&first[name]), values(var.as_tensor()), "{name}");
        assert!(values(&second[name]).iter().all(|value| *value == 0.0), "{name}");
    }
}

#[test]
fn a_version_whose_checkpoint_cannot_be_written_is_not_announced_and_none_after_it() {
    let fixture = Fixture::new();
    let mut releases = fixture.releases(fixture.checkpoints());
    fixture.release(&mut releases, 2).unwrap();
    releases.wait().unwrap();
    std::fs::write(fixture.dir.path().join("checkpoints/000000000004"), "in the way").unwrap();
    let failed = match fixture.release(&mut releases, 4).and_then(|()| releases.wait()) {
        Err(ReleaseError::Checkpoint(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(failed.to_string().contains("is the disk full"), "{failed}");
    let after = fixture.release(&mut releases, 6).and_then(|()| releases.wait());
    assert!(matches!(after, Err(ReleaseError::Gone)), "{after:?}");
    assert_eq!((published(&mut releases), fixture.announced()), (vec![2], vec![(2, true)]));
}

#[test]
fn what_is_not_in_its_store_is_not_announced_and_holds_nobody_who_does_not_wait_for_it() {
    type Leave = fn(&Fixture, &Releases);
    let ways: [Leave; 2] = [|fixture, _| fixture.stop.cancel(), |_, releases| releases.leave()];
    for leave in ways {
        let fixture = Fixture::new();
        let checkpoints = fixture.checkpoints().copied_to(deaf(), ObjectPath::default(), "deaf");
        let mut releases = fixture.releases(checkpoints);
        fixture.release(&mut releases, 2).unwrap();
        while !fixture.path(2, "state.json").exists() {
            releases.look().unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        leave(&fixture, &releases);
        fixture.release(&mut releases, 4).unwrap();
        releases.finish().unwrap();
        assert_eq!((published(&mut releases), fixture.announced()), (vec![], vec![]));
        assert!(fixture.path(4, "state.json").exists());
    }
}
