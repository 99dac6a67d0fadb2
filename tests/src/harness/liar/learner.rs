//! Questions to the learner, and the heartbeats that keep a member a member.

use super::{PATIENCE, PAUSE};
use anyhow::{Context as _, bail};
use echo_protocol::control::heartbeat::{HEARTBEAT_EVERY_MS, Heartbeat};
use echo_protocol::control::requests::{ControlRequest, ControlResponse, Peer};
use echo_protocol::net::{Host, Multiaddr, PeerId};
use echo_protocol::run::charter::Charter;
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::wire::signed::Signed;
use echo_protocol::work::lease::{HeldOrder, Lease};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// The longest wait for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// What the learner says in answer to a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatNews {
    /// The life of the learner that answered.
    pub epoch: Epoch,
    /// The newest published version.
    pub newest: Option<PolicyVersion>,
    /// Whom to receive snapshots from.
    pub parent: Option<Peer>,
    /// Whether the run has ended.
    pub ended: bool,
}

/// The line to the learner.
#[derive(Clone)]
pub struct LearnerConnection {
    host: Host,
    peer: PeerId,
    relays: bool,
    news: watch::Sender<HeartbeatNews>,
    /// The last order that came.
    last: watch::Sender<Option<HeldOrder>>,
}

impl LearnerConnection {
    /// The line to the learner `peer`; `relays` is what heartbeats say.
    pub(crate) fn new(host: Host, peer: PeerId, relays: bool) -> Self {
        Self {
            host,
            peer,
            relays,
            news: watch::Sender::new(HeartbeatNews::default()),
            last: watch::Sender::new(None),
        }
    }

    /// The peer id of the learner.
    #[must_use]
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// The run's charter, unopened.
    ///
    /// # Errors
    /// When it is not answered, like all questions here.
    pub async fn charter(&self) -> anyhow::Result<Signed<Charter>> {
        match self.ask(&ControlRequest::Charter).await? {
            ControlResponse::Charter(charter) => Ok(charter),
            other => bail!("the learner answered {other:?}"),
        }
    }

    /// One heartbeat. It claims that the newest version that the learner has told of is installed:
    /// only such nodes get work.
    ///
    /// # Errors
    /// When it is not answered.
    pub async fn beat(&self) -> anyhow::Result<HeartbeatNews> {
        let heartbeat = Heartbeat {
            epoch: self.news.borrow().epoch,
            installed: self.news.borrow().newest,
            addresses: self.host.listen_addrs().iter().map(Multiaddr::to_string).collect(),
            relays: self.relays,
            ..Heartbeat::default()
        };
        match self.ask(&ControlRequest::Heartbeat(heartbeat)).await? {
            ControlResponse::News { epoch, newest, neighbourhood, ended, .. } => {
                // A heartbeat that names no neighbourhood is told of it every time.
                let parent = neighbourhood.and_then(|named| named.parent().cloned());
                let news = HeartbeatNews { epoch, newest, parent, ended };
                self.news.send_replace(news.clone());
                Ok(news)
            }
            other => bail!("the learner answered {other:?}"),
        }
    }

    /// Heartbeats until the news are as wanted.
    ///
    /// # Errors
    /// When they are not within [`PATIENCE`].
    pub async fn news(
        &self,
        what: &str,
        wanted: impl Fn(&HeartbeatNews) -> bool,
    ) -> anyhow::Result<HeartbeatNews> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let news = self.beat().await?;
            if wanted(&news) {
                return Ok(news);
            }
            if Instant::now() > deadline {
                bail!("not in time: {what}; the last news were {news:?}");
            }
            sleep(PAUSE).await;
        }
    }

    /// The newest published version, waiting for the first.
    ///
    /// # Errors
    /// When there is none within [`PATIENCE`].
    pub async fn newest(&self) -> anyhow::Result<PolicyVersion> {
        let news = self.news("a first version", |news| news.newest.is_some()).await?;
        news.newest.context("the news were waited for")
    }

    /// The newest manifest, unopened.
    ///
    /// # Errors
    /// When it is not answered, or there is none.
    pub async fn manifest(&self) -> anyhow::Result<Signed<Manifest>> {
        match self.ask(&ControlRequest::Manifest(None)).await? {
            ControlResponse::Manifest(manifest) => manifest.context("nothing is published yet"),
            other => bail!("the learner answered {other:?}"),
        }
    }

    /// Leases for at most `orders` orders, unopened, possibly none.
    ///
    /// # Errors
    /// When it is not answered.
    pub async fn leases(&self, orders: u32) -> anyhow::Result<Vec<Signed<Lease>>> {
        let last = *self.last.borrow();
        match self.ask(&ControlRequest::Lease { orders, last }).await? {
            ControlResponse::Leases { leases, .. } => {
                if let Some(newest) = leases.last() {
                    let lease: Lease = newest.open()?;
                    let counter = lease.orders().last().context("a lease of no orders")?;
                    self.last.send_replace(Some(HeldOrder { lease: lease.id, counter }));
                }
                Ok(leases)
            }
            other => bail!("the learner answered {other:?}"),
        }
    }

    /// Heartbeats for as long as it is polled.
    pub(crate) async fn stay(self) {
        loop {
            sleep(Duration::from_millis(HEARTBEAT_EVERY_MS)).await;
            if let Err(error) = self.beat().await {
                tracing::debug!(%error, "a heartbeat was not answered");
            }
        }
    }

    async fn ask(&self, request: &ControlRequest) -> anyhow::Result<ControlResponse> {
        let answer = self.host.request(self.peer, request.to_bytes()?, ANSWER_WITHIN).await?;
        Ok(ControlResponse::from_bytes(&answer)?)
    }
}
