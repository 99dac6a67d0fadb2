//! The conversation with the learner: found, lost and found again, for as long as the run lasts.

use std::sync::Arc;
use std::time::Duration;

use echo_protocol::charter::{Charter, RunId};
use echo_protocol::clock;
use echo_protocol::control::Peer;
use echo_protocol::heartbeat::{HEARTBEAT_EVERY_MS, Heartbeat, MAX_ADDRESSES};
use echo_protocol::net::snapshots::{Snapshots, Stopped};
use echo_protocol::net::{Host, Multiaddr};
use echo_protocol::signed::Signed;
use echo_protocol::version::PolicyVersion;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior};

use crate::board::{Board, State};
use crate::discovery::Discovery;
use crate::install::Installed;
use crate::learner::{AskError, Learner, News};

/// Unanswered heartbeats after which the connection is given up and the learner looked for anew.
const MAX_MISSED: u32 = 2;
/// The pause after a learner was reached that makes no sense.
const NONSENSE_PAUSE: Duration = Duration::from_secs(5);
/// How often good peers are written down while all is well.
const REMEMBER_EVERY: Duration = Duration::from_secs(60);

/// How a session ends by itself.
#[derive(Debug)]
pub enum Ending {
    /// The run has ended.
    RunEnded,
    /// The learner has a new charter: another run begins.
    Rechartered(Box<Signed<Charter>>),
}

/// Everything that a session needs.
pub struct Session {
    /// The network.
    pub host: Host,
    /// Finds the learner.
    pub discovery: Discovery,
    /// The learner.
    pub learner: Learner,
    /// Its key and the run.
    pub run: RunId,
    /// Receives parents.
    pub snapshots: Snapshots,
    /// Where the owner sees what happens.
    pub board: Arc<Board>,
    /// What is installed: told to the learner at once.
    pub policy: watch::Receiver<Option<Arc<Installed>>>,
    /// Whether this node passes snapshots on.
    pub relay: bool,
    /// Whether the learner answers.
    pub linked: watch::Sender<bool>,
    /// The newest version that the learner has told of.
    pub newest: watch::Sender<Option<PolicyVersion>>,
    /// Says that the learner's connection ended.
    pub learner_gone: Arc<Notify>,
}

impl Session {
    /// Talks to the learner until the run ends or is replaced by another.
    ///
    /// # Errors
    /// [`Stopped`] when the network was taken down.
    pub async fn run(mut self) -> Result<Ending, Stopped> {
        loop {
            self.discovery.reach().await;
            if let Some(new) = self.other_charter().await {
                return Ok(Ending::Rechartered(Box::new(new)));
            }
            tracing::info!("the learner is reached");
            if let Some(ending) = self.talk().await? {
                return Ok(ending);
            }
            self.link(false);
            tracing::warn!("the learner is gone; the node goes on with the orders that it has");
            // A dead connection may look alive for a while; a new dial would return it.
            drop(self.host.disconnect(self.learner.peer()).await);
        }
    }

    /// The learner's charter if it is another run's.
    async fn other_charter(&self) -> Option<Signed<Charter>> {
        match self.learner.charter().await {
            Ok(signed) => match Charter::open(&signed) {
                Ok((run, _)) if run == self.run => None,
                Ok((run, _)) => {
                    tracing::warn!(run = %run.short(), "the learner has begun another run");
                    Some(signed)
                }
                Err(error) => {
                    tracing::error!(%error, "the learner's charter makes no sense; going on with the one that is known");
                    tokio::time::sleep(NONSENSE_PAUSE).await;
                    None
                }
            },
            // The first heartbeat will tell whether the learner is there at all.
            Err(error) => {
                tracing::debug!(%error, "the learner did not show its charter");
                None
            }
        }
    }

    /// Heartbeats until the learner stops answering (`None`) or the session is over.
    async fn talk(&mut self) -> Result<Option<Ending>, Stopped> {
        let mut beat = tokio::time::interval(Duration::from_millis(HEARTBEAT_EVERY_MS));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut missed, mut remembered) = (0, Instant::now());
        let mut parent = None;
        loop {
            tokio::select! {
                _ = beat.tick() => {}
                () = changed(&mut self.policy) => beat.reset(),
                () = self.learner_gone.notified() => {
                    // An old connection may end while a newer one stands.
                    if !self.host.connected_peers().await.contains(&self.learner.peer()) {
                        return Ok(None);
                    }
                }
            }
            let news = self.learner.heartbeat(self.heartbeat()).await;
            match news {
                Ok(news) if news.ended => return Ok(Some(Ending::RunEnded)),
                Ok(news) => {
                    missed = 0;
                    self.link(true);
                    self.take(news, &mut parent).await?;
                }
                Err(error) => {
                    missed += 1;
                    tracing::debug!(%error, missed, "a heartbeat was not answered");
                    if missed >= MAX_MISSED || matches!(error, AskError::Net(_) if !self.connected().await) {
                        return Ok(None);
                    }
                }
            }
            if remembered.elapsed() >= REMEMBER_EVERY {
                self.discovery.remember().await;
                remembered = Instant::now();
            }
        }
    }

    async fn take(&mut self, news: News, parent: &mut Option<Peer>) -> Result<(), Stopped> {
        self.newest.send_if_modified(|newest| {
            let newer = news.newest > *newest;
            if newer {
                *newest = news.newest;
            }
            newer
        });
        if news.parent.is_some() && news.parent != *parent {
            self.board.set(|facts| facts.parent = news.parent.as_ref().map(|peer| peer.key.short()));
            parent.clone_from(&news.parent);
            self.snapshots.parent(news.parent).await?;
        }
        Ok(())
    }

    fn heartbeat(&self) -> Heartbeat {
        let facts = self.board.facts(clock::now());
        let addresses = self.host.listen_addrs();
        Heartbeat {
            installed: facts.version,
            rollouts_per_s: facts.rollouts_per_s,
            outbox: u32::try_from(facts.outbox).unwrap_or(u32::MAX),
            addresses: addresses.iter().take(MAX_ADDRESSES).map(Multiaddr::to_string).collect(),
            relays: self.relay,
            max_upload: None,
        }
    }

    async fn connected(&self) -> bool {
        self.host.connected_peers().await.contains(&self.learner.peer())
    }

    fn link(&self, up: bool) {
        self.linked.send_replace(up);
        self.board.set(|facts| {
            facts.learner = up;
            if up && facts.state == State::Joining {
                facts.state = State::WaitingForSnapshot;
            }
        });
    }
}

/// Waits for a change; for ever when there will be none.
async fn changed<T>(watched: &mut watch::Receiver<T>) {
    if watched.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
