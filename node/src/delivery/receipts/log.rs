//! A file of receipts: frames of a length (4 bytes, big-endian) and as many bytes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use echo_protocol::run::charter::{Charter, MAX_CHARTER_BYTES};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::signed::{ENVELOPE_BYTES, Signable, Signed};
use echo_protocol::work::receipt::Receipt;
use tokio::time::Instant;

use super::LedgerError;

/// Longest file of receipts, in bytes: some 150,000 of them. Two are kept of each run.
pub const MAX_RECEIPT_LOG_BYTES: u64 = 64 << 20;
/// Receipts are on the disk within this time. A power loss may take those of the last moment: the
/// learner sends them again with the answer to whatever comes out of the outbox a second time.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Longest frames: a signed charter, and a signed receipt.
const MAX_HEAD_BYTES: usize = MAX_CHARTER_BYTES + ENVELOPE_BYTES;
const MAX_RECEIPT_BYTES: usize = Receipt::MAX_BYTES + ENVELOPE_BYTES;

/// An open file of receipts.
#[derive(Debug)]
pub(super) struct ReceiptLog {
    path: PathBuf,
    file: File,
    bytes: u64,
    head: Vec<u8>,
    synced: Instant,
}

impl ReceiptLog {
    /// Opens the file at `path`, which begins with `charter`. A torn end is cut off. Where the file is
    /// damaged, a copy of all of it is kept first.
    pub(super) fn open(path: &Path, charter: &Signed<Charter>) -> Result<Self, LedgerError> {
        let head = charter.to_bytes();
        let failed = |source| LedgerError::Io { path: path.to_owned(), source };
        let bytes = match File::open(path) {
            Ok(file) => {
                let (whole, damage) = ReceiptFrames::new(path, file).whole()?;
                if let Some(what) = damage {
                    let copy = free_name(path, "damaged");
                    fs::copy(path, &copy).map_err(failed)?;
                    tracing::warn!(
                        "{} is damaged: {what}; it goes on with the receipts before that, and all of it is kept as {}",
                        path.display(),
                        copy.display()
                    );
                }
                whole
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(failed(error)),
        };
        let mut file =
            OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(failed)?;
        file.set_len(bytes).and_then(|()| file.seek(SeekFrom::Start(bytes))).map_err(failed)?;
        let mut log = Self { path: path.to_owned(), file, bytes, head, synced: Instant::now() };
        if bytes == 0 {
            log.write_head()?;
        }
        Ok(log)
    }

    /// Appends a receipt, and begins a new file where this one is full.
    pub(super) fn add(&mut self, receipt: &Signed<Receipt>) -> Result<(), LedgerError> {
        if self.bytes >= MAX_RECEIPT_LOG_BYTES {
            self.rotate()?;
        }
        self.write(&receipt.to_bytes())?;
        if self.synced.elapsed() >= SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    /// Begins a new file, and keeps this one beside it.
    fn rotate(&mut self) -> Result<(), LedgerError> {
        self.sync()?;
        let failed = |source| LedgerError::Io { path: self.path.clone(), source };
        fs::rename(&self.path, older(&self.path)).map_err(failed)?;
        self.file = File::create(&self.path).map_err(failed)?;
        self.bytes = 0;
        self.write_head()
    }

    fn write_head(&mut self) -> Result<(), LedgerError> {
        let head = self.head.clone();
        self.write(&head)?;
        self.sync()
    }

    fn write(&mut self, body: &[u8]) -> Result<(), LedgerError> {
        let length = u32::try_from(body.len()).expect("a charter or a receipt is shorter than 4 GiB");
        let frame = [&length.to_be_bytes(), body].concat();
        let written = self.file.write_all(&frame);
        if written.is_err() {
            // The next one must not follow half a frame. If this fails as well, the next start cuts it off.
            let _ = self.file.set_len(self.bytes).and_then(|()| self.file.seek(SeekFrom::Start(self.bytes)));
        }
        written.map_err(|source| LedgerError::Io { path: self.path.clone(), source })?;
        self.bytes += frame.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LedgerError> {
        self.synced = Instant::now();
        self.file.sync_data().map_err(|source| LedgerError::Io { path: self.path.clone(), source })
    }
}

impl Drop for ReceiptLog {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.sync();
    }
}

/// What stands between the run and the key in the name of a file of another identity's receipts.
const OF: &str = "-of-";

/// Makes way for the receipts of `me` at `path`: those for another node, which worked here before, get a name
/// with its key; and those of `me` that were renamed so come back.
pub(super) fn set_aside(path: &Path, me: &PublicKey) -> Result<(), LedgerError> {
    if let Some(node) = owner(path).filter(|node| node != me) {
        let aside = of(path, &node);
        rename(path, &aside)?;
        tracing::warn!("the receipts of another identity are kept as {}", aside.display());
    }
    if !path.exists() && of(path, me).exists() {
        rename(&of(path, me), path)?;
    }
    Ok(())
}

/// The node that the receipts in the file at `path` are for, as the first of them says.
fn owner(path: &Path) -> Option<PublicKey> {
    let mut frames = ReceiptFrames::new(path, File::open(path).ok()?);
    frames.head().ok()?;
    Some(frames.receipt().ok()??.open().ok()?.node)
}

/// Where the file at `path` goes if it is `node`'s, and that is not the identity in use.
fn of(path: &Path, node: &PublicKey) -> PathBuf {
    let run = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{run}{OF}{node}.receipts"))
}

/// Renames a file of receipts, and the one before it.
fn rename(from: &Path, to: &Path) -> Result<(), LedgerError> {
    let failed = |source| LedgerError::Io { path: from.to_owned(), source };
    if older(from).exists() {
        fs::rename(older(from), older(to)).map_err(failed)?;
    }
    fs::rename(from, to).map_err(failed)
}

/// Whether the file at `path` was renamed by [`set_aside`].
pub(super) fn is_set_aside(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem.to_string_lossy().contains(OF))
}

/// A name beside `path` that nothing has: with this extension, and a number where that is taken.
fn free_name(path: &Path, extension: &str) -> PathBuf {
    let numbered = (2..).map(|n| path.with_extension(format!("{extension}-{n}")));
    let mut names = std::iter::once(path.with_extension(extension)).chain(numbered);
    names.find(|name| !name.exists()).expect("there are more numbers than files")
}

/// Where the file before the one at `path` lies.
pub(super) fn older(path: &Path) -> PathBuf {
    path.with_extension("older")
}

/// Reads a file of receipts.
pub(super) struct ReceiptFrames {
    path: PathBuf,
    file: BufReader<File>,
    /// Bytes of whole frames that were read.
    read: u64,
    torn: bool,
}

impl ReceiptFrames {
    pub(super) fn new(path: &Path, file: File) -> Self {
        Self { path: path.to_owned(), file: BufReader::new(file), read: 0, torn: false }
    }

