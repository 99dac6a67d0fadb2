//! A run's directory, and what lies where in it.

use echo_protocol::program::keyfile;
use echo_protocol::program::keyfile::KeyfileError;
use echo_protocol::program::lock::{DirectoryLock, LockError};
use echo_protocol::wire::identity::NodeKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The paths of a run directory; nothing need exist there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir(PathBuf);

/// Why a run's key cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum RunKeyError {
    /// The run was founded with a key that is no longer there.
    #[error("{path} is gone, and only the key in it can go on with the run: restore it from a backup")]
    Gone {
        /// The path of `identity`, where the key was.
        path: PathBuf,
    },
    /// The key's file cannot be read, made or kept private.
    #[error(transparent)]
    File(#[from] KeyfileError),
}

/// Held by the one learner that works in a run directory, until its last copy is dropped or the process dies.
#[derive(Clone, Debug)]
pub struct RunLock {
    _held: Arc<DirectoryLock>,
}

impl RunDir {
    /// The run directory at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The directory itself, as it was named.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where the run's secret key lies.
    pub fn identity(&self) -> PathBuf {
        self.0.join("identity")
    }

    /// The run's secret key. It is made if there is none, unless the run has been founded: only its own key
    /// can go on with it.
    ///
    /// # Errors
    /// When it cannot be read or made, or others can read it.
    pub fn key(&self) -> Result<NodeKey, RunKeyError> {
        let path = self.identity();
        let key = match keyfile::load(&path)? {
            Some(key) => key,
            None if self.charter().exists() => return Err(RunKeyError::Gone { path }),
            None => keyfile::load_or_create(&path)?,
        };
        keyfile::check_private(&path)?;
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

    /// What names of the Hub in the run file came to.
    pub fn sources(&self) -> PathBuf {
        self.0.join("sources.json")
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

    /// What the policy writes: a few groups of each update and evaluation, one JSON object each.
    pub fn samples(&self) -> PathBuf {
        self.0.join("samples.jsonl")
    }

    /// The samples before those, from a file that was full.
    pub fn samples_before(&self) -> PathBuf {
        self.0.join("samples.1.jsonl")
    }

    /// The rows of sets of `[[evaluation]]`, in a directory for each set.
    pub fn evaluations(&self) -> PathBuf {
        self.0.join("evaluations")
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

    /// Creates the directory if need be and takes its lock.
    ///
    /// # Errors
    /// [`LockError`]: held by another process, or the directory cannot be made.
    pub fn lock(&self) -> Result<RunLock, LockError> {
        DirectoryLock::take(&self.0).map(|lock| RunLock { _held: Arc::new(lock) })
    }

    /// Whether another process works there. Nothing is made: a directory without a lock has nobody.
    #[must_use]
    pub fn is_locked_by_somebody(&self) -> bool {
        DirectoryLock::is_taken(&self.0)
    }
}
