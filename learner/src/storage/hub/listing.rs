//! What one commit of a repository holds, and where it lies in the cache.
//!
//! The cache has the layout of `huggingface_hub`: `blobs` by their names in git or their SHA-256,
//! `snapshots/COMMIT` with links to them, `refs/BRANCH` with the commit that a branch was last seen
//! at. Beside them Echo keeps in `echo` what the Hub has listed, so that a commit that was named
//! once is found again without asking.

use super::client::{Client, Subject};
use super::environment::HubEnvironment;
use super::error::{HubError, io_error};
use super::kind::Kind;
use super::name::HubName;
use crate::storage::atomic_file::write_whole;
use reqwest::Url;
use reqwest::header::LINK;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The branch that is meant where none is named.
const MAIN: &str = "main";
/// Most files of a repository that are listed; a listing has pages of 1,000.
const MAX_FILES: usize = 100_000;
/// Most pages of a listing: one that refers to itself would never end.
const MAX_PAGES: usize = if cfg!(test) { 8 } else { 1_000 };
/// Longest path of a file, in bytes: what the system takes.
const MAX_PATH_BYTES: usize = 4_096;

/// One file of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListedFile {
    pub(super) path: String,
    pub(super) size: u64,
    /// What it is called in `blobs`.
    pub(super) blob: String,
    /// SHA-256, where the Hub names it: of large files.
    pub(super) sha256: Option<String>,
}

/// One configuration of a data set, as its card describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CardConfig {
    pub(super) name: String,
    /// Splits, and patterns of the paths of their files.
    pub(super) splits: Vec<(String, Vec<String>)>,
}

/// What one commit holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: Vec<ListedFile>,
    /// Of a data set whose card names them.
    pub(super) configs: Vec<CardConfig>,
    /// Its licence, as its card names it.
    pub(super) license: Option<String>,
}

impl Listing {
    pub(super) fn file(&self, path: &str) -> Option<&ListedFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// A repository at one revision, on the Hub and in the cache.
pub(super) struct Repository {
    pub(super) kind: Kind,
    pub(super) name: String,
    revision: String,
    folder: PathBuf,
}

impl Repository {
    pub(super) fn new(environment: &HubEnvironment, kind: Kind, name: &HubName) -> Self {
        let folder = format!("{}--{}", kind.api(), name.repository.replace('/', "--"));
        Self {
            kind,
            name: name.repository.clone(),
            revision: name.revision.clone().unwrap_or_else(|| MAIN.to_owned()),
            folder: environment.cache.join(folder),
        }
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        Subject { kind: self.kind, repository: &self.name, revision: &self.revision }
    }

    /// The directory in which the files of `commit` have their own names.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    pub(super) fn blob(&self, name: &str) -> PathBuf {
        self.folder.join("blobs").join(name)
    }

    /// Held by whoever gets a blob; the same file as `huggingface_hub` takes.
    pub(super) fn lock(&self, blob: &str) -> PathBuf {
        let cache = self.folder.parent().unwrap_or(Path::new(""));
        let folder = self.folder.file_name().unwrap_or_default();
        cache.join(".locks").join(folder).join(format!("{blob}.lock"))
    }

    /// Where Echo keeps what it derives from a commit.
    pub(super) fn derived(&self, name: &str) -> PathBuf {
        self.folder.join("echo").join(name)
    }

    /// What the revision holds. A whole commit that was listed before is not asked for again, and
    /// neither is anything while the network may not be used.
    pub(super) fn listing(&self, client: &Client) -> Result<Listing, HubError> {
        let is_offline = client.environment().is_offline;
        let commit = match is_commit(&self.revision) {
            true => Some(self.revision.clone()),
            false if is_offline => self.last_seen(),
            false => None,
        };
        if let Some(commit) = &commit
            && let Some(kept) = self.kept(commit)
        {
            return Ok(kept);
        }
        if is_offline {
            let found = commit.and_then(|commit| self.walked(&commit));
            let (name, cache) = (self.name.clone(), client.environment().cache.clone());
            return found.ok_or(HubError::Offline { name, cache });
        }
        let listing = self.ask(client)?;
        let text = serde_json::to_vec(&listing).unwrap_or_default();
        self.keep(&self.derived(&format!("{}.json", listing.commit)), &text)?;
        if !is_commit(&self.revision) {
            self.keep(&self.reference(), listing.commit.as_bytes())?;
        }
        Ok(listing)
    }

    fn reference(&self) -> PathBuf {
        self.folder.join("refs").join(&self.revision)
    }

    /// The commit that the branch or tag had when the Hub was last asked.
    fn last_seen(&self) -> Option<String> {
        let commit = fs::read_to_string(self.reference()).ok()?.trim().to_owned();
        is_commit(&commit).then_some(commit)
    }

    fn kept(&self, commit: &str) -> Option<Listing> {
        let text = fs::read(self.derived(&format!("{commit}.json"))).ok()?;
        serde_json::from_slice::<Listing>(&text).ok().filter(|kept| kept.commit == commit)
    }

