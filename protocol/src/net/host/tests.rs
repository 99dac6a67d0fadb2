//! Hosts on loopback, over real sockets.

mod connections;
mod control;
mod dht;
mod gossip;
mod liar;
mod reach;
mod streams;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libp2p::Multiaddr;

use super::*;
use crate::net::config::{DHT_UPLOAD, DhtMode};
use crate::net::limits::{MAX_GOSSIP_MESSAGE, MAX_PENDING_REPLIES, MAX_TOPICS};

const QUIC: &str = "/ip4/127.0.0.1/udp/0/quic-v1";
const TCP: &str = "/ip4/127.0.0.1/tcp/0";
const PATIENCE: Duration = Duration::from_secs(60);

/// A configuration with an identity that no other test of this process has.
fn config(listen: &[&str]) -> HostConfig {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut secret = [0u8; 32];
    secret[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    HostConfig {
        listen: listen.iter().map(|addr| addr.parse().unwrap()).collect(),
        mode: DhtMode::Server,
        topics: vec!["/echo/00/manifest/1".to_owned()],
        ..HostConfig::client(secret, "echo-test")
    }
}

async fn start(listen: &[&str]) -> (Host, HostEvents) {
    Host::start(config(listen)).await.unwrap()
}

/// A host that answers every request with its reversed bytes, and what it learns besides.
async fn start_echo(listen: &[&str]) -> Host {
    echo(config(listen)).await
}

async fn echo(config: HostConfig) -> Host {
    let (host, mut events) = Host::start(config).await.unwrap();
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            if let HostEvent::Request { mut body, reply, .. } = event {
                body.reverse();
                reply.send(body).unwrap();
            }
        }
    });
    host
}

async fn connect(from: &Host, to: &Host) {
    from.dial(to.peer_id(), to.listen_addrs()).await.unwrap();
}

/// Asks again and again until the answer is there.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("never happened: {what}"),
    }
}

async fn next_event(events: &mut HostEvents) -> HostEvent {
    timeout(PATIENCE, events.recv()).await.expect("an event in time").expect("the host runs")
}

/// The next event for which `pick` gives something; others are passed over.
async fn next_of<T>(events: &mut HostEvents, mut pick: impl FnMut(HostEvent) -> Option<T>) -> T {
    loop {
        if let Some(found) = pick(next_event(events).await) {
            return found;
        }
    }
}

fn port_free_address() -> Multiaddr {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("/ip4/127.0.0.1/tcp/{}", socket.local_addr().unwrap().port()).parse().unwrap()
}
