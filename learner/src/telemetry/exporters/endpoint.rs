//! `GET /metrics` for Prometheus.
//!
//! At most [`CONNECTIONS`] at once, each with one request and done within [`PATIENCE`], so that
//! nobody who reaches the port can take memory or lock others out for long.

use super::Latest;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Most connections that are served at once; others wait in the system's queue.
const CONNECTIONS: usize = 8;
/// The longest that a connection lasts.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest request head, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Pause after the system refused to give a connection.
const PAUSE: Duration = Duration::from_millis(100);

const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Answers until the task is dropped. `run` is the run's name.
pub async fn serve(listener: TcpListener, latest: Latest, run: Arc<str>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = places.clone().acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "[watch] listen: no connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (latest, run) = (latest.clone(), run.clone());
        tokio::spawn(async move {
            // Whoever is too slow, or speaks no HTTP, is simply left.
            let _ = tokio::time::timeout(PATIENCE, connection(stream, latest, run)).await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, latest: Latest, run: Arc<str>) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| {
        let response = answer(&request, &latest, &run);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false).max_buf_size(MAX_HEAD_BYTES);
    server.serve_connection(TokioIo::new(stream), service).await
}

fn answer(request: &Request<Incoming>, latest: &Latest, run: &str) -> Response<Full<Bytes>> {
    let reply = |status, text: String| {
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, TEXT);
        response
    };
    if request.uri().path() != "/metrics" {
        return reply(StatusCode::NOT_FOUND, "the metrics are at /metrics\n".into());
    }
    if request.method() != Method::GET {
        let mut response = reply(StatusCode::METHOD_NOT_ALLOWED, String::new());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return response;
    }
    match latest.text(run) {
        Ok(text) => {
            let mut response = reply(StatusCode::OK, text);
            response.headers_mut().insert(CONTENT_TYPE, OPEN_METRICS);
            response
        }
        Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::exporters::catalog::readings;
    use serde_json::json;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{request}\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_scrape_gets_the_newest_values() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, latest) = (listener.local_addr().unwrap(), Latest::default());
        let serving = tokio::spawn(serve(listener, latest.clone(), "addition".into()));
        let empty = ask(address, "GET /metrics HTTP/1.1").await;
        assert!(empty.starts_with("HTTP/1.1 200") && empty.ends_with("# EOF\n"), "{empty}");
        latest.update(readings(&json!({"reward": 0.5})));
        let scraped = ask(address, "GET /metrics HTTP/1.1").await;
        assert!(scraped.contains("content-type: application/openmetrics-text"), "{scraped}");
        assert!(scraped.contains("\necho_reward{run=\"addition\"} 0.5\n"), "{scraped}");
        assert!(ask(address, "GET / HTTP/1.1").await.starts_with("HTTP/1.1 404"));
        assert!(ask(address, "DELETE /metrics HTTP/1.1").await.starts_with("HTTP/1.1 405"));
        assert!(ask(address, "what is this").await.starts_with("HTTP/1.1 400"));
        // Idle connections do not lock out the next one, as long as there are fewer than the limit.
        let mut idle = Vec::new();
        for _ in 1..CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(ask(address, "GET /metrics HTTP/1.0").await.contains("echo_reward"));
        serving.abort();
    }
}
