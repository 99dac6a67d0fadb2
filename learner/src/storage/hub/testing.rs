//! A Hub for tests: on loopback, with the addresses, headers and refusals of the real one.
//!
//! It has two ports. The second is the store of large files, to which the first refers; no token may
//! ever reach it.

use super::download::sha256_of;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// Files of at least this many bytes lie in the store.
const LARGE_BYTES: usize = 1000;
/// Files on one page of a listing.
const PAGE: usize = 2;

/// What the Hub holds, and how it misbehaves.
#[derive(Default)]
pub(crate) struct State {
    /// By `models/OWNER/NAME` and `datasets/OWNER/NAME`.
    pub(crate) repositories: BTreeMap<String, Held>,
    /// Large files by their SHA-256.
    pub(crate) store: BTreeMap<String, Vec<u8>>,
    /// The only token that is known; without one, nobody is asked.
    pub(crate) token: Option<&'static str>,
    /// Every request: method and path, and its range.
    pub(crate) asked: Vec<String>,
    /// Whether a token came to the store.
    pub(crate) has_leaked: bool,
    /// The next answer of the store ends after this many bytes.
    pub(crate) cut: Option<usize>,
    /// So many requests are refused as too many, and this is asked of who sent them.
    pub(crate) busy: u32,
    pub(crate) retry_after: Option<&'static str>,
    /// The store knows no ranges.
    pub(crate) is_rangeless: bool,
    /// The store answers with the range from the beginning, whatever is asked for.
    pub(crate) is_shifted: bool,
    /// The last page of a listing refers to itself.
    pub(crate) is_endless: bool,
    store_address: String,
    address: String,
}

/// A repository.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) card: Value,
    pub(crate) is_gated: bool,
    pub(crate) is_private: bool,
    pub(crate) message: String,
}

impl Held {
    pub(crate) fn of(files: &[(&str, &[u8])]) -> Self {
        let files = files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect();
        Self { files, ..Self::default() }
    }

    /// Its only commit.
    pub(crate) fn commit(&self) -> String {
        let mut all = Vec::new();
        for (path, bytes) in &self.files {
            all.extend_from_slice(path.as_bytes());
            all.extend_from_slice(bytes);
        }
        sha256(&all)[..40].to_owned()
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A Hub that answers as long as the test runs.
pub(crate) struct TestHub {
    state: Arc<Mutex<State>>,
    pub(crate) endpoint: String,
}

impl TestHub {
    pub(crate) fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let [hub, store] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let (endpoint, store_address) = (address(&hub), address(&store));
        state.lock().store_address = store_address;
        state.lock().address = endpoint.clone();
        for (listener, is_store) in [(hub, false), (store, true)] {
            let state = state.clone();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let (state, stream) = (state.clone(), stream.unwrap());
                    thread::spawn(move || serve(stream, &state, is_store));
                }
            });
        }
        Self { state, endpoint }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Puts a repository there, and its large files into the store.
    pub(crate) fn put(&self, key: &str, held: Held) {
        let mut state = self.state();
        let large = held.files.values().filter(|bytes| bytes.len() >= LARGE_BYTES);
        state.store.extend(large.map(|bytes| (sha256(bytes), bytes.clone())));
        state.repositories.insert(key.to_owned(), held);
    }

    /// Requests whose method and path begin so.
    pub(crate) fn asked(&self, begin: &str) -> Vec<String> {
        self.state().asked.iter().filter(|asked| asked.starts_with(begin)).cloned().collect()
    }
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Bytes of the body that are sent.
    sent: usize,
}

impl Answer {
    fn new(status: u16, body: Vec<u8>) -> Self {
        Self { status, headers: Vec::new(), sent: body.len(), body }
    }

    fn json(body: &Value) -> Self {
        Self::new(200, body.to_string().into_bytes())
    }

    fn refusal(status: u16, code: &str, message: &str) -> Self {
        let mut answer = Self::new(status, json!({ "error": message }).to_string().into_bytes());
        answer.headers = vec![("x-error-code", code.to_owned()), ("x-error-message", message.to_owned())];
        answer
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>, is_store: bool) {
    let Some(request) = read(&stream) else { return };
    let answer = {
        let mut state = state.lock();
        let range = request.headers.get("range").map_or_else(String::new, |range| format!(" {range}"));
        state.asked.push(format!("{} {}{range}", request.method, request.path));
        if is_store { from_store(&mut state, &request) } else { from_hub(&mut state, &request) }
    };
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", answer.status);
    let _ = write!(head, "content-length: {}\r\n", answer.body.len());
    for (name, value) in &answer.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&answer.body[..answer.sent]);
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((target.as_str(), ""));
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path: path.to_owned(), query: query.to_owned(), headers, body })
}

