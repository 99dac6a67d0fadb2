//! One file from the Hub: in parts where the connection breaks, and only whole ones are ever used.

use super::client::Client;
use super::error::{HubError, io_error};
use super::listing::{ListedFile, Repository};
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::blocking::Response;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_RANGE, RANGE};
use reqwest::{Method, StatusCode};
use sha2::{Digest as _, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Broken connections in a row after which nothing more had come.
const TRIES: u32 = 5;
/// The pause after the first of them; each further one is longer by it.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1000 });
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 128 << 10;
/// Files below this many bytes come without a word.
const SILENT_BYTES: u64 = 8 << 20;
/// How often progress is logged where no terminal shows it.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Gets a file of `commit`, unless it is here, and returns where it lies.
pub(super) fn file(
    client: &Client,
    repository: &Repository,
    commit: &str,
    file: &ListedFile,
) -> Result<PathBuf, HubError> {
    let (target, blob) = (repository.snapshot(commit).join(&file.path), repository.blob(&file.blob));
    if has_size(&target, file.size) {
        return Ok(target);
    }
    let lock = repository.lock(&file.blob);
    for parent in [&target, &blob, &lock].into_iter().filter_map(|path| path.parent()) {
        fs::create_dir_all(parent).map_err(io_error(parent))?;
    }
    // Another process may be getting the same file; then this one waits and finds it.
    let lock_file = File::create(&lock).map_err(io_error(&lock))?;
    lock_file.lock().map_err(io_error(&lock))?;
    if has_size(&target, file.size) {
        // It may be reading it already.
        return Ok(target);
    }
    if !has_size(&blob, file.size) {
        get(client, repository, commit, file, &blob)?;
    }
    // Left by a link to a blob that is gone.
    if fs::symlink_metadata(&target).is_ok() {
        fs::remove_file(&target).map_err(io_error(&target))?;
    }
    link(&blob, &target, &file.path).map_err(io_error(&target))?;
    Ok(target)
}

/// SHA-256 of a file, in hexadecimal.
pub(super) fn sha256_of(path: &Path) -> Result<String, HubError> {
    let mut file = File::open(path).map_err(io_error(path))?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; BUFFER_BYTES]);
    loop {
        let read = file.read(&mut buffer).map_err(io_error(path))?;
        if read == 0 {
            return Ok(hex::encode(hash.finalize()));
        }
        hash.update(&buffer[..read]);
    }
}

fn has_size(path: &Path, size: u64) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == size)
}

/// A link that still holds when the whole cache is moved.
#[cfg(unix)]
fn link(blob: &Path, target: &Path, path: &str) -> io::Result<()> {
    let up = "../".repeat(path.split('/').count() + 1);
    let name = blob.file_name().unwrap_or_default();
    std::os::unix::fs::symlink(Path::new(&up).join("blobs").join(name), target)
}

/// Not every user may make links by name elsewhere.
#[cfg(not(unix))]
fn link(blob: &Path, target: &Path, _: &str) -> io::Result<()> {
    fs::hard_link(blob, target)
}

/// Gets a blob: into a file beside it, which takes its name when it is whole and checked.
fn get(
    client: &Client,
    repository: &Repository,
    commit: &str,
    file: &ListedFile,
    blob: &Path,
) -> Result<(), HubError> {
    let partial = blob.with_extension("incomplete");
    let failed = || io_error(&partial);
    let open = OpenOptions::new().create(true).append(true).open(&partial);
    let mut out = open.map_err(failed())?;
    let length = |out: &File| out.metadata().map(|found| found.len()).map_err(failed());
    let shown = Shown::new(file);
    let mut failures = 0;
    loop {
        let have = length(&out)?;
        if have == file.size {
            break;
        }
        shown.at(have);
        let more = part(client, repository, commit, file, have);
        let taken = more.and_then(|response| take(response, file, have, &mut out, &shown));
        match taken {
            Err(Interrupted::Network(error)) => {
                failures = if length(&out)? > have { 1 } else { failures + 1 };
                if failures >= TRIES {
                    return Err(error);
                }
                thread::sleep(PAUSE * failures);
            }
            Err(Interrupted::Whole(error)) => return Err(error),
            Err(Interrupted::TooLong) => {
                fs::remove_file(&partial).map_err(failed())?;
                return Err(damaged(repository, file, "longer than the Hub lists it".to_owned()));
            }
            Err(Interrupted::Disk(source)) => return Err(failed()(source)),
            Ok(()) => {}
        }
    }
    out.sync_all().map_err(failed())?;
    drop(out);
    if let Some(expected) = &file.sha256 {
        let found = sha256_of(&partial)?;
        if found != *expected {
            fs::remove_file(&partial).map_err(failed())?;
            return Err(damaged(repository, file, format!("SHA-256 {found} instead of {expected}")));
        }
    }
    fs::rename(&partial, blob).map_err(io_error(blob))
}

