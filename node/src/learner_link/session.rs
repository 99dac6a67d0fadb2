//! The conversation with the learner: found, lost and found again, for as long as the run lasts.

use std::sync::Arc;
use std::time::Duration;

use echo_protocol::control::heartbeat::{
    HEARTBEAT_EVERY_MS, Heartbeat, MAX_ADDRESSES, Offer, UplinkReport, WHOLE_PERMILLE,
};
use echo_protocol::control::requests::MAX_NEIGHBOURS;
use echo_protocol::net::snapshots::{SnapshotStats, Snapshots, Stopped};
use echo_protocol::net::{Host, Multiaddr};
use echo_protocol::program::clock;
use echo_protocol::program::log_on_change::LastMessage;
use echo_protocol::run::charter::{Charter, RunId};
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::rate::BytesPerSec;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior};

use crate::learner_link::backoff::Backoff;
use crate::learner_link::client::{AskError, LearnerClient, LearnerNews, Newest};
use crate::learner_link::discovery::{Discovery, FIRST_PAUSE, LONGEST_PAUSE};
use crate::learner_link::neighbours::CurrentNeighbours;
use crate::status::node_state::{Download, NodeActivity, NodeState, SnapshotTraffic};

/// Unanswered heartbeats after which the connection is given up and the learner looked for anew.
const MAX_MISSED: u32 = 2;
/// The pause after a learner was reached that makes no sense.
const NONSENSE_PAUSE: Duration = Duration::from_secs(5);
/// The pause after a heartbeat that the learner does not want to hear.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// How often good peers are written down while all is well.
const REMEMBER_EVERY: Duration = Duration::from_secs(60);

/// Difference of two clocks that is worth a word, in milliseconds. An answer takes some seconds at most.
const CLOCK_OFF_MS: u64 = 60_000;

/// How a session ends by itself.
#[derive(Debug)]
pub enum Ending {
    /// The run has ended.
    RunEnded,
    /// The learner has a new charter: another run begins.
    Rechartered(Box<Signed<Charter>>),
}

/// How a conversation with the learner ends.
enum Talk {
    /// The session is over.
    Over(Ending),
    /// The learner answered, and answers no more.
    Lost,
    /// Not a single heartbeat was answered, for this reason.
    Unanswered(String),
}

/// Everything that a session needs.
pub struct Session {
    /// The host, whose connections and addresses heartbeats report.
    pub host: Host,
    /// Finds the learner at first, and whenever it is lost.
    pub discovery: Discovery,
    /// Asked for its charter, and sent the heartbeats.
    pub learner: LearnerClient,
    /// Its key and the run.
    pub run: RunId,
    /// Says what neighbours gave.
    pub snapshots: Snapshots,
    /// Takes over the neighbours that the learner names.
    pub neighbours: CurrentNeighbours,
    /// Where the owner sees what happens.
    pub node_state: Arc<NodeState>,
    /// What is installed: reported to the learner at once.
    pub installed: watch::Receiver<Option<(Epoch, PolicyVersion)>>,
    /// Whether this node passes snapshots on.
    pub relays: bool,
    /// The upload cap that its owner set.
    pub max_upload: Option<BytesPerSec>,
    /// What its owner says of it; the class is the device that it generates on.
    pub offer: Offer,
    /// Whether the learner answers.
    pub linked: watch::Sender<bool>,
    /// What the learner says is newest.
    pub newest: watch::Sender<Option<Newest>>,
    /// How far this machine's clock was ahead of the learner's when that was last worth a word.
    pub clock_ahead_ms: Option<i64>,
    /// Says that the learner's connection ended.
    pub learner_gone: Arc<Notify>,
}

impl Session {
    /// Talks to the learner until the run ends or is replaced by another.
    ///
    /// # Errors
    /// [`Stopped`] when the network was taken down.
    pub async fn run(mut self) -> Result<Ending, Stopped> {
        // A dial that succeeds is no success yet: the learner may be of another version,
        // and close every connection.
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut unanswered = LastMessage::default();
        loop {
            self.discovery.reach().await;
            let charter = self.other_charter().await;
            if let Ok(Some(new)) = charter {
                return Ok(Ending::Rechartered(Box::new(new)));
            }
            match self.talk().await? {
                Talk::Over(ending) => return Ok(ending),
                Talk::Lost => {
                    backoff.reset();
                    unanswered.clear();
                    tracing::warn!("the learner is gone; the node goes on with the orders that it has");
                }
                Talk::Unanswered(why) => {
                    // The first question failed first: the reason is there, before the connection was closed.
                    let why = charter.err().map_or(why, |error| error.to_string());
                    if unanswered.is_new(&why) {
                        tracing::warn!(
                            "connected to the learner, but it does not answer ({why}); trying again"
                        );
                    }
                }
            }
            self.link(false);
            // A dead connection may look alive for a while; a new dial would return it.
            drop(self.host.disconnect(self.learner.peer()).await);
            tokio::time::sleep(backoff.pause()).await;
        }
    }

