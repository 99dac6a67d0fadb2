//! A stranger that takes part in a run as a node would, and then says what no honest node says.
//!
//! It finds the learner as volunteers do, from the signed peer list and through the DHT, and speaks
//! their protocols with a key of its own. What it makes is well-formed work ([`Liar::group`]),
//! which the learner accepts; each test changes one thing about it.

mod consumer;
mod corrupt_parent;
mod delivery;
mod envelope;
mod learner;
mod work;

pub use consumer::receive;
pub(crate) use corrupt_parent::say;
pub use corrupt_parent::{ROTTEN, RottenParent};
pub use envelope::Envelope;
pub use learner::{HeartbeatNews, LearnerConnection};
pub use work::LiarOrder;

use anyhow::{Context as _, bail};
use echo_learner::common::workload::Workload;
use echo_protocol::net::peer_id::peer_of_key;
use echo_protocol::net::{AddrProtocol, DhtMode, Host, HostConfig, HostEvents, Multiaddr, PeerId, Stream};
use echo_protocol::program::clock;
use echo_protocol::run::charter::Charter;
use echo_protocol::run::peer_list;
use echo_protocol::run::peer_list::{PeerList, Trust};
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_sandbox::task::files::TaskFiles;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Anything that is waited for happens within this time, or something is broken.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// Where a liar listens: the system chooses the port.
const LISTEN: &str = "/ip4/127.0.0.1/udp/0/quic-v1";

/// A member of a run that nobody should believe.
pub struct Liar {
    host: Host,
    key: NodeKey,
    learner: LearnerConnection,
    workload: Workload,
    /// The stream that groups go out on; opened when it is first needed.
    stream: Option<Stream>,
    /// Heartbeats, and a reader of the host's events.
    tasks: JoinSet<()>,
}

impl Liar {
    /// Joins the first run of the signed list at `list` with the key of `secret`, and keeps sending
    /// heartbeats from then on. With `relays`, it offers to pass snapshots on, so the learner gives
    /// it a place in a chain.
    ///
    /// # Errors
    /// When the list does not open, or the learner is not found or understood within [`PATIENCE`].
    pub async fn join(list: &Path, secret: [u8; 32], relays: bool) -> anyhow::Result<Self> {
        let listen = [LISTEN.to_owned()];
        let (host, learner, tasks) = enter(list, secret, &listen, "echo-lab liar", relays).await?;
        let mut liar = Self::member(secret, host, learner, tasks).await?;
        liar.learner.beat().await?;
        liar.tasks.spawn(liar.learner.clone().stay());
        Ok(liar)
    }

    /// Joins the run of the learner at `address` with the key of `secret`. Heartbeats are the caller's.
    ///
    /// # Errors
    /// When the learner is not reached or understood.
    pub async fn meet(address: &Multiaddr, secret: [u8; 32]) -> anyhow::Result<Self> {
        let Some(AddrProtocol::P2p(peer)) = address.iter().last() else {
            bail!("{address} does not say who is there")
        };
        let (host, events) = Host::start(HostConfig::client(secret, "echo-lab player")).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(ignore(events));
        host.dial(peer, vec![address.clone()]).await?;
        Self::member(secret, host.clone(), LearnerConnection::new(host, peer, false), tasks).await
    }

    async fn member(
        secret: [u8; 32],
        host: Host,
        learner: LearnerConnection,
        tasks: JoinSet<()>,
    ) -> anyhow::Result<Self> {
        let (run, charter) = Charter::open(&learner.charter().await?)?;
        // The runs of the lab's tests use the character tokenizer, which needs no files.
        let workload = Workload::open(run, charter, Path::new(""), &TaskFiles::none())?;
        Ok(Self { host, key: NodeKey::from_secret(secret), learner, workload, stream: None, tasks })
    }

    /// The key that it signs with, and by which the learner knows it.
    #[must_use]
    pub fn key(&self) -> &NodeKey {
        &self.key
    }

    /// Its network host, for streams and dials of its own.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The line to the learner.
    #[must_use]
    pub fn learner(&self) -> &LearnerConnection {
        &self.learner
    }

    /// What the run's charter means.
    #[must_use]
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The learner's key, which signs manifests.
    #[must_use]
    pub fn learner_key(&self) -> PublicKey {
        self.workload.charter.learner
    }
}

/// Reads a host's events so that none wait; requests and gossip of others are dropped.
pub(crate) async fn ignore(mut events: HostEvents) {
    while events.recv().await.is_some() {}
}

/// A host that is connected to the learner of the first run of the signed list at `list`, before
/// its first heartbeat; and the task that reads its events.
pub(crate) async fn enter(
    list: &Path,
    secret: [u8; 32],
    listen: &[String],
    agent: &str,
    relays: bool,
) -> anyhow::Result<(Host, LearnerConnection, JoinSet<()>)> {
    let text = std::fs::read_to_string(list).with_context(|| format!("cannot read {}", list.display()))?;
    let list = peer_list::open(&text, clock::wall(), &mut Trust::default())?;
    let (_, key) = list.learners().next().context("the list names no run")?;
    let learner = peer_of_key(&key).context("the learner's key is none")?;
    let (host, events) = Host::start(HostConfig {
        listen: listen.iter().map(|text| text.parse()).collect::<Result<_, _>>()?,
        mode: DhtMode::Server,
        ..HostConfig::client(secret, agent)
    })
    .await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(ignore(events));
    reach(&host, learner, &list).await?;
    Ok((host.clone(), LearnerConnection::new(host, learner, relays), tasks))
}

/// Connects to the learner by way of the list's peers.
async fn reach(host: &Host, learner: PeerId, list: &PeerList) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for text in &list.peers {
            let address: Multiaddr = text.parse()?;
            if let Some(AddrProtocol::P2p(peer)) = address.iter().last() {
                // One that answers is enough, and who is connected answers at once.
                let _ = host.dial(peer, vec![address.clone()]).await;
            }
        }
        let found = host.find_peer(learner).await.unwrap_or_default();
        match host.dial(learner, found).await {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > deadline => bail!("the learner is not reached: {error}"),
            Err(_) => sleep(PAUSE).await,
        }
    }
}
