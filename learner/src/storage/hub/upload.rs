//! A policy goes to the Hub: its large files to the Hub's store of them, everything else with the commit.

use super::client::{Client, Subject, read_json};
use super::download::sha256_of;
use super::error::{HubError, io_error};
use super::kind::Kind;
use super::name::HubName;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::blocking::{Body, RequestBuilder};
use reqwest::header::{CONTENT_TYPE, ETAG, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The branch that a policy is pushed to.
const BRANCH: &str = "main";
/// Bytes of a file's beginning that the Hub looks at to say where the file belongs.
const SAMPLE_BYTES: u64 = 512;
/// Longest time that one part of a file may take on its way.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// What requests to the Hub's store of large files have to say of themselves.
const LFS: &str = "application/vnd.git-lfs+json";

/// A policy to upload.
#[derive(Clone, Debug)]
pub struct PushedPolicy {
    /// Its files.
    pub files: Vec<PushedFile>,
    /// The text of its card, `README.md`.
    pub card: String,
    /// Whether others cannot see it, where it has to be made first.
    pub is_private: bool,
    /// What the commit says of itself.
    pub message: String,
}

/// A file to upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedFile {
    /// Its path in the repository.
    pub path: String,
    /// Where it lies on this machine.
    pub source: PathBuf,
}

/// A file whose content goes to the store of large files.
struct Large<'a> {
    file: &'a PushedFile,
    oid: String,
    size: u64,
}

/// Uploads a policy and returns the commit's address.
pub(super) fn push(client: &Client, name: &HubName, policy: &PushedPolicy) -> Result<String, HubError> {
    if client.environment().token.is_none() {
        return Err(HubError::NoToken(name.repository.clone()));
    }
    let subject = Subject { kind: Kind::Model, repository: &name.repository, revision: BRANCH };
    create(client, subject, policy.is_private)?;
    let modes = modes(client, subject, &policy.files)?;
    let is_large = |file: &&PushedFile| modes.get(&file.path).is_some_and(|mode| mode == "lfs");
    let mut large = Vec::new();
    for file in policy.files.iter().filter(is_large) {
        let (oid, size) = (sha256_of(&file.source)?, size_of(&file.source)?);
        large.push(Large { file, oid, size });
    }
    send_large(client, subject, &large)?;
    let small: Vec<&PushedFile> = policy.files.iter().filter(|file| !is_large(file)).collect();
    commit(client, subject, policy, &small, &large)
}