fn damaged(repository: &Repository, file: &ListedFile, why: String) -> HubError {
    HubError::Damaged { repository: repository.name.clone(), file: file.path.clone(), why }
}

/// Why a part of a file did not come.
enum Interrupted {
    /// What is missing may still come.
    Network(HubError),
    /// Nothing will.
    Whole(HubError),
    /// More came than there is.
    TooLong,
    /// It cannot be written.
    Disk(io::Error),
}

impl From<HubError> for Interrupted {
    fn from(error: HubError) -> Self {
        match error {
            HubError::Network { .. } => Self::Network(error),
            _ => Self::Whole(error),
        }
    }
}

/// Asks for what is missing from byte `have` on.
fn part(
    client: &Client,
    repository: &Repository,
    commit: &str,
    file: &ListedFile,
    have: u64,
) -> Result<Response, Interrupted> {
    let name = repository.kind.page().into_iter().chain(repository.name.split('/'));
    let url = client.url(name.chain(["resolve", commit]).chain(file.path.split('/')));
    let response = client.send(repository.subject(), &Method::GET, &url, |request| {
        // The bytes as they are: ranges of a compressed file would be others.
        let request = request.header(ACCEPT_ENCODING, "identity");
        Ok(if have > 0 { request.header(RANGE, format!("bytes={have}-")) } else { request })
    })?;
    Ok(response)
}

/// Writes what comes behind what is there. A server that knows no ranges begins anew, and so does this.
fn take(
    mut response: Response,
    file: &ListedFile,
    have: u64,
    out: &mut File,
    shown: &Shown,
) -> Result<(), Interrupted> {
    let address = super::client::address(response.url());
    let cut = |cause: String| Interrupted::Network(HubError::Network { address: address.clone(), cause });
    let mut at = have;
    let is_part = response.status() == StatusCode::PARTIAL_CONTENT;
    let is_other = is_part && first_byte(&response).is_some_and(|first| first != have);
    if !is_part || is_other {
        out.set_len(0).map_err(Interrupted::Disk)?;
        at = 0;
    }
    if is_other {
        return Err(cut("another part came than was asked for".to_owned()));
    }
    if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
        return Err(cut("the part that is missing is not there".to_owned()));
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = response.read(&mut buffer).map_err(|error| cut(error.to_string()))?;
        if read == 0 {
            break;
        }
        at += read as u64;
        if at > file.size {
            return Err(Interrupted::TooLong);
        }
        out.write_all(&buffer[..read]).map_err(Interrupted::Disk)?;
        shown.at(at);
    }
    if at < file.size { Err(cut(format!("{at} of {} bytes came", file.size))) } else { Ok(()) }
}

/// Where the part begins that an answer says that it is.
fn first_byte(response: &Response) -> Option<u64> {
    let range = response.headers().get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    range.split('-').next()?.trim().parse().ok()
}

/// How far a long file is: a bar on a terminal, lines of the log elsewhere.
struct Shown {
    bar: ProgressBar,
    name: String,
    size: u64,
    said: std::cell::Cell<Instant>,
}

impl Shown {
    fn new(file: &ListedFile) -> Self {
        let is_shown = file.size >= SILENT_BYTES && io::stderr().is_terminal();
        let bar = if is_shown { ProgressBar::new(file.size) } else { ProgressBar::hidden() };
        let template = "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(file.path.clone());
        let said = std::cell::Cell::new(Instant::now());
        Self { bar, name: file.path.clone(), size: file.size, said }
    }

    fn at(&self, bytes: u64) {
        self.bar.set_position(bytes);
        if self.bar.is_hidden() && self.size >= SILENT_BYTES && self.said.get().elapsed() >= REPORT_EVERY {
            self.said.set(Instant::now());
            let [done, all] = [bytes, self.size].map(|bytes| bytes >> 20);
            tracing::info!("{}: {done} of {all} MiB", self.name);
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
