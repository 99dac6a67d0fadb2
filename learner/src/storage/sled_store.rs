//! The store on disk: sled 0.34, the one file that knows it.
//!
//! Three habits of sled are answered here. On Linux its flush ends in `sync_file_range`, which does
//! not survive power loss, so the file is synced again. It keeps pages above a quarter of its 512
//! KiB segments in side files that are never synced; a page holds up to 17 entries, so values are
//! cut into pieces of which 17 stay below that size. And some kinds of damage make it panic, at
//! once or at a later call, so every call goes through [`guarded`].

use std::any::Any;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::{ObjectStoreError, Store, Tree, WriteBatch};
use echo_protocol::program::{database, threads};

/// Pages that sled keeps in memory, in bytes as on disk: there they take 2.6 times as much. What is read
/// again, the groups of the next batches, was written a moment ago.
const CACHE_BYTES: u64 = 8 << 20;

/// Longest piece of a value.
const PIECE_BYTES: usize = 4 << 10;

/// Bytes of the piece number that ends every key, and of the piece count that starts every first piece.
const COUNT_BYTES: usize = 2;

/// A [`Store`] in a directory.
#[derive(Debug)]
pub struct SledStore {
    db: sled::Db,
    path: PathBuf,
    #[cfg(target_os = "linux")]
    file: fs::File,
}

impl SledStore {
    /// Opens the store in the directory `path`, creating it when there is none.
    ///
    /// # Errors
    /// When another process has it open, its files are damaged, or the file system fails.
    pub fn open(path: &Path) -> Result<Self, ObjectStoreError> {
        Self::open_with(sled::Config::new(), path)
    }

    /// A store whose files change only when its methods are called, so that a copy of them is
    /// what `kill -9` leaves.
    #[cfg(test)]
    pub(crate) fn open_without_background(path: &Path) -> Result<Self, ObjectStoreError> {
        Self::open_with(sled::Config::new().flush_every_ms(None), path)
    }

    fn open_with(config: sled::Config, path: &Path) -> Result<Self, ObjectStoreError> {
        let io_failed = |error: &io::Error| from_io(path, error);
        fs::create_dir_all(path).map_err(|error| io_failed(&error))?;
        let config = config.path(path).cache_capacity(CACHE_BYTES);
        let db = guarded(path, || database::open(path, || config.open()))?;
        // The names of a new store's files must be as durable as their bytes.
        #[cfg(unix)]
        fs::File::open(path).and_then(|dir| dir.sync_all()).map_err(|error| io_failed(&error))?;
        Ok(Self {
            #[cfg(target_os = "linux")]
            file: fs::File::open(path.join("db")).map_err(|error| io_failed(&error))?,
            db,
            path: path.to_owned(),
        })
    }

    fn piece(&self, tree: Tree, key: &[u8], piece: u16) -> Result<Option<sled::IVec>, ObjectStoreError> {
        guarded(&self.path, || self.db.get(piece_key(tree, key, piece)))
    }

    /// How many pieces the value at `key` has; 0 when there is none.
    fn pieces(&self, tree: Tree, key: &[u8]) -> Result<u16, ObjectStoreError> {
        let first = self.piece(tree, key, 0)?;
        first.map_or(Ok(0), |first| self.piece_count(&first))
    }

    fn piece_count(&self, first: &[u8]) -> Result<u16, ObjectStoreError> {
        let count =
            first.first_chunk::<COUNT_BYTES>().ok_or_else(|| self.damaged("a value without its length"))?;
        Ok(u16::from_be_bytes(*count))
    }

    fn damaged(&self, reason: &str) -> ObjectStoreError {
        ObjectStoreError::Damaged { path: self.path.clone(), reason: reason.to_owned() }
    }
}

/// `tree ‖ key ‖ piece`.
fn piece_key(tree: Tree, key: &[u8], piece: u16) -> Vec<u8> {
    [&[tree as u8], key, &piece.to_be_bytes()].concat()
}

impl Store for SledStore {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>, ObjectStoreError> {
        let Some(first) = self.piece(tree, key, 0)? else { return Ok(None) };
        let pieces = self.piece_count(&first)?;
        let mut value = first[COUNT_BYTES..].to_vec();
        for piece in 1..pieces {
            let next = self.piece(tree, key, piece)?;
            // A short value is the reader's to judge: its checksum cannot match.
            value.extend_from_slice(next.as_deref().unwrap_or_default());
        }
        Ok(Some(value))
    }

