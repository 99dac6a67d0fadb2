//! Where the weights of installed policies lie: an [image](ImageWriter) each, which goes when the
//! last user of its policy does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use echo_policy::model::weights::{ImageWriter, Weights, expected_tensors};
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::store::SnapshotReader;

use super::InstallError;
use crate::state::data_dir::DataDirError;
use crate::workload::NodeWorkload;

/// The directory of images.
#[derive(Clone, Debug)]
pub struct Images(PathBuf);

impl Images {
    /// Opens or creates the directory.
    ///
    /// # Errors
    /// [`DataDirError::NotWritable`] when it can't be created or listed.
    pub fn open(dir: &Path) -> Result<Self, DataDirError> {
        let not_writable = |source| DataDirError::NotWritable { path: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(not_writable)?;
        // Where a file cannot do without a name, a power loss leaves it here.
        for left in fs::read_dir(dir).map_err(not_writable)?.flatten() {
            if let Err(error) = fs::remove_file(left.path()) {
                tracing::debug!(path = %left.path().display(), %error, "a file among the images stays");
            }
        }
        Ok(Self(dir.to_owned()))
    }

    /// The weights of a snapshot that fits the run. Chunks are verified on their way from the
    /// store to the image.
    ///
    /// # Errors
    /// [`InstallError::Chunk`]; [`InstallError::Weights`] when the disk has no room for them.
    pub(super) fn weights(
        &self,
        reader: &mut SnapshotReader<'_>,
        manifest: &Manifest,
        workload: &NodeWorkload,
    ) -> Result<Weights, InstallError> {
        let entries: BTreeMap<_, _> = manifest.tensors.iter().map(|entry| (&entry.name, entry)).collect();
        let mut image = ImageWriter::create(&self.0, &workload.model, workload.dtype())?;
        for spec in expected_tensors(&workload.model) {
            if let Some(entry) = entries.get(&spec.name) {
                reader.tensor(entry, |piece| Ok::<_, InstallError>(image.write(&spec.name, piece)?))?;
            }
        }
        // Says so where a tensor is missing.
        Ok(image.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_power_loss_left_is_deleted() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("images");
        Images::open(&dir).unwrap();
        fs::write(dir.join(".tmp1"), "half").unwrap();
        Images::open(&dir).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::write(home.path().join("file"), "").unwrap();
        let taken = Images::open(&home.path().join("file"));
        assert!(matches!(taken, Err(DataDirError::NotWritable { .. })));
    }
}