    /// The charter with which the file begins.
    pub(super) fn head(&mut self) -> Result<Signed<Charter>, LedgerError> {
        let frame = self.next_frame()?.ok_or_else(|| self.damaged("it does not begin with a charter"))?;
        Signed::from_bytes(&frame).map_err(|error| self.damaged(&error.to_string()))
    }

    /// The next receipt; `None` at the end of the file, and where it was torn.
    pub(super) fn receipt(&mut self) -> Result<Option<Signed<Receipt>>, LedgerError> {
        let Some(frame) = self.next_frame()? else { return Ok(None) };
        Signed::from_bytes(&frame).map(Some).map_err(|error| self.damaged(&error.to_string()))
    }

    /// Whether the file went on after the last whole frame.
    pub(super) fn torn(&self) -> bool {
        self.torn
    }

    /// Bytes up to where the file is torn or makes no sense any more; and what makes no sense.
    fn whole(mut self) -> Result<(u64, Option<String>), LedgerError> {
        loop {
            match self.next_frame() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok((self.read, None)),
                Err(LedgerError::Damaged { what, .. }) => return Ok((self.read, Some(what))),
                Err(error) => return Err(error),
            }
        }
    }

    /// `None` at the end, where the file was torn, and where only zeros follow, as a power loss leaves them.
    fn next_frame(&mut self) -> Result<Option<Vec<u8>>, LedgerError> {
        let length = self.up_to(4)?;
        let Ok(length) = <[u8; 4]>::try_from(length.as_slice()) else {
            self.torn = !length.is_empty();
            return Ok(None);
        };
        let length = u32::from_be_bytes(length) as usize;
        if length == 0 {
            self.torn = true;
            return Ok(None);
        }
        let longest = if self.read == 0 { MAX_HEAD_BYTES } else { MAX_RECEIPT_BYTES };
        if length > longest {
            return Err(
                self.damaged(&format!("a frame of {length} bytes, where at most {longest} are right"))
            );
        }
        let body = self.up_to(length)?;
        if body.len() < length {
            self.torn = true;
            return Ok(None);
        }
        self.read += 4 + length as u64;
        Ok(Some(body))
    }

    /// The next `count` bytes; fewer at the end of the file.
    fn up_to(&mut self, count: usize) -> Result<Vec<u8>, LedgerError> {
        let mut bytes = Vec::with_capacity(count);
        match self.file.by_ref().take(count as u64).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(source) => Err(LedgerError::Io { path: self.path.clone(), source }),
        }
    }

    fn damaged(&self, what: &str) -> LedgerError {
        LedgerError::Damaged { path: self.path.clone(), what: what.to_owned() }
    }
}
