//! A run's directory, and what lies where in it.

use echo_protocol::identity::NodeKey;
use echo_protocol::keyfile::{self, KeyfileError};
use std::path::{Path, PathBuf};

/// A run directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// The run directory at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where the run's secret key lies.
    pub fn identity(&self) -> PathBuf {
        self.0.join("identity")
    }

    /// The run's secret key, made if there is none.
    ///
    /// # Errors
    /// When it cannot be read or made, or others can read it.
    pub fn key(&self) -> Result<NodeKey, KeyfileError> {
        let key = keyfile::load_or_create(&self.identity())?;
        keyfile::check_private(&self.identity())?;
        Ok(key)
    }

    /// The signed charter: its presence means that the run exists.
    pub fn charter(&self) -> PathBuf {
        self.0.join("charter.cbor")
    }

    /// The run file, as the run was started with.
    pub fn config(&self) -> PathBuf {
        self.0.join("run.toml")
    }

    /// The starting policy, a Hugging Face directory.
    pub fn start(&self) -> PathBuf {
        self.0.join("start")
    }

    /// The files that tasks are made of, named by their content.
    pub fn tasks(&self) -> PathBuf {
        self.0.join("tasks")
    }

    /// Checkpoints, one directory each.
    pub fn checkpoints(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    /// The database of the replay buffer and the lease book.
    pub fn database(&self) -> PathBuf {
        self.0.join("database")
    }

    /// Chunks of published snapshots.
    pub fn chunks(&self) -> PathBuf {
        self.0.join("chunks")
    }

    /// What the operator has decided about peers.
    pub fn peers_journal(&self) -> PathBuf {
        self.0.join("peers.journal")
    }

    /// What is known of peers, for the operator.
    pub fn peers(&self) -> PathBuf {
        self.0.join("peers.json")
    }

    /// Versions that were published twice, with weights that may differ.
    pub fn republished(&self) -> PathBuf {
        self.0.join("republished.json")
    }

    /// One JSON object per update and evaluation.
    pub fn metrics(&self) -> PathBuf {
        self.0.join("metrics.jsonl")
    }

    /// Event files for TensorBoard.
    pub fn tensorboard(&self) -> PathBuf {
        self.0.join("tensorboard")
    }

    /// What the run came to, written when it ends.
    pub fn summary(&self) -> PathBuf {
        self.0.join("summary.json")
    }

    /// The trained policy, a Hugging Face directory.
    pub fn policy(&self) -> PathBuf {
        self.0.join("policy")
    }

    /// Held by the one learner that works in this directory.
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }
}
