//! Versions that were published twice: before a learner went back to an older checkpoint, and after.
//!
//! Nothing says that training gives the same weights again, on another device or with another run
//! file, so nodes may hold such a version as it was before, however often the learner starts anew
//! meanwhile. Which they are is therefore kept in the run directory, until nothing is admitted
//! under them any more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use serde::{Deserialize, Serialize};

use crate::storage::atomic_file::{FileError, write_whole};

/// Why the list of versions that were published twice cannot be kept or read back.
#[derive(Debug, thiserror::Error)]
pub enum RepublishedError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The list of versions that were published twice is not what was written.
    #[error(
        "{path} is damaged ({why}): restore it from a backup. Without one, move it away: the run goes on, and groups of versions that were \
         published twice may be refused for some updates"
    )]
    Damaged {
        /// `republished.json` of the run directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// Ranges of versions, both ends included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Republished(Vec<(PolicyVersion, PolicyVersion)>);

impl Republished {
    /// What is kept at `path`; nothing where no file is.
    ///
    /// # Errors
    /// When the file cannot be read, or is damaged.
    pub fn load(path: &Path) -> Result<Self, RepublishedError> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| RepublishedError::Damaged { path: path.to_owned(), why: error.to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(FileError { path: path.to_owned(), source }.into()),
        }
    }

    /// Keeps it at `path`, durably.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), RepublishedError> {
        let bytes = serde_json::to_vec(self).map_err(io::Error::from);
        let bytes = bytes.map_err(|source| FileError { path: path.to_owned(), source })?;
        Ok(write_whole(path, &bytes)?)
    }

    /// The same for a learner that goes on from `at`, where `published` is the newest version
    /// that was published before.
    #[must_use]
    pub fn resumed(mut self, staleness: &Staleness, at: PolicyVersion, published: PolicyVersion) -> Self {
        let again = (at.next(), published);
        let is_known = self.0.iter().any(|(first, last)| *first <= again.0 && again.1 <= *last);
        if published > at && !is_known {
            self.0.push(again);
        }
        self.0.retain(|(_, last)| *last > at || staleness.admits(*last, at));
        self
    }

    /// The newest version that was published before and is not made again yet, or was not when it was noted.
    #[must_use]
    pub fn newest(&self) -> Option<PolicyVersion> {
        self.0.iter().map(|(_, last)| *last).max()
    }

    /// Whether nodes may hold `version` with other weights.
    #[must_use]
    pub fn contains(&self, version: PolicyVersion) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumed(before: &Republished, at: u64, published: u64) -> Republished {
        let staleness = Staleness::new(3, None).unwrap();
        before.clone().resumed(&staleness, PolicyVersion(at), PolicyVersion(published))
    }

    fn versions(republished: &Republished) -> Vec<u64> {
        (0..30).filter(|version| republished.contains(PolicyVersion(*version))).collect()
    }

    #[test]
    fn ranges_add_up_and_are_forgotten_when_nothing_is_admitted_under_them() {
        let none = Republished::default();
        assert_eq!(resumed(&none, 6, 6), none, "nothing was published behind the checkpoint");
        let first = resumed(&none, 4, 6);
        assert_eq!(versions(&first), [5, 6]);
        assert_eq!(resumed(&first, 4, 4), first, "the next process sees nothing of it any more");
        assert_eq!((none.newest(), first.newest()), (None, Some(PolicyVersion(6))));
        assert_eq!(resumed(&first, 5, 6), first, "as often as that happens");
        assert_eq!(versions(&resumed(&first, 8, 9)), [5, 6, 9]);
        assert_eq!(versions(&resumed(&first, 10, 12)), [11, 12], "S = 3");
    }

    #[test]
    fn it_is_on_disk_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("republished.json");
        assert_eq!(Republished::load(&path).unwrap(), Republished::default());
        let kept = resumed(&resumed(&Republished::default(), 4, 6), 8, 9);
        kept.save(&path).unwrap();
        assert_eq!(Republished::load(&path).unwrap(), kept);
        for damaged in [&b"[[5,"[..], b"", b"\0\0\0"] {
            fs::write(&path, damaged).unwrap();
            let error = Republished::load(&path).unwrap_err().to_string();
            assert!(
                error.contains("republished.json is damaged") && error.contains("move it away"),
                "{error}"
            );
        }
    }
}
