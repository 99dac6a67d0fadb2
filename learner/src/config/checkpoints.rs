//! `[checkpoints]`

use crate::checkpoint::DEFAULT_KEEP;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// `[checkpoints]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointsSection {
    /// A directory (relative paths are relative to the run file), or `s3://BUCKET/PREFIX`; left out, `checkpoints` in the run directory.
    pub store: Option<String>,
    /// How many are kept.
    pub keep: usize,
}

impl Default for CheckpointsSection {
    fn default() -> Self {
        Self { store: None, keep: DEFAULT_KEEP }
    }
}

impl CheckpointsSection {
    /// Replaces a directory by what `change` makes of it; URLs stay.
    pub(crate) fn resolve<E>(&mut self, change: impl FnOnce(&Path) -> Result<PathBuf, E>) -> Result<(), E> {
        if let Some(store) = self.store.as_mut().filter(|store| !store.contains("://")) {
            *store = change(Path::new(store))?.to_string_lossy().into_owned();
        }
        Ok(())
    }
}
