//! The data of tests on disk: each file once, named by its content.
//!
//! Problem sets share inputs, and many suites are judged again and again: they name what they
//! need by its BLAKE3, and a node that has it once has it for all. What is read is verified;
//! what a disk has damaged is deleted and asked for again. When the store is full, what was not
//! used for longest goes.

use std::fs::{self, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use echo_protocol::wire::content_id::ContentId;
use hashlink::LinkedHashMap;
use parking_lot::Mutex;

use crate::task::files::TaskFiles;

/// Bytes of one file of a test.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// The file that whoever uses the store has locked.
const LOCK: &str = "lock";

/// What names of files begin with that are being written.
const DRAFT: &str = ".draft-";

/// Files in one store; beyond that, what was not used for longest goes.
pub const MAX_FILES: usize = 1 << 20;

/// Why data of a test cannot be had or kept.
#[derive(Debug, thiserror::Error)]
pub enum TestStoreError {
    /// It was never put here, or had to go.
    #[error("the test data {id} is not in the store; put it there, then judge again")]
    Missing {
        /// The BLAKE3 of the data that a test names.
        id: ContentId,
    },
    /// The file on disk is not what its name says; it has been deleted.
    #[error(
        "the test data {id} was damaged on disk and has been deleted; put it there again, and check this disk"
    )]
    Damaged {
        /// The BLAKE3 that the file's content no longer has.
        id: ContentId,
    },
    /// More bytes than one file, or the whole store, may have.
    #[error(
        "{bytes} bytes of test data exceed the limit of {limit}; split the test, or give the store more room"
    )]
    TooLarge {
        /// How many there are.
        bytes: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// Another process uses it.
    #[error(
        "another process is using the store of test data at {path}; stop it, or choose another directory"
    )]
    InUse {
        /// The directory that the other process has locked.
        path: PathBuf,
    },
    /// The disk cannot be read or written, or is full.
    #[error(
        "the store of test data at {path}: {source}; make it a directory that can be written, on a disk with room"
    )]
    Disk {
        /// The store's directory, given to [`TestStore::open`].
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Where a judge reads the data of tests. Calls may block, and come from many threads.
pub trait TestData: std::fmt::Debug + Send + Sync {
    /// Reads all bytes whose BLAKE3 is `id`.
    ///
    /// # Errors
    /// When it is not there, or cannot be read.
    fn read(&self, id: ContentId) -> Result<Vec<u8>, TestStoreError>;
}

impl TestData for TestStore {
    fn read(&self, id: ContentId) -> Result<Vec<u8>, TestStoreError> {
        self.get(id)
    }
}

/// Data in memory: that of tasks, which brought it with their file.
impl TestData for TaskFiles {
    fn read(&self, id: ContentId) -> Result<Vec<u8>, TestStoreError> {
        self.get(&id).map(|bytes| bytes.to_vec()).ok_or(TestStoreError::Missing { id })
    }
}

/// A directory of files named by their content. Calls block and may come from many threads.
#[derive(Debug)]
pub struct TestStore {
    dir: PathBuf,
    /// Held as long as the store is used.
    _lock: fs::File,
    capacity: u64,
    index: Mutex<Index>,
}

/// Which files there are, the one that was not used for longest first.
#[derive(Debug, Default)]
struct Index {
    lengths: LinkedHashMap<ContentId, u64>,
    total: u64,
}

impl TestStore {
    /// Opens the store at `dir`, which is made if need be, for at most `capacity` bytes. One
    /// process uses it at a time: what an earlier one was writing when it was killed is deleted.
    /// Files that do not belong there are left alone.
    ///
    /// # Errors
    /// When another process uses it, or the directory cannot be made or read.
    pub fn open(dir: &Path, capacity: u64) -> Result<Self, TestStoreError> {
        let disk = |source| TestStoreError::Disk { path: dir.into(), source };
        fs::create_dir_all(dir).map_err(disk)?;
        let lock = fs::File::create(dir.join(LOCK)).map_err(disk)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(TestStoreError::InUse { path: dir.into() }),
            Err(TryLockError::Error(source)) => return Err(disk(source)),
        }
        let store = Self { dir: dir.into(), _lock: lock, capacity, index: Mutex::default() };
        let failed = |source| store.failed(source);
        let mut found = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let data = entry.metadata().map_err(failed)?;
            let name = entry.file_name();
            if data.is_file() && name.as_encoded_bytes().starts_with(DRAFT.as_bytes()) {
                fs::remove_file(entry.path()).map_err(failed)?;
                continue;
            }
            let id = name.to_str().and_then(ContentId::from_hex);
            if let (Some(id), true) = (id, data.is_file()) {
                found.push((data.modified().map_err(failed)?, id, data.len()));
            }
        }
        found.sort_unstable();
        {
            let mut index = store.index.lock();
            for (_, id, length) in found {
                store.note(&mut index, id, length);
            }
        }
        Ok(store)
    }

    /// Keeps `bytes`, and returns their name. What is there already is not written again.
    ///
    /// # Errors
    /// When there are too many bytes, or the disk fails.
    pub fn put(&self, bytes: &[u8]) -> Result<ContentId, TestStoreError> {
        let length = bytes.len() as u64;
        let limit = self.capacity.min(MAX_FILE_BYTES);
        if length > limit {
            return Err(TestStoreError::TooLarge { bytes: length, limit });
        }
        let id = ContentId::of(bytes);
        if self.contains(id) {
            return Ok(id);
        }
        let failed = |source| self.failed(source);
        let mut draft = tempfile::Builder::new().prefix(DRAFT).tempfile_in(&self.dir).map_err(failed)?;
        draft.write_all(bytes).map_err(failed)?;
        let mut index = self.index.lock();
        draft.persist(self.path(id)).map_err(|error| failed(error.error))?;
        self.note(&mut index, id, length);
        Ok(id)
    }

    /// Whether `id` is here. It counts as used.
    pub fn contains(&self, id: ContentId) -> bool {
        self.index.lock().lengths.to_back(&id).is_some()
    }

    /// Those of `ids` that would have to be put here.
    pub fn missing(&self, ids: impl IntoIterator<Item = ContentId>) -> Vec<ContentId> {
        ids.into_iter().filter(|id| !self.contains(*id)).collect()
    }

    /// Reads what `id` names.
    ///
    /// # Errors
    /// When it is not here, or not what it should be, or the disk fails.
    pub fn get(&self, id: ContentId) -> Result<Vec<u8>, TestStoreError> {
        if !self.contains(id) {
            return Err(TestStoreError::Missing { id });
        }
        let mut bytes = Vec::new();
        match fs::File::open(self.path(id)) {
            // A file that has grown is damaged, and not read to its end.
            Ok(file) => {
                file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|source| self.failed(source))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.forget(id);
                return Err(TestStoreError::Missing { id });
            }
            Err(source) => return Err(self.failed(source)),
        };
        if id.matches(&bytes) {
            return Ok(bytes);
        }
        self.forget(id);
        Err(TestStoreError::Damaged { id })
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.index.lock().total
    }

    fn note(&self, index: &mut Index, id: ContentId, length: u64) {
        if let Some(replaced) = index.lengths.insert(id, length) {
            index.total -= replaced;
        }
        index.total += length;
        while index.total > self.capacity || index.lengths.len() > MAX_FILES {
            let Some((oldest, length)) = index.lengths.pop_front() else { break };
            index.total -= length;
            // What cannot be deleted is in nobody's way: its name no longer counts.
            let _ = fs::remove_file(self.path(oldest));
        }
    }

    fn forget(&self, id: ContentId) {
        let mut index = self.index.lock();
        if let Some(length) = index.lengths.remove(&id) {
            index.total -= length;
            let _ = fs::remove_file(self.path(id));
        }
    }

    fn path(&self, id: ContentId) -> PathBuf {
        self.dir.join(id.to_string())
    }

    fn failed(&self, source: io::Error) -> TestStoreError {
        TestStoreError::Disk { path: self.dir.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn data_is_kept_once_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = TestStore::open(dir.path(), 100).unwrap();
        let id = store.put(b"1 2 3\n").unwrap();
        assert_eq!(store.put(b"1 2 3\n").unwrap(), id);
        assert_eq!((store.get(id).unwrap().as_slice(), store.bytes()), (b"1 2 3\n".as_slice(), 6));
        let other = ContentId::of(b"other");
        assert_eq!(store.missing([id, other]), [other]);
        assert!(matches!(store.get(other), Err(TestStoreError::Missing { .. })));
        fs::write(dir.path().join("notes.txt"), "not ours").unwrap();
        fs::write(dir.path().join(".draft-x"), "what a killed process was writing").unwrap();
        assert!(matches!(TestStore::open(dir.path(), 100), Err(TestStoreError::InUse { .. })));
        drop(store);
        let store = TestStore::open(dir.path(), 100).unwrap();
        assert_eq!((store.get(id).unwrap().as_slice(), store.bytes()), (b"1 2 3\n".as_slice(), 6));
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let expected = [id.to_string(), "lock".into(), "notes.txt".into()];
        assert_eq!(names.collect::<BTreeSet<_>>(), expected.map(Into::into).into());
    }

    #[test]
    fn what_a_disk_damaged_is_not_returned() {
        let dir = tempfile::tempdir().unwrap();
        let store = TestStore::open(dir.path(), 100).unwrap();
        let [damaged, gone] = [b"abc", b"def"].map(|bytes| store.put(bytes).unwrap());
        fs::write(store.path(damaged), "abd").unwrap();
        fs::remove_file(store.path(gone)).unwrap();
        assert!(matches!(store.get(damaged), Err(TestStoreError::Damaged { .. })));
        assert!(matches!(store.get(damaged), Err(TestStoreError::Missing { .. })));
        assert!(matches!(store.get(gone), Err(TestStoreError::Missing { .. })));
        assert_eq!(store.bytes(), 0);
        assert_eq!(store.put(b"abc").unwrap(), damaged);
        store.get(damaged).unwrap();
    }

    #[test]
    fn a_full_store_forgets_what_was_not_used_for_longest() {
        let dir = tempfile::tempdir().unwrap();
        let store = TestStore::open(dir.path(), 8).unwrap();
        let [first, second] = [b"aaa", b"bbb"].map(|bytes| store.put(bytes).unwrap());
        store.get(first).unwrap();
        let third = store.put(b"ccc").unwrap();
        assert_eq!(store.missing([first, second, third]), [second]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "with the lock");
        assert!(matches!(store.put(b"123456789"), Err(TestStoreError::TooLarge { limit: 8, .. })));
        // Opened with less room, it is made to fit.
        drop(store);
        assert_eq!(TestStore::open(dir.path(), 4).unwrap().bytes(), 3);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