    /// The learner's charter if it is another run's.
    ///
    /// # Errors
    /// When the learner does not show it. Heartbeats may be answered all the same.
    async fn other_charter(&self) -> Result<Option<Signed<Charter>>, AskError> {
        let signed = self.learner.charter().await.inspect_err(|error| {
            tracing::debug!(%error, "the learner did not show its charter");
        })?;
        match Charter::open(&signed) {
            Ok((run, _)) if run == self.run => Ok(None),
            Ok((run, _)) => {
                tracing::warn!(run = %run.short(), "the learner has begun another run");
                Ok(Some(signed))
            }
            Err(error) => {
                tracing::error!(%error, "the learner's charter makes no sense; going on with the one that is known");
                tokio::time::sleep(NONSENSE_PAUSE).await;
                Ok(None)
            }
        }
    }

    /// Heartbeats until the learner stops answering or the session is over.
    async fn talk(&mut self) -> Result<Talk, Stopped> {
        let mut beat = tokio::time::interval(Duration::from_millis(HEARTBEAT_EVERY_MS));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut missed, mut remembered) = (0, Instant::now());
        let (mut answered, mut refused) = (false, LastMessage::default());
        let lost = |answered, why: &str| if answered { Talk::Lost } else { Talk::Unanswered(why.to_owned()) };
        loop {
            tokio::select! {
                _ = beat.tick() => {}
                () = changed(&mut self.installed) => beat.reset(),
                () = self.learner_gone.notified() => {
                    // An old connection may end while a newer one stands.
                    if !self.connected().await {
                        return Ok(lost(answered, "it closed the connection"));
                    }
                }
            }
            let news = self.learner.heartbeat(self.heartbeat().await?).await;
            match news {
                Ok(news) if news.ended => return Ok(Talk::Over(Ending::RunEnded)),
                Ok(news) => {
                    if !std::mem::replace(&mut answered, true) {
                        tracing::info!("the learner is reached");
                    }
                    missed = 0;
                    self.link(true);
                    self.take(news).await?;
                }
                Err(ref error @ AskError::Refused { reason: ref why, .. }) => {
                    // The learner is there and does not want this node: looking for it
                    // anew would change nothing.
                    let reason = error.to_string();
                    if refused.is_new(&reason) {
                        tracing::warn!("{reason}");
                    }
                    (answered, missed) = (true, 0);
                    self.link(false);
                    self.node_state.set(|facts| facts.silence = Some(why.clone()));
                    tokio::time::sleep(REFUSED_PAUSE).await;
                }
                Err(error) => {
                    missed += 1;
                    tracing::debug!(%error, missed, "a heartbeat was not answered");
                    if missed >= MAX_MISSED || matches!(error, AskError::Net(_) if !self.connected().await) {
                        return Ok(lost(answered, &error.to_string()));
                    }
                }
            }
            if remembered.elapsed() >= REMEMBER_EVERY {
                self.discovery.remember().await;
                remembered = Instant::now();
            }
        }
    }

    async fn take(&mut self, news: LearnerNews) -> Result<(), Stopped> {
        let newest = Some(Newest { epoch: news.epoch, version: news.newest });
        self.newest.send_if_modified(|known| std::mem::replace(known, newest) != newest);
        self.compare_clocks(news.wall);
        match news.neighbourhood {
            Some(neighbourhood) => self.neighbours.take(neighbourhood).await,
            None => Ok(()),
        }
    }

    async fn heartbeat(&self) -> Result<Heartbeat, Stopped> {
        let stats = self.snapshots.stats().await?;
        let uplinks = uplinks(&stats);
        self.node_state.set(|facts| facts.traffic = traffic(&stats));
        let facts = self.node_state.facts(clock::now());
        let addresses = self.host.own_addrs();
        Ok(Heartbeat {
            epoch: facts.epoch.unwrap_or_default(),
            installed: facts.version,
            progress: facts.download.map(|download| (download.version, permille(&download))),
            rollouts_per_s: facts.reported_rollouts_per_s(),
            outbox: u32::try_from(facts.outbox).unwrap_or(u32::MAX),
            addresses: addresses.iter().take(MAX_ADDRESSES).map(Multiaddr::to_string).collect(),
            reach: self.host.reach(),
            relays: self.relays,
            max_upload: self.max_upload,
            uplinks,
            neighbourhood: self.neighbours.digest(),
            offer: Offer { class: facts.device.as_deref().and_then(class), ..self.offer.clone() },
        })
    }

    /// Says how far this machine's clock is off. Only lists go by it, so work goes on.
    fn compare_clocks(&mut self, learner: UnixMillis) {
        let ahead_ms = clock::wall().0 as i64 - learner.0 as i64;
        self.node_state.set(|facts| facts.clock_ahead_ms = Some(ahead_ms));
        let said = self.clock_ahead_ms.unwrap_or(0);
        if ahead_ms.abs_diff(said) < CLOCK_OFF_MS {
            return;
        }
        self.clock_ahead_ms = Some(ahead_ms);
        let (seconds, way) =
            (ahead_ms.unsigned_abs() / 1_000, if ahead_ms > 0 { "ahead of" } else { "behind" });
        match ahead_ms.unsigned_abs() < CLOCK_OFF_MS {
            true => tracing::info!("this machine's clock agrees with the learner's again"),
            false => tracing::warn!(
                "this machine's clock is {seconds} s {way} the learner's. Work goes on; but peer lists expire by the clock, so set it"
            ),
        }
    }

    async fn connected(&self) -> bool {
        self.host.connected_peers().await.contains(&self.learner.peer())
    }

    fn link(&self, up: bool) {
        self.linked.send_replace(up);
        self.node_state.set(|facts| {
            facts.learner = up;
            facts.silence = None;
            if up && facts.state == NodeActivity::Joining {
                facts.state = NodeActivity::WaitingForSnapshot;
            }
        });
    }
}

