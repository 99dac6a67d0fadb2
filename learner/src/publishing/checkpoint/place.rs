//! From the run file to the stores.

use super::catalog::{CheckpointCatalog, OBJECTS, VERSION_DIGITS};
use super::{CheckpointError, Checkpoints};
use crate::publishing::checkpoint::options::CheckpointsSection;
use crate::storage::run_dir::RunDir;
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What the name of a bucket begins with.
const S3: &str = "s3://";

impl Checkpoints {
    /// The checkpoints of a run: in its directory, in another one, or in a bucket.
    ///
    /// # Errors
    /// When the directory cannot be made, or the bucket's name or credentials are not understood.
    pub fn open(dir: &RunDir, section: &CheckpointsSection) -> Result<Self, CheckpointError> {
        Self::of(dir, section, Self::in_directory)
    }

    /// The same for reading alone, also where another learner is writing: nothing is made or cleaned up.
    ///
    /// # Errors
    /// When a directory cannot be opened, or the bucket's name or credentials are not understood.
    pub fn look(dir: &RunDir, section: &CheckpointsSection) -> Result<Self, CheckpointError> {
        Self::of(dir, section, Self::as_it_is)
    }

    fn of(
        dir: &RunDir,
        section: &CheckpointsSection,
        directory: fn(&Path, usize) -> Result<Self, CheckpointError>,
    ) -> Result<Self, CheckpointError> {
        let keep = section.keep;
        match section.store.as_deref() {
            None => directory(&dir.checkpoints(), keep),
            Some(url) if url.starts_with(S3) => {
                let wrong = |why: String| CheckpointError::Place { store: url.to_owned(), why };
                let place = url.trim_start_matches(S3);
                let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
                if bucket.is_empty() {
                    return Err(wrong("it names no bucket: use s3://BUCKET/PREFIX".to_owned()));
                }
                let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build();
                let store = Arc::new(store.map_err(|e| wrong(e.to_string()))?);
                let prefix = ObjectPath::parse(prefix).map_err(|e| wrong(e.to_string()))?;
                let name = format!("{S3}{bucket}");
                Ok(directory(&dir.checkpoints(), keep)?.copied_to(store, prefix, &name))
            }
            Some(url) if url.contains("://") => {
                let why = "use a directory, or s3://BUCKET/PREFIX".to_owned();
                Err(CheckpointError::Place { store: url.to_owned(), why })
            }
            Some(path) => directory(Path::new(path), keep),
        }
    }

    /// Checkpoints in a directory.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn in_directory(dir: &Path, keep: usize) -> Result<Self, CheckpointError> {
        make(dir).and_then(|()| sweep(dir)).map_err(|e| cannot_be_used(dir, &e))?;
        let store = LocalFileSystem::new_with_prefix(dir).map_err(|e| cannot_be_used(dir, &e))?;
        Ok(Self::on_disk(Arc::new(store.with_fsync(true).with_automatic_cleanup(true)), dir, keep))
    }

    /// Checkpoints in a directory that stays as it is; none where there is no directory.
    fn as_it_is(dir: &Path, keep: usize) -> Result<Self, CheckpointError> {
        if !dir.is_dir() {
            return Ok(Self::on_disk(Arc::new(InMemory::new()), dir, keep));
        }
        let store = LocalFileSystem::new_with_prefix(dir).map_err(|e| cannot_be_used(dir, &e))?;
        Ok(Self::on_disk(Arc::new(store), dir, keep))
    }

    fn on_disk(store: Arc<dyn ObjectStore>, dir: &Path, keep: usize) -> Self {
        let (root, name) = (ObjectPath::default(), dir.display().to_string());
        Self { near: CheckpointCatalog { store, root, name, keep, on_disk: true }, far: None }
    }

    /// The same, copied to another store as well.
    pub(crate) fn copied_to(mut self, store: Arc<dyn ObjectStore>, root: ObjectPath, name: &str) -> Self {
        let (keep, name) = (self.near.keep, name.to_owned());
        self.far = Some(CheckpointCatalog { store, root, name, keep, on_disk: false });
        self
    }
}

fn cannot_be_used(dir: &Path, error: &impl ToString) -> CheckpointError {
    CheckpointError::Place { store: dir.display().to_string(), why: error.to_string() }
}

/// Makes a directory whose name is as durable as what will be in it.
fn make(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir)?;
    // Directories can only be synced on Unix; elsewhere the file system's journal does it.
    match dir.parent().filter(|_| cfg!(unix)) {
        Some(parent) if !parent.as_os_str().is_empty() => fs::File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

/// Deletes what killed processes left behind: the store writes to `NAME#NUMBER` beside the
/// object, and never looks at it again. What else lies in a directory that the operator named
/// is not ours.
fn sweep(dir: &Path) -> io::Result<()> {
    let is_version = |name: &str| name.len() == VERSION_DIGITS && name.bytes().all(|b| b.is_ascii_digit());
    let left_behind = |name: &str| {
        let parts = name.rsplit_once('#');
        parts.is_some_and(|(name, number)| OBJECTS.contains(&name) && number.parse::<u64>().is_ok())
    };
    for version in fs::read_dir(dir)?.flatten() {
        if !version.path().is_dir() || !version.file_name().to_str().is_some_and(is_version) {
            continue;
        }
        for file in fs::read_dir(version.path())?.flatten() {
            if file.file_name().to_str().is_some_and(left_behind) {
                fs::remove_file(file.path())?;
            }
        }
        // Fails where something is left in it, as it should.
        let _ = fs::remove_dir(version.path());
    }
    Ok(())
}