/// The store of large files: ranges, objects that are put, and no questions about who asks.
fn from_store(state: &mut State, request: &Request) -> Answer {
    state.has_leaked |= request.headers.contains_key("authorization");
    let oid = request.path.trim_start_matches("/objects/");
    if request.method == "PUT" {
        assert_eq!(sha256(&request.body), oid);
        state.store.insert(oid.to_owned(), request.body.clone());
        return Answer::new(200, Vec::new());
    }
    let Some(object) = state.store.get(oid) else { return Answer::new(404, Vec::new()) };
    let range = request.headers.get("range").filter(|_| !state.is_rangeless);
    let start =
        range.map(|range| range.trim_start_matches("bytes=").trim_end_matches('-').parse::<usize>().unwrap());
    let start = start.map(|start| if state.is_shifted { 0 } else { start });
    let mut answer = match start {
        Some(start) if start >= object.len() => return Answer::new(416, Vec::new()),
        Some(start) => {
            let mut answer = Answer::new(206, object[start..].to_vec());
            let range = format!("bytes {start}-{}/{}", object.len() - 1, object.len());
            answer.headers.push(("content-range", range));
            answer
        }
        None => Answer::new(200, object.clone()),
    };
    if let Some(cut) = state.cut.take() {
        answer.sent = cut.min(answer.body.len());
    }
    answer
}

fn from_hub(state: &mut State, request: &Request) -> Answer {
    if state.busy > 0 {
        state.busy -= 1;
        let mut answer = Answer::refusal(429, "", "too many requests");
        answer.headers.extend(state.retry_after.map(|seconds| ("retry-after", seconds.to_owned())));
        return answer;
    }
    let given = request.headers.get("authorization").map(|value| value.trim_start_matches("Bearer "));
    if given.is_some() && given != state.token {
        return Answer::refusal(401, "", "Invalid credentials in Authorization header");
    }
    let path: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    if request.method == "POST" {
        return if given.is_none() {
            Answer::refusal(401, "", "log in")
        } else {
            post(state, &path, request)
        };
    }
    let (key, rest) = match path.as_slice() {
        ["api", kind, owner, name, rest @ ..] => (format!("{kind}/{owner}/{name}"), rest),
        ["datasets", owner, name, rest @ ..] => (format!("datasets/{owner}/{name}"), rest),
        [owner, name, rest @ ..] => (format!("models/{owner}/{name}"), rest),
        _ => return Answer::new(404, Vec::new()),
    };
    let held = state.repositories.get(&key).filter(|held| !held.is_private || given.is_some());
    let Some(held) = held else {
        return Answer::refusal(
            if given.is_some() { 404 } else { 401 },
            "RepoNotFound",
            "Repository not found",
        );
    };
    let commit = held.commit();
    let is_known = |revision: &str| revision == "main" || revision == commit;
    match rest {
        ["revision", revision] if is_known(revision) => {
            Answer::json(&json!({"id": key, "sha": commit, "cardData": held.card}))
        }
        ["tree", revision] if is_known(revision) => tree(held, request, state),
        ["resolve", revision, file @ ..] if is_known(revision) => {
            if held.is_gated {
                return Answer::refusal(403, "GatedRepo", "Access to this model is restricted");
            }
            resolve(held, &file.join("/"), &state.store_address)
        }
        _ => Answer::refusal(404, "RevisionNotFound", "Invalid rev id"),
    }
}

fn tree(held: &Held, request: &Request, state: &State) -> Answer {
    let entry = |(path, bytes): (&String, &Vec<u8>)| {
        let hash = sha256(bytes);
        let mut entry = json!({"type": "file", "path": path, "size": bytes.len(), "oid": hash[..40]});
        if bytes.len() >= LARGE_BYTES {
            entry["lfs"] = json!({"oid": hash, "size": bytes.len(), "pointerSize": 130});
        }
        entry
    };
    let cursor = request.query.split('&').find_map(|pair| pair.strip_prefix("cursor="));
    let first: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
    let page: Vec<Value> = held.files.iter().skip(first).take(PAGE).map(entry).collect();
    let mut answer = Answer::json(&Value::Array(page));
    if first + PAGE < held.files.len() || state.is_endless {
        let (address, path) = (&state.address, &request.path);
        let next = format!("<{address}{path}?recursive=true&cursor={}>; rel=\"next\"", first + PAGE);
        answer.headers.push(("link", next));
    }
    answer
}