/// Makes the repository unless it is there.
fn create(client: &Client, subject: Subject<'_>, is_private: bool) -> Result<(), HubError> {
    let (owner, name) = match subject.repository.split_once('/') {
        Some((owner, name)) => (Some(owner), name),
        None => (None, subject.repository),
    };
    let body = json!({"type": "model", "name": name, "organization": owner, "private": is_private});
    let made = client.post::<Value>(
        subject,
        &client.url(["api", "repos", "create"]),
        "application/json",
        body.to_string().as_bytes(),
    );
    match made {
        // It is there already.
        Err(HubError::Status { status: 409, .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

#[derive(Deserialize)]
struct Modes {
    files: Vec<Mode>,
}

#[derive(Deserialize)]
struct Mode {
    path: String,
    #[serde(rename = "uploadMode")]
    mode: String,
}

/// Where the Hub wants each file: `regular` or `lfs`.
fn modes(
    client: &Client,
    subject: Subject<'_>,
    files: &[PushedFile],
) -> Result<BTreeMap<String, String>, HubError> {
    let mut asked = Vec::with_capacity(files.len());
    for file in files {
        let (mut sample, failed) = (Vec::new(), || io_error(&file.source));
        let open = File::open(&file.source).map_err(failed())?;
        open.take(SAMPLE_BYTES).read_to_end(&mut sample).map_err(failed())?;
        let size = size_of(&file.source)?;
        asked.push(json!({"path": file.path, "sample": STANDARD.encode(sample), "size": size}));
    }
    let url = client.url(about(subject, "preupload"));
    let body = json!({ "files": asked }).to_string();
    let modes: Modes = client.post(subject, &url, "application/json", body.as_bytes())?;
    Ok(modes.files.into_iter().map(|file| (file.path, file.mode)).collect())
}

/// Elements of an address about the branch of a model.
fn about<'a>(subject: Subject<'a>, what: &'static str) -> impl Iterator<Item = &'a str> {
    ["api", "models"].into_iter().chain(subject.repository.split('/')).chain([what, BRANCH])
}

#[derive(Deserialize)]
struct Batch {
    #[serde(default)]
    objects: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    oid: String,
    /// None for an object that is there.
    #[serde(default)]
    actions: Option<Actions>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Actions {
    #[serde(default)]
    upload: Option<Action>,
    #[serde(default)]
    verify: Option<Action>,
}

#[derive(Deserialize)]
struct Action {
    href: String,
    #[serde(default)]
    header: BTreeMap<String, Value>,
}

/// Sends the objects that the store has not got.
fn send_large(client: &Client, subject: Subject<'_>, large: &[Large<'_>]) -> Result<(), HubError> {
    if large.is_empty() {
        return Ok(());
    }
    let objects: Vec<Value> = large.iter().map(|one| json!({"oid": one.oid, "size": one.size})).collect();
    let body = json!({
        "operation": "upload",
        "transfers": ["basic", "multipart"],
        "hash_algo": "sha256",
        "ref": {"name": BRANCH},
        "objects": objects,
    });
    let git = format!("{}.git", subject.repository);
    let url = client.url(git.split('/').chain(["info", "lfs", "objects", "batch"]));
    let batch: Batch = client.post(subject, &url, LFS, body.to_string().as_bytes())?;
    for one in large {
        let Some(object) = batch.objects.iter().find(|object| object.oid == one.oid) else { continue };
        if let Some(error) = &object.error {
            let said = error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
            return Err(HubError::Denied { repository: subject.repository.to_owned(), said });
        }
        let Some(actions) = &object.actions else {
            tracing::info!("{} is on the Hub already", one.file.path);
            continue;
        };
        if let Some(upload) = &actions.upload {
            tracing::info!("sending {}: {} MiB", one.file.path, one.size >> 20);
            send_object(client, subject, one, upload)?;
        }
        if let Some(verify) = &actions.verify {
            let url = address(&verify.href)?;
            let body = json!({"oid": one.oid, "size": one.size}).to_string();
            client.send(subject, &Method::POST, &url, |request| {
                let request = with_headers(request, &verify.header);
                Ok(request.header(CONTENT_TYPE, LFS).body(body.clone()))
            })?;
        }
    }
    Ok(())
}

/// Sends one object, whole or in the parts that the store asks for.
fn send_object(
    client: &Client,
    subject: Subject<'_>,
    one: &Large<'_>,
    upload: &Action,
) -> Result<(), HubError> {
    let source = &one.file.source;
    let Some(chunk) = upload.header.get("chunk_size").and_then(number) else {
        return put(client, subject, &address(&upload.href)?, source, 0..one.size, &upload.header).map(drop);
    };
    // Addresses of parts are called by their numbers.
    let parts: BTreeMap<u64, &str> = upload
        .header
        .iter()
        .filter_map(|(name, address)| Some((name.parse().ok()?, address.as_str()?)))
        .collect();
    let mut done = Vec::with_capacity(parts.len());
    for (at, href) in (0_u64..).zip(&parts) {
        let (number, href) = href;
        let start = at.saturating_mul(chunk).min(one.size);
        let range = start..start.saturating_add(chunk).min(one.size);
        let tag = put(client, subject, &address(href)?, source, range, &BTreeMap::new())?;
        done.push(json!({"partNumber": number, "etag": tag}));
    }
    let body = json!({"oid": one.oid, "parts": done}).to_string();
    client.send(subject, &Method::POST, &address(&upload.href)?, |request| {
        Ok(request.header(CONTENT_TYPE, LFS).body(body.clone()))
    })?;
    Ok(())
}

/// A number that may be written as text.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).filter(|number| *number > 0)
}

/// Sends a range of a file, and returns the tag that the store gave it.
fn put(
    client: &Client,
    subject: Subject<'_>,
    url: &Url,
    source: &Path,
    range: std::ops::Range<u64>,
    headers: &BTreeMap<String, Value>,
) -> Result<String, HubError> {
    let length = range.end - range.start;
    let response = client.send(subject, &Method::PUT, url, |request| {
        let mut file = File::open(source).map_err(io_error(source))?;
        file.seek(SeekFrom::Start(range.start)).map_err(io_error(source))?;
        let body = Body::sized(file.take(length), length);
        Ok(with_headers(request, headers).timeout(PATIENCE).body(body))
    })?;
    let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
    Ok(tag.unwrap_or_default().to_owned())
}

/// The headers that the store wants to see again.
fn with_headers(request: RequestBuilder, headers: &BTreeMap<String, Value>) -> RequestBuilder {
    headers.iter().fold(request, |request, (name, value)| {
        let name = name.parse::<HeaderName>().ok();
        let value = value.as_str().and_then(|value| value.parse::<HeaderValue>().ok());
        match (name, value) {
            (Some(name), Some(value)) => request.header(name, value),
            _ => request,
        }
    })
}

fn address(href: &str) -> Result<Url, HubError> {
    Url::parse(href)
        .map_err(|error| HubError::Form { address: "the Hub".to_owned(), cause: error.to_string() })
}

fn size_of(path: &Path) -> Result<u64, HubError> {
    fs::metadata(path).map(|found| found.len()).map_err(io_error(path))
}

#[derive(Deserialize)]
struct Committed {
    #[serde(default, rename = "commitUrl")]
    address: String,
}

/// Makes one commit of everything.
fn commit(
    client: &Client,
    subject: Subject<'_>,
    policy: &PushedPolicy,
    small: &[&PushedFile],
    large: &[Large<'_>],
) -> Result<String, HubError> {
    let inline = |path: &str, content: &[u8]| {
        let value = json!({"path": path, "content": STANDARD.encode(content), "encoding": "base64"});
        json!({"key": "file", "value": value})
    };
    let header = json!({"summary": policy.message, "description": ""});
    let mut lines = vec![json!({"key": "header", "value": header})];
    lines.push(inline("README.md", policy.card.as_bytes()));
    for file in small {
        let content = fs::read(&file.source).map_err(io_error(&file.source))?;
        lines.push(inline(&file.path, &content));
    }
    lines.extend(large.iter().map(|one| {
        let value = json!({"path": one.file.path, "algo": "sha256", "oid": one.oid, "size": one.size});
        json!({"key": "lfsFile", "value": value})
    }));
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let url = client.url(about(subject, "commit"));
    let mut response = client.send(subject, &Method::POST, &url, |request| {
        Ok(request.header(CONTENT_TYPE, "application/x-ndjson").body(body.clone()))
    })?;
    let committed: Committed = read_json(&mut response)?;
    let page = || client.url(subject.repository.split('/')).into();
    Ok(if committed.address.is_empty() { page() } else { committed.address })
}