/// The kind of a device: `cuda` of `cuda:0`. `None` where it has no name.
fn class(device: &str) -> Option<String> {
    let class: String = device.chars().take_while(char::is_ascii_alphanumeric).collect();
    (!class.is_empty()).then_some(class)
}

/// What the neighbours gave, those first that were cut off: they are the fewest, and the learner
/// must hear of them.
fn uplinks(stats: &SnapshotStats) -> Vec<UplinkReport> {
    let upstream = |peer| stats.dissemination.upstreams.iter().find(|upstream| upstream.peer == peer);
    let rotten = stats.cut_off.iter().rev().map(|peer| (*peer, true));
    let others = stats.dissemination.upstreams.iter().map(|upstream| (upstream.peer, false));
    let others = others.filter(|(peer, _)| !stats.cut_off.contains(peer));
    let report = |(peer, rotten)| {
        let gave = upstream(peer);
        UplinkReport {
            peer,
            bytes: gave.map_or(0, |upstream| upstream.bytes),
            bytes_per_s: gave.map_or(0, |upstream| upstream.bytes_per_s),
            failed: gave.map_or(0, |upstream| u32::try_from(upstream.failed).unwrap_or(u32::MAX)),
            rotten,
        }
    };
    // Half of the places are kept for those that still deliver.
    rotten.take(MAX_NEIGHBOURS / 2).chain(others).take(MAX_NEIGHBOURS).map(report).collect()
}

fn traffic(stats: &SnapshotStats) -> SnapshotTraffic {
    SnapshotTraffic {
        received_bytes: stats.received_bytes,
        sent_bytes: stats.sent_bytes,
        blocks: stats.dissemination.blocks,
        duplicates: stats.dissemination.duplicates,
        repairs: stats.dissemination.repairs,
        cut_off: stats.cut_off.iter().map(|peer| peer.short()).collect(),
    }
}

fn permille(download: &Download) -> u16 {
    let whole = u128::from(WHOLE_PERMILLE);
    let part = u128::from(download.have) * whole / u128::from(download.total.max(1));
    u16::try_from(part.min(whole)).unwrap_or(WHOLE_PERMILLE)
}

/// Waits for a change; for ever when there will be none.
async fn changed<T>(watched: &mut watch::Receiver<T>) {
    if watched.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