    fn visit_from(
        &self,
        tree: Tree,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], Vec<u8>) -> bool,
    ) -> Result<(), ObjectStoreError> {
        let mut current: Option<(Vec<u8>, Vec<u8>)> = None;
        let (first, end) = ([&[tree as u8], from].concat(), vec![tree as u8 + 1]);
        let mut entries = self.db.range(first..end);
        while let Some((physical, bytes)) = guarded(&self.path, || entries.next().transpose())? {
            let (key, piece) = physical[1..]
                .split_last_chunk::<COUNT_BYTES>()
                .ok_or_else(|| self.damaged("a key without its piece number"))?;
            if u16::from_be_bytes(*piece) == 0 {
                let first = bytes.get(COUNT_BYTES..).unwrap_or_default().to_vec();
                if let Some((key, value)) = current.replace((key.to_vec(), first))
                    && !each(&key, value)
                {
                    return Ok(());
                }
            } else if let Some((_, value)) = current.as_mut().filter(|(of, _)| of == key) {
                value.extend_from_slice(&bytes);
            }
        }
        if let Some((key, value)) = current {
            each(&key, value);
        }
        Ok(())
    }

    fn apply(&self, batch: &WriteBatch) -> Result<(), ObjectStoreError> {
        batch.check_limits()?;
        let mut sled_batch = sled::Batch::default();
        for (tree, key, value) in batch.writes() {
            let mut pieces = 0u16;
            if let Some(value) = value {
                let count = value.len().div_ceil(PIECE_BYTES).max(1);
                let count = u16::try_from(count).expect("MAX_VALUE_BYTES has fewer than 2^16 pieces");
                // An empty value still has a first piece: the one that says so.
                for (piece, part) in (0..count).zip(value.chunks(PIECE_BYTES).chain(std::iter::once(&[][..])))
                {
                    let head: &[u8] = if piece == 0 { &count.to_be_bytes() } else { &[] };
                    sled_batch.insert(piece_key(tree, key, piece), [head, part].concat());
                }
                pieces = count;
            }
            for piece in pieces..self.pieces(tree, key)? {
                sled_batch.remove(piece_key(tree, key, piece));
            }
        }
        guarded(&self.path, || self.db.apply_batch(sled_batch))
    }

    fn flush(&self) -> Result<(), ObjectStoreError> {
        guarded(&self.path, || self.db.flush())?;
        #[cfg(target_os = "linux")]
        self.file.sync_all().map_err(|error| from_io(&self.path, &error))?;
        Ok(())
    }
}

/// What sled answers; where it panics over its files, they are damaged like any others.
fn guarded<T>(path: &Path, call: impl FnOnce() -> sled::Result<T>) -> Result<T, ObjectStoreError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) => answer.map_err(|error| from_sled(path, error)),
        // It also panics where the system refuses it a thread, and then its files are whole.
        Err(panic) if is_of_thread(&*panic) => {
            Err(ObjectStoreError::Threads { path: path.to_owned(), limit: threads::limit() })
        }
        Err(_) => {
            Err(ObjectStoreError::Damaged { path: path.to_owned(), reason: "sled panicked over them".into() })
        }
    }
}

/// Whether a panic is over a thread that could not be started: sled unwraps what `spawn` answers,
/// which is `EAGAIN` then.
fn is_of_thread(panic: &(dyn Any + Send)) -> bool {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .is_some_and(|text| text.contains("kind: WouldBlock"))
}

fn from_sled(path: &Path, error: sled::Error) -> ObjectStoreError {
    match error {
        sled::Error::Io(error) => from_io(path, &error),
        sled::Error::Corruption { at, .. } => {
            ObjectStoreError::Damaged { path: path.to_owned(), reason: format!("corruption at {at:?}") }
        }
        other => ObjectStoreError::Io { path: path.to_owned(), reason: other.to_string() },
    }
}

fn from_io(path: &Path, error: &io::Error) -> ObjectStoreError {
    let path = path.to_owned();
    let reason = error.to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ObjectStoreError::Full { path },
        // sled wraps the failed lock in an error of the kind `Other`.
        io::ErrorKind::WouldBlock => ObjectStoreError::InUse { path },
        io::ErrorKind::Other if reason.contains("could not acquire lock") => ObjectStoreError::InUse { path },
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            ObjectStoreError::Damaged { path, reason }
        }
        _ => ObjectStoreError::Io { path, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_sled_panics_the_operator_is_told_that_the_store_is_damaged() {
        let path = Path::new("there");
        let error = guarded(path, || -> sled::Result<()> { panic!("as sled does over a page that it lost") });
        assert!(matches!(error, Err(ObjectStoreError::Damaged { path: at, .. }) if at == path));
        assert_eq!(guarded(path, || Ok(7)), Ok(7));
    }

    #[test]
    fn a_thread_that_cannot_be_started_is_no_damage() {
        let refused = || io::Error::from_raw_os_error(11);
        if refused().kind() != io::ErrorKind::WouldBlock {
            return; // The number of this error on Linux.
        }
        let path = Path::new("there");
        // In the words of sled's flusher.
        let flusher =
            || -> sled::Result<()> { panic!("called `Result::unwrap()` on an `Err` value: {:?}", refused()) };
        let error = guarded(path, flusher).unwrap_err();
        assert!(matches!(&error, ObjectStoreError::Threads { path: at, .. } if at == path), "{error}");
        let text = error.to_string();
        assert!(text.contains("threads") && !text.contains("damaged") && !text.contains("away"), "{text}");
    }
}
