//! Manifests: which are believed, which are news.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use echo_protocol::net::snapshots::{Snapshots, Stopped};
use echo_protocol::program::log_throttle::Paced;
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::{MAX_MANIFEST_BYTES, Manifest, ManifestError};
use echo_protocol::wire::signed::{ENVELOPE_BYTES, Signed, SignedError};
use parking_lot::Mutex;

use tokio::sync::Notify;

use crate::learner_link::client::Newest;
use crate::state::state_file;
use crate::state::state_file::StateError;
use crate::workload::{NodeWorkload, NodeWorkloadError};

/// Manifests that are remembered: the installed one, the one being received, and a few
/// between and after them.
pub const MAX_MANIFESTS: usize = 8;
/// Longest encoded manifest with its signature, in bytes.
const MAX_SIGNED_BYTES: u64 = (MAX_MANIFEST_BYTES + ENVELOPE_BYTES) as u64;

/// Of the versions that are installed, one has a line in the log in this time. A fast run makes dozens
/// a second.
pub(crate) static LINES: Paced = Paced::new(Duration::from_secs(10));

/// A manifest that no honest peer hands on.
#[derive(Debug, thiserror::Error)]
pub enum BadManifest {
    /// Not signed by the run's key, or not readable.
    #[error(transparent)]
    Signed(#[from] SignedError),
    /// Signed by the run, but contradicts itself.
    #[error(transparent)]
    Form(#[from] ManifestError),
    /// Not what the run's charter says.
    #[error(transparent)]
    Workload(#[from] NodeWorkloadError),
}

impl BadManifest {
    /// Whether a learner of another version signed it. Neighbours of that version hand it on rightly.
    pub fn is_of_another_version(&self) -> bool {
        matches!(self, Self::Signed(SignedError::Before { .. }))
    }
}

/// What a good manifest is to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestAge {
    /// Newer than everything seen: it is being fetched.
    News,
    /// The newest that is known already.
    Known,
    /// Older than what is known, or of another epoch than the learner's.
    Old,
}

/// The manifests of one run.
pub struct Manifests {
    workload: Arc<NodeWorkload>,
    snapshots: Snapshots,
    known: Mutex<Known>,
    /// Notified of every manifest that is news.
    news: Notify,
}

/// The manifests of one epoch.
#[derive(Default)]
struct Known {
    /// That of the learner; before it has answered, that of the first manifest.
    epoch: Option<Epoch>,
    seen: BTreeMap<PolicyVersion, Seen>,
}

/// A manifest that was checked.
struct Seen {
    signed: Signed<Manifest>,
    /// The version that its deltas start from.
    base: Option<PolicyVersion>,
}

impl Manifests {
    /// Announces to `snapshots` what turns out to be news.
    pub fn new(workload: Arc<NodeWorkload>, snapshots: Snapshots) -> Self {
        Self { workload, snapshots, known: Mutex::default(), news: Notify::new() }
    }

    /// Checks a manifest, and has its snapshot fetched if it is news.
    ///
    /// # Errors
    /// The inner [`BadManifest`]; the outer [`Stopped`] when nothing is fetched any more.
    pub async fn offer(&self, signed: Signed<Manifest>) -> Result<Result<ManifestAge, BadManifest>, Stopped> {
        let manifest = match self.open(&signed) {
            Ok(manifest) => manifest,
            Err(error) => return Ok(Err(error)),
        };
        let version = manifest.version;
        let standing = self.remember(&manifest, signed);
        if standing == ManifestAge::News {
            let bytes = manifest.total_bytes;
            tracing::debug!(%version, bytes, "a new snapshot");
            self.snapshots.announce(Arc::new(manifest)).await?;
            self.news.notify_one();
        }
        Ok(Ok(standing))
    }

    /// Checks the manifest of an older version that was missed, for the sake of its deltas.
    ///
    /// # Errors
    /// As [`Manifests::offer`]; one of another epoch is ignored.
    pub async fn offer_missed(&self, signed: Signed<Manifest>) -> Result<Result<(), BadManifest>, Stopped> {
        let manifest = match self.open(&signed) {
            Ok(manifest) => manifest,
            Err(error) => return Ok(Err(error)),
        };
        {
            let mut known = self.known.lock();
            if known.epoch != Some(manifest.epoch) {
                return Ok(Ok(()));
            }
            known.seen.entry(manifest.version).or_insert(Seen { signed, base: manifest.base });
        }
        self.snapshots.announce(Arc::new(manifest)).await?;
        Ok(Ok(()))
    }

    /// Whether the learner has something that was not seen here.
    pub fn lag_behind(&self, newest: Newest) -> bool {
        let known = self.known.lock();
        known.epoch != Some(newest.epoch) || newest.version > known.newest()
    }

    /// Turns to the epoch that the learner is in. What was seen of another one counts no more, even where
    /// its versions are higher.
    pub fn turn_to(&self, epoch: Epoch) {
        let mut known = self.known.lock();
        if known.epoch != Some(epoch) {
            *known = Known { epoch: Some(epoch), seen: BTreeMap::new() };
        }
    }

    /// Whether the learner is in this epoch, as far as is known.
    pub fn is_of(&self, epoch: Epoch) -> bool {
        self.known.lock().epoch.is_none_or(|known| known == epoch)
    }

    /// Waits until there was news since the last call.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// A version between an older one that was seen and the newest, which lacks only this manifest
    /// to be reached by deltas.
    pub fn missed(&self) -> Option<PolicyVersion> {
        missed(&self.known.lock().seen.iter().map(|(version, seen)| (*version, seen.base)).collect())
    }

    fn open(&self, signed: &Signed<Manifest>) -> Result<Manifest, BadManifest> {
        let manifest = signed.open_from(&self.workload.learner)?;
        manifest.validate()?;
        self.workload.check(&manifest)?;
        Ok(manifest)
    }

    fn remember(&self, manifest: &Manifest, signed: Signed<Manifest>) -> ManifestAge {
        let mut known = self.known.lock();
        if *known.epoch.get_or_insert(manifest.epoch) != manifest.epoch {
            return ManifestAge::Old;
        }
        let (version, base, seen) = (manifest.version, manifest.base, &mut known.seen);
        match seen.last_key_value().map(|(newest, _)| *newest) {
            Some(newest) if version < newest => ManifestAge::Old,
            Some(newest) if version == newest => ManifestAge::Known,
            _ => {
                seen.insert(version, Seen { signed, base });
                while seen.len() > MAX_MANIFESTS {
                    seen.pop_first();
                }
                ManifestAge::News
            }
        }
    }

    /// The newest version seen.
    pub fn newest(&self) -> Option<PolicyVersion> {
        self.known.lock().newest()
    }

    /// Keeps the manifest of an installed version at `path`, for the next start. Does nothing for a
    /// version no longer remembered.
    ///
    /// # Errors
    /// [`StateError::Io`]; the manifest before it is then still kept.
    pub fn keep(&self, version: PolicyVersion, path: &Path) -> Result<(), StateError> {
        let signed = self.known.lock().seen.get(&version).map(|seen| seen.signed.to_bytes());
        signed.map_or(Ok(()), |bytes| state_file::write_bytes(path, &bytes, true))
    }

    /// The manifest kept at `path` by an earlier start; `None` if there is none, or nothing readable.
    pub fn kept(path: &Path) -> Option<Signed<Manifest>> {
        match state_file::read_bytes(path, MAX_SIGNED_BYTES) {
            Ok(bytes) => Signed::from_bytes(&bytes?).ok(),
            Err(error) => {
                tracing::warn!(%error, "starting without the snapshot of last time");
                None
            }
        }
    }
}

impl Known {
    fn newest(&self) -> Option<PolicyVersion> {
        self.seen.last_key_value().map(|(version, _)| *version)
    }
}

/// Follows the bases of the newest version down to the first that is not among the `bases`,
/// if anything older is.
fn missed(bases: &BTreeMap<PolicyVersion, Option<PolicyVersion>>) -> Option<PolicyVersion> {
    let (oldest, newest) = (*bases.first_key_value()?.0, *bases.last_key_value()?.0);
    let mut version = newest;
    // Bases are older than what they are the base of, as every manifest was checked, so this ends.
    while let Some(base) = bases.get(&version) {
        version = (*base)?;
    }
    (oldest < version).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::identity::NodeKey;

    #[test]
    fn nobody_is_blamed_for_manifests_of_an_earlier_version() {
        let (context, before) = ("echo snapshot manifest 3", "echo snapshot manifest 2");
        assert!(BadManifest::from(SignedError::Before { context, before }).is_of_another_version());
        let key = NodeKey::from_secret([1; 32]).public();
        assert!(!BadManifest::from(SignedError::Signature { context, key }).is_of_another_version());
    }

    #[test]
    fn what_is_missed_is_the_first_gap_below_the_newest() {
        let seen = |entries: &[(u64, u64)]| {
            let base = |base: u64| (base > 0).then_some(PolicyVersion(base));
            let entries = entries.iter().map(|(version, of)| (PolicyVersion(*version), base(*of)));
            missed(&entries.collect()).map(|version| version.0)
        };
        assert_eq!(seen(&[]), None);
        assert_eq!(seen(&[(4, 3)]), None, "a newcomer holds nothing that deltas apply to");
        assert_eq!(seen(&[(2, 1), (4, 3)]), Some(3));
        assert_eq!(seen(&[(2, 1), (5, 4)]), Some(4));
        assert_eq!(seen(&[(2, 1), (4, 3), (5, 4)]), Some(3));
        assert_eq!(seen(&[(2, 1), (3, 2), (4, 3)]), None);
        assert_eq!(seen(&[(2, 1), (4, 0)]), None, "a key frame starts from nothing");
    }
}
