//! Requests to the Hub: who asks, what is tried again and when, and refusals in words.

use super::environment::HubEnvironment;
use super::error::HubError;
use super::kind::Kind;
use reqwest::blocking::{Client as Http, RequestBuilder, Response};
use reqwest::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::Read as _;
use std::thread;
use std::time::Duration;

/// Longest wait for an answer, and for each further part of it.
const SILENCE: Duration = Duration::from_secs(60);
/// Tries of a request that the Hub has no time for.
const ATTEMPTS: u32 = 6;
/// Tries of one that does not reach it: whoever has no network should hear of it soon.
const CONNECTIONS: u32 = 3;
/// The first pause; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1000 });
/// Longest pause that a Hub may ask for: its limits count windows of five minutes.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Longest answer that is read as a whole, in bytes: listings have a page of 1,000 files.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// Longest word of the Hub that is shown, in characters.
const MAX_SAID_CHARS: usize = 300;

/// Whom a request is about, for the words of its refusal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) kind: Kind,
    pub(super) repository: &'a str,
    pub(super) revision: &'a str,
}

/// Speaks with one Hub in one name.
pub(super) struct Client {
    http: Http,
    endpoint: Url,
    environment: HubEnvironment,
}

impl Client {
    pub(super) fn new(environment: &HubEnvironment) -> Result<Self, HubError> {
        let wrong = || HubError::Endpoint(environment.endpoint.clone());
        let endpoint = Url::parse(&environment.endpoint).ok().filter(Url::has_host).ok_or_else(wrong)?;
        let builder = Http::builder()
            .user_agent(concat!("echo-learner/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(SILENCE)
            .timeout(SILENCE);
        // A Hub on this machine is never behind a proxy.
        let is_here = matches!(endpoint.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
        let builder = if is_here { builder.no_proxy() } else { builder };
        let http = builder.build().map_err(|error| HubError::Network {
            address: environment.endpoint.clone(),
            cause: causes(error),
        })?;
        Ok(Self { http, endpoint, environment: environment.clone() })
    }

    pub(super) fn environment(&self) -> &HubEnvironment {
        &self.environment
    }

    /// An address of the Hub; every element of `path` is one segment, whatever is in it.
    pub(super) fn url<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.endpoint.clone();
        // An address with a host has segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// Asks until there is an answer that is no refusal. A range that is not there (416) is an answer.
    pub(super) fn send(
        &self,
        subject: Subject<'_>,
        method: &Method,
        url: &Url,
        with: impl Fn(RequestBuilder) -> Result<RequestBuilder, HubError>,
    ) -> Result<Response, HubError> {
        if self.environment.is_offline {
            let (name, cache) = (subject.repository.to_owned(), self.environment.cache.clone());
            return Err(HubError::Offline { name, cache });
        }
        let mut attempt = 0;
        loop {
            attempt += 1;
            let pause = PAUSE.saturating_mul(1 << (attempt - 1));
            match with(self.request(method.clone(), url))?.send() {
                Err(error) if attempt < CONNECTIONS && !error.is_redirect() && !error.is_builder() => {
                    tracing::debug!(cause = causes(error), "the Hub is tried again");
                    thread::sleep(pause);
                }
                Err(error) => return Err(HubError::Network { address: address(url), cause: causes(error) }),
                Ok(response) if attempt < ATTEMPTS && is_passing(response.status()) => {
                    let asked = retry_after(&response).unwrap_or(pause).min(LONGEST_PAUSE);
                    let (status, pause) = (response.status().as_u16(), asked.as_secs_f64());
                    tracing::info!("the Hub answers {status}; it is asked again in {pause:.0} s");
                    thread::sleep(asked);
                }
                Ok(response) => {
                    let status = response.status();
                    let is_answer = status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE;
                    return if is_answer { Ok(response) } else { Err(self.refusal(subject, response)) };
                }
            }
        }
    }

    /// Asks for JSON.
    pub(super) fn json<T: DeserializeOwned>(
        &self,
        subject: Subject<'_>,
        url: &Url,
    ) -> Result<(T, Response), HubError> {
        let mut response = self.send(subject, &Method::GET, url, Ok)?;
        let read = read_json(&mut response)?;
        Ok((read, response))
    }

    /// Sends JSON, and reads the answer as JSON.
    pub(super) fn post<T: DeserializeOwned>(
        &self,
        subject: Subject<'_>,
        url: &Url,
        content_type: &'static str,
        body: &[u8],
    ) -> Result<T, HubError> {
        let mut response = self.send(subject, &Method::POST, url, |request| {
            // The Hub's store of large files asks for its own type in both directions.
            let request = request.header(ACCEPT, accepted(content_type));
            Ok(request.header(CONTENT_TYPE, content_type).body(body.to_vec()))
        })?;
        read_json(&mut response)
    }

    /// The token goes to the Hub itself alone: other addresses carry their own right.
    fn request(&self, method: Method, url: &Url) -> RequestBuilder {
        let request = self.http.request(method, url.clone());
        match &self.environment.token {
            Some(token) if url.origin() == self.endpoint.origin() => request.bearer_auth(token),
            _ => request,
        }
    }

    /// What a refusal means.
    pub(super) fn refusal(&self, subject: Subject<'_>, mut response: Response) -> HubError {
        let (status, address) = (response.status(), address(response.url()));
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let (code, mut said) = (header("x-error-code"), header("x-error-message"));
        if said.is_empty() {
            said = said_in_body(&mut response);
        }
        let said: String = said.chars().filter(|c| !c.is_control()).take(MAX_SAID_CHARS).collect();
        let endpoint = self.environment.endpoint.clone();
        let repository = subject.repository.to_owned();
        let is_unknown_token = said.contains("Invalid credentials") && self.environment.token.is_some();
        match (code.as_str(), status.as_u16()) {
            (_, 429) => HubError::Busy { endpoint, said },
            (_, 401) if is_unknown_token => HubError::Token { endpoint },
            ("GatedRepo", _) => {
                let page = self.url(subject.kind.page().into_iter().chain(repository.split('/'))).into();
                HubError::Gated { repository, page }
            }
            ("RevisionNotFound", _) => {
                HubError::Revision { repository, revision: subject.revision.to_owned() }
            }
            ("RepoNotFound", _) | (_, 401 | 404) => {
                HubError::Missing { endpoint, kind: subject.kind.in_words(), repository }
            }
            (_, 403) => HubError::Denied { repository, said },
            (_, status) => HubError::Status { address, status, said },
        }
    }
}

fn accepted(content_type: &'static str) -> &'static str {
    if content_type.starts_with("application/vnd") { content_type } else { "application/json" }
}

/// What the body of a refusal says.
fn said_in_body(response: &mut Response) -> String {
    let mut body = Vec::new();
    // A refusal whose words are lost is still one.
    let _ = response.take(MAX_ANSWER_BYTES).read_to_end(&mut body);
    let json: Option<Value> = serde_json::from_slice(&body).ok();
    let words = json.as_ref().and_then(|json| json.get("error").or_else(|| json.get("message")));
    words.and_then(Value::as_str).map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned)
}

/// Reads an answer as JSON.
pub(super) fn read_json<T: DeserializeOwned>(response: &mut Response) -> Result<T, HubError> {
    let address = address(response.url());
    let mut body = Vec::new();
    let read = response.take(MAX_ANSWER_BYTES).read_to_end(&mut body);
    read.map_err(|error| HubError::Network { address: address.clone(), cause: error.to_string() })?;
    serde_json::from_slice(&body).map_err(|error| HubError::Form { address, cause: error.to_string() })
}

/// An address without what may be secret: its query, in which stores carry signatures, and a password.
pub(super) fn address(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    // Refused of addresses that can have none.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.into()
}

/// An error with its causes, and without its address.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

/// Whether the same request may be answered a little later.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504)
}

/// How long the Hub asks to wait.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
