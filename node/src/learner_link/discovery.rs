//! Finding the learner by its key: peer list, bootstrap peers, DHT, and the peers of last time.
//!
//! Its key is in the peer list, beside the name of the run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use echo_protocol::net::{AddrProtocol, Host, Multiaddr, NetError, PeerId};
use echo_protocol::program::log_on_change::LastMessage;
use futures::future::{Either, join_all, select};

use crate::learner_link::backoff::Backoff;
use crate::state::known_peers::KnownPeers;

/// The pause after the first failed attempt.
pub const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause between two attempts. An attempt takes longer where the DHT has to give up
/// peers that have left.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What was in the way, by what helps against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// Neither the list's peers nor those of last time answer.
    Nobody,
    /// The network is there, and nobody in it knows the learner.
    Unknown,
    /// The learner's addresses are known, and it answers at none of them.
    Silent,
}

/// One attempt that failed, with everything that was tried.
#[derive(Debug, thiserror::Error)]
#[error("learner {learner} not reached: {tried}")]
pub struct NotReached {
    learner: PeerId,
    obstacle: Obstacle,
    tried: String,
}

impl NotReached {
    /// What it is, and what helps, on one line.
    pub fn advice(&self) -> &'static str {
        match self.obstacle {
            Obstacle::Nobody => {
                "no peer of the list answers: a firewall stops this machine, or its keeper's boot node is down"
            }
            Obstacle::Unknown => "the learner is not there yet: it may still be preparing its run",
            Obstacle::Silent => "the learner does not answer: it is down, or a firewall is in the way",
        }
    }
}

/// Finds the learner and keeps what it takes to find it again.
pub struct Discovery {
    host: Host,
    learner: PeerId,
    bootstraps: BTreeMap<PeerId, Vec<Multiaddr>>,
    known: KnownPeers,
    known_path: PathBuf,
}

impl Discovery {
    /// Looks for `learner` by way of `bootstraps` (each address ends in `/p2p/…`) and of the
    /// peers kept at `known_path`.
    pub fn new(host: Host, learner: PeerId, bootstraps: &[Multiaddr], known_path: PathBuf) -> Self {
        let mut by_peer: BTreeMap<PeerId, Vec<Multiaddr>> = BTreeMap::new();
        for address in bootstraps {
            if let Some(AddrProtocol::P2p(peer)) = address.iter().last() {
                by_peer.entry(peer).or_default().push(address.clone());
            }
        }
        let known = KnownPeers::read(&known_path);
        Self { host, learner, bootstraps: by_peer, known, known_path }
    }

    /// Connects to the learner, however long it takes. A warning says what is in the way, and again when that
    /// changes; what was tried each time is in the log of `debug`.
    pub async fn reach(&mut self) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut said = LastMessage::default();
        while let Err(error) = self.attempt().await {
            let pause = backoff.pause();
            if said.is_new(error.advice()) {
                tracing::warn!("{}; the node keeps trying", error.advice());
            }
            tracing::debug!("{error}; next attempt in {:.1} s", pause.as_secs_f32());
            tokio::time::sleep(pause).await;
        }
        self.remember().await;
    }

    /// Keeps the peers that are connected now for the next start.
    pub async fn remember(&mut self) {
        self.known.refresh(&self.host, self.learner).await;
        if let Err(error) = self.known.write(&self.known_path) {
            tracing::warn!(%error, "could not keep the list of good peers");
        }
    }

    /// One attempt: join the network, then dial the learner where it was last, then where the DHT says it is.
    ///
    /// # Errors
    /// [`NotReached`] lists what was tried.
    pub async fn attempt(&self) -> Result<(), NotReached> {
        let mut tried = Vec::new();
        // The DHT needs acquaintances even when the learner's address is known: others
        // are found through them.
        let (joining, last) = (std::pin::pin!(self.join()), std::pin::pin!(self.dial_where_it_was()));
        let (network, last) = match select(joining, last).await {
            // Dials that are under way go on by themselves; a dead bootstrap peer shall not keep us waiting.
            Either::Right((Ok(()), _)) => return Ok(()),
            Either::Right((failed, joining)) => (joining.await, failed),
            Either::Left((network, last)) => (network, last.await),
        };
        let mut obstacle = if network.is_err() { Obstacle::Nobody } else { Obstacle::Silent };
        tried.extend(network.err());
        let Err(error) = last else { return Ok(()) };
        tried.extend(error);
        match self.dial_where_the_dht_says().await {
            Ok(()) => return Ok(()),
            Err(error) => {
                if error.is_none() && obstacle == Obstacle::Silent {
                    obstacle = Obstacle::Unknown;
                }
                tried.push(error.unwrap_or_else(|| "the DHT does not know it".to_owned()));
            }
        }
        // The causes come in several lines; one failure is one line.
        let tried = tried.join("; ").lines().map(str::trim).collect::<Vec<_>>().join(" ");
        Err(NotReached { learner: self.learner, obstacle, tried })
    }

    /// Connects to the list's peers, or if none answers to those of last time.
    async fn join(&self) -> Result<(), String> {
        let mut failures = match self.dial_any(self.bootstraps.clone()).await {
            Ok(()) => return Ok(()),
            Err(failures) => failures,
        };
        let others = self.known.iter().filter(|(peer, _)| *peer != self.learner);
        match self.dial_any(others.collect()).await {
            Ok(()) => Ok(()),
            Err(more) => {
                failures.extend(more);
                Err(format!("no peer of the list or of last time answers ({})", failures.join(", ")))
            }
        }
    }

    async fn dial_any(&self, peers: BTreeMap<PeerId, Vec<Multiaddr>>) -> Result<(), Vec<String>> {
        let dials = peers.into_iter().map(|(peer, addresses)| self.host.dial(peer, addresses));
        let results: Vec<Result<(), NetError>> = join_all(dials).await;
        if results.iter().any(Result::is_ok) {
            return Ok(());
        }
        Err(results.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect())
    }

    /// Dials where the first peers say that it is, then where all do. `None` where nobody knows it.
    async fn dial_where_the_dht_says(&self) -> Result<(), Option<String>> {
        let failed = |error: NetError| Some(format!("the DHT: {error}"));
        let (mut found, everybody_was_asked) =
            self.host.find_peer_early(self.learner).await.map_err(failed)?;
        if !everybody_was_asked {
            if self.host.dial(self.learner, found).await.is_ok() {
                return Ok(());
            }
            found = self.host.find_peer(self.learner).await.map_err(failed)?;
        }
        if found.is_empty() {
            return Err(None);
        }
        let dialled = self.host.dial(self.learner, found).await;
        dialled.map_err(|error| Some(format!("where the DHT says it is: {error}")))
    }

    async fn dial_where_it_was(&self) -> Result<(), Option<String>> {
        let mut addresses = self.host.known_addresses(self.learner).await;
        let last_time = self.known.iter().filter(|(peer, _)| *peer == self.learner).flat_map(|(_, a)| a);
        addresses.extend(last_time.filter(|address| !addresses.contains(address)).collect::<Vec<_>>());
        if addresses.is_empty() {
            return Err(None);
        }
        let dialled = self.host.dial(self.learner, addresses).await;
        dialled.map_err(|error| Some(format!("where it was last: {error}")))
    }
}

#[cfg(test)]
mod tests;
