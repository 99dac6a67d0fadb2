//! The boot node: a peer with a fixed address that keeps the DHT together.
//!
//! It is a DHT server that takes no work: it subscribes to no gossip, answers no control
//! request, accepts no stream.

mod error;
mod status;

pub use error::BootNodeError;

use crate::publish;
use echo_protocol::net::{
    AddrProtocol, ConnectionLimits, DhtMode, Host, HostConfig, HostEvent, HostEvents, Multiaddr, dialable,
};
use echo_protocol::program::keyfile;
use echo_protocol::program::lock::DirectoryLock;
use status::Status;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The identity's file within the data directory.
pub const IDENTITY_FILE: &str = "identity";

/// What a boot node is started with.
#[derive(Clone, Debug)]
pub struct BootNodeConfig {
    /// Holds the identity and the lock; created if need be.
    pub data_dir: PathBuf,
    /// Addresses to listen on.
    pub listen: Vec<Multiaddr>,
    /// Addresses at which others reach this node, where they differ (a forwarded port).
    pub external: Vec<Multiaddr>,
    /// A file to write the node's full addresses to, one a line, once it listens.
    pub write_address: Option<PathBuf>,
    /// The pause between two status lines.
    pub status_every: Duration,
}

/// Runs a boot node until `stop` is done; `say` is given the lines for the keeper.
///
/// # Errors
/// [`BootNodeError`] when the node cannot start, or when its network stops by itself.
pub async fn run(
    config: BootNodeConfig,
    stop: impl Future<Output = ()>,
    mut say: impl FnMut(&str),
) -> Result<(), BootNodeError> {
    let directory = config.data_dir;
    let _lock = DirectoryLock::take(&directory)
        .map_err(|source| BootNodeError::directory(directory.clone(), source))?;
    let key = keyfile::load_or_create(&directory.join(IDENTITY_FILE))?;
    let (host, mut events) = Host::start(HostConfig {
        listen: config.listen,
        mode: DhtMode::Server,
        limits: ConnectionLimits::hub(),
        external: config.external.clone(),
        ..HostConfig::client(key.secret(), concat!("echo-bootstrap/", env!("CARGO_PKG_VERSION")))
    })
    .await?;
    let addresses = full_addresses(&host, &config.external);
    say(&format!("bootstrap node {} (key {})", host.peer_id(), key.public()));
    for address in &addresses {
        say(&format!("reachable at {address}"));
    }
    if let Some(path) = &config.write_address {
        write_addresses(path, &addresses)?;
    }
    let served = serve(&host, &mut events, config.status_every, stop, &mut say).await;
    host.shutdown().await;
    served
}

/// The addresses to give to others: external ones first, each with `/p2p/<peer id>` at its end.
fn full_addresses(host: &Host, external: &[Multiaddr]) -> Vec<Multiaddr> {
    let own = AddrProtocol::P2p(host.peer_id());
    let all = external.iter().cloned().chain(host.listen_addrs());
    let whole =
        all.map(
            |address| {
                if address.iter().any(|part| part == own) { address } else { address.with(own.clone()) }
            },
        );
    let mut addresses: Vec<_> = Vec::new();
    for address in whole.filter(dialable) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

fn write_addresses(path: &Path, addresses: &[Multiaddr]) -> Result<(), BootNodeError> {
    let text: String = addresses.iter().map(|address| format!("{address}\n")).collect();
    publish::replace(path, &text)
        .map_err(|source| BootNodeError::AddressFile { path: path.to_owned(), source })
}

async fn serve(
    host: &Host,
    events: &mut HostEvents,
    status_every: Duration,
    stop: impl Future<Output = ()>,
    say: &mut impl FnMut(&str),
) -> Result<(), BootNodeError> {
    let mut stop = std::pin::pin!(stop);
    let mut pulse = tokio::time::interval_at(tokio::time::Instant::now() + status_every, status_every);
    pulse.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut status = Status::default();
    loop {
        tokio::select! {
            () = &mut stop => {
                say(&format!("stopping; {}", status.line(host.connected_peers().await.len())));
                return Ok(());
            }
            event = events.recv() => match event {
                Some(HostEvent::Connected { .. }) => status.connected(),
                Some(HostEvent::Disconnected { .. }) => status.disconnected(),
                Some(HostEvent::Located { .. }) => {}
                // Dropping the reply tells the peer that it asked the wrong one; without topics
                // there is no gossip.
                Some(HostEvent::Request { .. } | HostEvent::Gossip { .. }) => status.refused(),
                None => return Err(BootNodeError::NetworkStopped),
            },
            _ = pulse.tick() => say(&status.line(host.connected_peers().await.len())),
        }
    }
}

#[cfg(test)]
mod tests;
