//! Versions that a node was not told of when they were published: it was away, or the announcement was lost.
//!
//! The newest version is served once the node has asked for what it missed. Else all of its chunks
//! could be here before the node knows how to do without them.

use super::*;
use crate::snapshots::manifests::Manifests;
use tempfile::TempDir;

/// A learner that has published, and the settings of the node that follows.
struct Scene {
    _dir: TempDir,
    learner: FakeLearner,
    settings: Settings,
    newest: Arc<Manifest>,
}

impl Scene {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let learner = FakeLearner::start(dir.path(), loopback(), Arc::default()).await;
        let newest = learner.publish(1).await;
        let settings = relaying(dir.path(), &learner.host);
        Self { _dir: dir, learner, settings, newest }
    }

    /// Publishes so many updates, each with deltas against the one before. All but the last are served.
    async fn publish(&mut self, updates: usize) {
        let mut published = Vec::new();
        for _ in 0..updates {
            self.newest = Arc::new(testing::update(&self.learner.store, &self.newest));
            published.push(self.newest.clone());
        }
        for older in &published[..updates - 1] {
            self.learner.snapshots.publish(older.clone()).await.unwrap();
        }
        self.learner.tell(&published);
    }

    async fn serve_newest(&self) {
        self.learner.snapshots.publish(self.newest.clone()).await.unwrap();
    }

    async fn sent_bytes(&self) -> u64 {
        self.learner.snapshots.stats().await.unwrap().sent_bytes
    }

    /// Waits until the learner has sent more than so many bytes.
    async fn sends_more_than(&self, bytes: u64) {
        let wait = async {
            while self.sent_bytes().await <= bytes {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("what was missed is fetched");
    }

    /// Waits until the newest version is installed.
    async fn installed(&self) {
        let version = Some(self.newest.version);
        until(&self.learner.books, |books| books.heartbeat.installed == version).await;
    }

    /// The node, which has stopped, holds the newest version bit for bit.
    async fn ends_whole(self) {
        let data = self.settings.data();
        assert_eq!(Manifests::kept(&data.installed()).unwrap().open().unwrap(), *self.newest);
        let store = ChunkStore::open(&data.chunks()).unwrap();
        for id in &self.newest.chunks {
            assert!(store.read(id).unwrap() == self.learner.store.read(id).unwrap(), "{id} differs");
        }
        self.learner.die().await;
    }
}

/// Ends a node; how many bytes of snapshots it has received.
async fn stopped((stop, running): (CancellationToken, tokio::task::JoinHandle<NodeSummary>)) -> u64 {
    stop.cancel();
    running.await.unwrap().facts.traffic.received_bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_away_for_as_many_versions_as_are_kept_follows_by_their_deltas() {
    let mut scene = Scene::new().await;
    let node = start(&scene.settings);
    scene.installed().await;
    stopped(node).await;

    scene.publish(KEPT_VERSIONS).await;
    let sent = scene.sent_bytes().await;
    let node = start(&scene.settings);
    scene.sends_more_than(sent).await;
    scene.serve_newest().await;
    scene.installed().await;
    let received = stopped(node).await;
    assert!(received < scene.newest.total_bytes / 10, "{received} bytes");
    scene.ends_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_away_for_longer_fetches_the_newest_version_whole() {
    let mut scene = Scene::new().await;
    let node = start(&scene.settings);
    scene.installed().await;
    stopped(node).await;

    let gone = scene.newest.version.next();
    scene.publish(KEPT_VERSIONS + 1).await;
    let node = start(&scene.settings);
    until(&scene.learner.books, |books| books.asked.contains(&gone)).await;
    scene.serve_newest().await;
    scene.installed().await;
    let received = stopped(node).await;
    assert!(received >= scene.newest.total_bytes, "{received} bytes");
    scene.ends_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_whose_announcements_were_lost_are_asked_for_and_followed_by_their_deltas() {
    let mut scene = Scene::new().await;
    let node = start(&scene.settings);
    scene.installed().await;

    let whole = scene.sent_bytes().await;
    scene.publish(2).await;
    scene.sends_more_than(whole).await;
    scene.serve_newest().await;
    scene.installed().await;
    let received = stopped(node).await - whole;
    assert!(received < scene.newest.total_bytes / 10, "{received} bytes more");
    scene.ends_whole().await;
}
