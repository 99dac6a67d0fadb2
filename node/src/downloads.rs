//! Snapshots on their way here: parents, progress, and installation once all is there.

use std::path::PathBuf;
use std::sync::Arc;

use echo_protocol::identity::PublicKey;
use echo_protocol::manifest::Manifest;
use echo_protocol::net::snapshots::{SnapshotEvent, Snapshots, Stopped};
use echo_protocol::store::ChunkStore;
use echo_protocol::version::PolicyVersion;
use tokio::sync::{mpsc, watch};

use crate::board::{Board, Download};
use crate::install::{self, InstallError, Installed};
use crate::learner::Learner;
use crate::manifests::Manifests;
use crate::workload::Workload;

/// Everything that receiving snapshots needs.
pub struct Downloads {
    /// The run.
    pub workload: Arc<Workload>,
    /// Where chunks lie.
    pub store: Arc<ChunkStore>,
    /// Fetches and serves them.
    pub snapshots: Snapshots,
    /// The manifests seen.
    pub manifests: Arc<Manifests>,
    /// Names parents.
    pub learner: Learner,
    /// Where the owner sees what happens.
    pub board: Arc<Board>,
    /// Where the manifest of the installed snapshot is kept.
    pub kept: PathBuf,
    /// What the node generates with.
    pub policy: watch::Sender<Option<Arc<Installed>>>,
}

impl Downloads {
    /// Follows the snapshot service until it stops.
    ///
    /// # Errors
    /// [`Stopped`]
    pub async fn run(self, mut events: mpsc::Receiver<SnapshotEvent>) -> Result<(), Stopped> {
        let (complete, completed) = watch::channel(None);
        // One question at a time; what comes while it is under way is asked again by the relay machine.
        let (orphan, orphans) = mpsc::channel(1);
        let follow = async {
            while let Some(event) = events.recv().await {
                match event {
                    SnapshotEvent::Install(manifest) => drop(complete.send_replace(Some(manifest))),
                    SnapshotEvent::AskParent { lost } => drop(orphan.try_send(lost)),
                    SnapshotEvent::Progress { version, have, total } => {
                        let download = Some(Download { version, have, total });
                        self.board.set(|facts| facts.download = download);
                    }
                    SnapshotEvent::CutOff(peer) => {
                        tracing::warn!(peer = %peer.short(), "cut off: it served bytes that do not match their names");
                    }
                }
            }
            Err(Stopped)
        };
        tokio::select! {
            ended = follow => ended,
            ended = self.ask_parents(orphans) => ended,
            ended = self.install(completed) => ended,
        }
    }

    async fn ask_parents(&self, mut orphans: mpsc::Receiver<Option<PublicKey>>) -> Result<(), Stopped> {
        while let Some(lost) = orphans.recv().await {
            match self.learner.parent(lost).await {
                Ok(parent) => {
                    self.board.set(|facts| facts.parent = parent.as_ref().map(|peer| peer.key.short()));
                    self.snapshots.parent(parent).await?;
                }
                Err(error) => tracing::debug!(%error, "no parent was named"),
            }
        }
        Err(Stopped)
    }

    /// Installs the newest complete snapshot; those that are overtaken meanwhile are skipped.
    async fn install(&self, mut completed: watch::Receiver<Option<Arc<Manifest>>>) -> Result<(), Stopped> {
        while completed.changed().await.is_ok() {
            let Some(manifest) = completed.borrow_and_update().clone() else { continue };
            let version = manifest.version;
            if self.installed().is_some_and(|installed| installed >= version) {
                continue;
            }
            let (store, workload) = (self.store.clone(), self.workload.clone());
            let loaded =
                tokio::task::spawn_blocking(move || install::load(&store, &manifest, &workload)).await;
            match loaded {
                Ok(Ok(installed)) => self.replace(version, installed),
                Ok(Err(InstallError::Chunk { index, source })) => {
                    tracing::warn!(%version, "not installed yet: {source}");
                    self.snapshots.damaged(version, index).await?;
                }
                Ok(Err(error)) => {
                    tracing::error!(%version, %error, "not installed; the version before stays in use")
                }
                // The only way a loading task ends early is a defect in it; the version before stays in use.
                Err(error) => {
                    tracing::error!(%version, %error, "not installed; the version before stays in use")
                }
            }
        }
        Err(Stopped)
    }

    fn replace(&self, version: PolicyVersion, installed: Installed) {
        self.policy.send_replace(Some(Arc::new(installed)));
        self.board.set(|facts| {
            facts.version = Some(version);
            facts.download = None;
        });
        tracing::info!(%version, "installed");
        if let Err(error) = self.manifests.keep(version, &self.kept) {
            tracing::warn!(%error, "the next start will have to ask for the newest snapshot first");
        }
    }

    fn installed(&self) -> Option<PolicyVersion> {
        self.policy.borrow().as_ref().map(|installed| PolicyVersion(installed.policy.version()))
    }
}