    fn keep(&self, path: &Path, bytes: &[u8]) -> Result<(), HubError> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io_error(parent))?;
        }
        Ok(write_whole(path, bytes)?)
    }

    /// What another program has got of `commit`, which knows no listing.
    fn walked(&self, commit: &str) -> Option<Listing> {
        let root = self.snapshot(commit);
        let (mut files, mut left) = (Vec::new(), vec![root.clone()]);
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(&directory).ok()? {
                let path = entry.ok()?.path();
                let Ok(found) = fs::metadata(&path) else { continue };
                if found.is_dir() {
                    left.push(path);
                } else if let Some(path) = path.strip_prefix(&root).ok().and_then(Path::to_str) {
                    let path = path.replace('\\', "/");
                    files.push(ListedFile { path, size: found.len(), blob: String::new(), sha256: None });
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Some(Listing { commit: commit.to_owned(), files, configs: Vec::new(), license: None })
    }

    fn ask(&self, client: &Client) -> Result<Listing, HubError> {
        let about = |what: &'static str, revision: &str| {
            let name = self.name.split('/');
            client.url(["api", self.kind.api()].into_iter().chain(name).chain([what, revision]))
        };
        let url = about("revision", &self.revision);
        let (info, _) = client.json::<Info>(self.subject(), &url)?;
        if !is_commit(&info.sha) {
            let cause = "no commit".to_owned();
            return Err(HubError::Form { address: url.into(), cause });
        }
        let mut next = Some(about("tree", &info.sha));
        if let Some(url) = &mut next {
            url.query_pairs_mut().append_pair("recursive", "true");
        }
        let (mut files, mut pages) = (Vec::new(), 0);
        while let Some(url) = next.filter(|_| files.len() < MAX_FILES) {
            pages += 1;
            if pages > MAX_PAGES {
                let cause = format!("its listing of files goes on after {MAX_PAGES} pages");
                return Err(HubError::Form { address: super::client::address(&url), cause });
            }
            let (entries, response) = client.json::<Vec<Entry>>(self.subject(), &url)?;
            files.extend(entries.into_iter().filter_map(Entry::file));
            next = next_page(&url, response.headers().get(LINK).and_then(|value| value.to_str().ok()));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let card = info.card_data.as_ref();
        let license = card.and_then(|card| card.get("license")).and_then(Value::as_str).map(str::to_owned);
        Ok(Listing { commit: info.sha, files, configs: configs(card), license })
    }
}

/// The Hub's answer about a repository, as far as it is read.
#[derive(Deserialize)]
struct Info {
    sha: String,
    #[serde(default, rename = "cardData")]
    card_data: Option<Value>,
}

/// An element of the Hub's listing of files.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    oid: String,
    #[serde(default)]
    lfs: Option<LargeFile>,
}

#[derive(Deserialize)]
struct LargeFile {
    oid: String,
    size: u64,
}

impl Entry {
    /// A file that may be written to this machine under its own path.
    fn file(self) -> Option<ListedFile> {
        let Self { kind, path, size, oid, lfs } = self;
        let is_plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        let is_foreign = |c: char| c.is_control() || matches!(c, '\\' | ':');
        if kind != "file" || !is_plain || path.len() > MAX_PATH_BYTES || path.contains(is_foreign) {
            return None;
        }
        let (blob, size, sha256) = match lfs {
            Some(large) => (large.oid.clone(), large.size, Some(large.oid)),
            None => (oid, size, None),
        };
        let is_hash = matches!(blob.len(), 40 | 64) && blob.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then_some(ListedFile { path, size, blob, sha256 })
    }
}

/// The address of the next page, if a header `Link` names one.
fn next_page(url: &Url, link: Option<&str>) -> Option<Url> {
    let next = link?.split(',').find(|link| link.contains("rel=\"next\""))?;
    let (_, address) = next.split_once('<')?;
    let (address, _) = address.split_once('>')?;
    url.join(address).ok()
}

/// The configurations in a card's head, which the Hub has read already.
fn configs(card: Option<&Value>) -> Vec<CardConfig> {
    let configs = card.and_then(|card| card.get("configs")).and_then(Value::as_array);
    let read = |config: &Value| {
        let name = config.get("config_name").and_then(Value::as_str).unwrap_or("default").to_owned();
        let splits = splits(config.get("data_files")?);
        (!splits.is_empty()).then_some(CardConfig { name, splits })
    };
    configs.into_iter().flatten().filter_map(read).collect()
}

/// `data_files`: a pattern, patterns, or splits with a pattern or patterns each.
fn splits(files: &Value) -> Vec<(String, Vec<String>)> {
    let patterns = |value: &Value| match value {
        Value::String(pattern) => vec![pattern.clone()],
        Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let tables = files.as_array().filter(|all| all.iter().any(Value::is_object));
    let Some(tables) = tables else {
        let all = patterns(files);
        return if all.is_empty() { Vec::new() } else { vec![("train".to_owned(), all)] };
    };
    let read = |table: &Value| {
        let split = table.get("split").and_then(Value::as_str).unwrap_or("train");
        Some((split.to_owned(), patterns(table.get("path")?)))
    };
    tables.iter().filter_map(read).collect()
}

/// Whether a revision is a whole commit, which never changes.
fn is_commit(revision: &str) -> bool {
    revision.len() == 40
        && revision.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