fn resolve(held: &Held, path: &str, store: &str) -> Answer {
    let Some(bytes) = held.files.get(path) else {
        return Answer::refusal(404, "EntryNotFound", "Entry not found");
    };
    let hash = sha256(bytes);
    if bytes.len() < LARGE_BYTES {
        let mut answer = Answer::new(200, bytes.clone());
        answer.headers.push(("etag", format!("\"{}\"", &hash[..40])));
        return answer;
    }
    let mut answer = Answer::new(302, Vec::new());
    answer.headers.push(("x-linked-etag", format!("\"{hash}\"")));
    answer.headers.push(("location", format!("{store}/objects/{hash}?signature=very-secret")));
    answer
}

fn post(state: &mut State, path: &[&str], request: &Request) -> Answer {
    match path {
        ["api", "repos", "create"] => {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let key = format!("models/{}/{}", text(&body["organization"]), text(&body["name"]));
            if state.repositories.contains_key(&key) {
                return Answer::refusal(409, "", "You already created this model repo");
            }
            let is_private = body["private"] == true;
            state.repositories.insert(key, Held { is_private, ..Held::default() });
            Answer::json(&json!({"url": state.address}))
        }
        ["api", "models", _, _, "preupload", "main"] => {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let mode = |file: &Value| {
                let is_large = file["size"].as_u64().unwrap() >= LARGE_BYTES as u64;
                json!({"path": file["path"], "uploadMode": if is_large { "lfs" } else { "regular" }})
            };
            let files: Vec<Value> = body["files"].as_array().unwrap().iter().map(mode).collect();
            Answer::json(&json!({ "files": files }))
        }
        [owner, name, "info", "lfs", "objects", "batch"] => {
            assert_eq!(request.headers["content-type"], "application/vnd.git-lfs+json");
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let object = |object: &Value| {
                let oid = text(&object["oid"]);
                let mut answer = json!({"oid": oid, "size": object["size"]});
                if !state.store.contains_key(oid) {
                    let upload =
                        json!({"href": format!("{}/objects/{oid}?signature=x", state.store_address)});
                    let verify = json!({"href": format!("{}/{owner}/{name}/info/lfs/verify", state.address)});
                    answer["actions"] = json!({"upload": upload, "verify": verify});
                }
                answer
            };
            let objects: Vec<Value> = body["objects"].as_array().unwrap().iter().map(object).collect();
            Answer::json(&json!({"transfer": "basic", "objects": objects}))
        }
        [_, _, "info", "lfs", "verify"] => {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let is_there = state.store.contains_key(text(&body["oid"]));
            Answer::new(if is_there { 200 } else { 404 }, Vec::new())
        }
        ["api", "models", owner, name, "commit", "main"] => commit(state, owner, name, &request.body),
        _ => Answer::new(404, Vec::new()),
    }
}

/// A commit in lines of JSON.
fn commit(state: &mut State, owner: &str, name: &str, body: &[u8]) -> Answer {
    let held = state.repositories.get_mut(&format!("models/{owner}/{name}")).unwrap();
    for line in std::str::from_utf8(body).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let value = &line["value"];
        let path = || text(&value["path"]).to_owned();
        match text(&line["key"]) {
            "header" => held.message = text(&value["summary"]).to_owned(),
            "file" => {
                held.files.insert(path(), STANDARD.decode(text(&value["content"])).unwrap());
            }
            "lfsFile" => {
                held.files.insert(path(), state.store[text(&value["oid"])].clone());
            }
            other => panic!("{other}"),
        }
    }
    let commit = held.commit();
    Answer::json(
        &json!({"commitOid": commit, "commitUrl": format!("{}/{owner}/{name}/commit/{commit}", state.address)}),
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether a file on the disk has this content.
pub(crate) fn is_file(path: &Path, bytes: &[u8]) -> bool {
    sha256_of(path).is_ok_and(|found| found == sha256(bytes))
}
