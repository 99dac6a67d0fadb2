//! The files of a local network.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Paths within the directory of a network; all are absolute.
#[derive(Clone, Debug)]
pub struct NetworkLayout {
    dir: PathBuf,
}

impl NetworkLayout {
    /// A network's directory, made if need be.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        Ok(Self { dir: std::path::absolute(dir)? })
    }

    /// The learner's directory: checkpoints, buffer, `metrics.jsonl`, the exported policy.
    #[must_use]
    pub fn run_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// The metrics of the run, one JSON object a line.
    #[must_use]
    pub fn metrics(&self) -> PathBuf {
        self.run_dir().join("metrics.jsonl")
    }

    /// The run file that the learner is started with.
    #[must_use]
    pub fn run_config(&self) -> PathBuf {
        self.dir.join("run.toml")
    }

    /// The learner's identity, which the list has to name before the learner starts.
    #[must_use]
    pub fn learner_identity(&self) -> PathBuf {
        self.run_dir().join("identity")
    }

    /// The data directory of a volunteer.
    #[must_use]
    pub fn node_dir(&self, name: &str) -> PathBuf {
        self.dir.join("nodes").join(name)
    }

    /// What a volunteer last wrote of itself to `status.json` in its data directory; `None`
    /// before the first time.
    #[must_use]
    pub fn node_status(&self, name: &str) -> Option<serde_json::Value> {
        let text = fs::read(self.node_dir(name).join("status.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The data directory of the bootstrap node.
    #[must_use]
    pub fn bootstrap_dir(&self) -> PathBuf {
        self.dir.join("bootstrap")
    }

    /// Where the bootstrap node writes its addresses.
    #[must_use]
    pub fn addresses(&self) -> PathBuf {
        self.bootstrap_dir().join("addresses")
    }

    /// The key with which the peer list is signed.
    #[must_use]
    pub fn keeper_key(&self) -> PathBuf {
        self.dir.join("keeper.key")
    }

    /// The draft of the peer list.
    #[must_use]
    pub fn draft(&self) -> PathBuf {
        self.dir.join("peers.toml")
    }

    /// The signed peer list.
    #[must_use]
    pub fn list(&self) -> PathBuf {
        self.dir.join("echo.peers")
    }

    /// The log of a process.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{name}.log"))
    }
}
