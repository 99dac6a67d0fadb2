//! Asking the learner for leases, so that the queue of orders does not run dry.

use std::sync::Arc;
use std::time::Duration;

use echo_protocol::program::clock;
use echo_protocol::run::epoch::Epoch;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::rest::RestNotice;
use tokio::sync::watch;

use crate::delivery::outbox::{MAX_ENTRY_BYTES, MAX_OUTBOX_BYTES, Outbox};
use crate::learner_link::client::{AskError, LearnerClient, Newest};
use crate::rollout::orders::{OrderStock, open_lease};
use crate::rollout::pauses::Pauses;
use crate::rollout::worker::MAX_IN_FLIGHT;
use crate::snapshots::install::Installed;
use crate::status::node_state::NodeState;
use crate::workload::NodeWorkload;

/// The bounds of the pause that a learner may ask for between two requests for leases.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));
/// How often a node that takes no work looks whether it may again.
const PAUSED: Duration = Duration::from_secs(15);
/// The pause after a question that was not answered.
const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// The pause after a question that the learner does not want to answer.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

// Otherwise an empty outbox would have no room for what is in flight, and no work would ever be asked for.
const _: () = assert!((MAX_IN_FLIGHT * MAX_ENTRY_BYTES) as u64 <= MAX_OUTBOX_BYTES);

/// Asks for leases whenever the stock runs low, the learner is there, a policy is installed and
/// finished work has a place.
pub struct Leasing {
    /// Who is asked for leases.
    pub learner: LearnerClient,
    /// The run, and the learner's key, which every lease has to bear.
    pub workload: Arc<NodeWorkload>,
    /// Who the leases have to be for.
    pub me: PublicKey,
    /// What is to be filled.
    pub stock: OrderStock,
    /// No work is asked for while finished work has no place.
    pub outbox: Outbox,
    /// Whether the learner answers.
    pub linked: watch::Receiver<bool>,
    /// What is installed; without a policy no work is asked for.
    pub policy: watch::Receiver<Option<Arc<Installed>>>,
    /// What the learner says is newest, and in which epoch.
    pub newest: watch::Receiver<Option<Newest>>,
    /// When the owner wants no work to be taken.
    pub pauses: Pauses,
    /// Where the owner sees that there is a pause.
    pub node_state: Arc<NodeState>,
    /// The epoch in which it was asked last.
    pub epoch: Option<Epoch>,
    /// Why the learner gave no lease last.
    pub refused: Option<String>,
}

impl Leasing {
    /// Goes on until the other sides of its channels are gone.
    pub async fn run(mut self) {
        let mut changes = self.outbox.changes();
        while self.policy.wait_for(Option::is_some).await.is_ok()
            && self.linked.wait_for(|up| *up).await.is_ok()
        {
            let wanted = self.stock.wanted();
            if self.is_paused() {
                tokio::time::sleep(PAUSED).await;
            } else if wanted == 0 {
                self.stock.taken().await;
            } else if !self.outbox.has_room(MAX_IN_FLIGHT.min(wanted as usize)) {
                // Orders that wait need no room: no more than these become groups before there is room again.
                // The outbox lives as long as this task.
                let _ = changes.changed().await;
            } else if let Some(pause) = self.fill(wanted).await {
                // A learner that was lost meanwhile may need this node when it is back.
                let lost = async { drop(self.linked.wait_for(|up| !*up).await) };
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = lost => {}
                }
            }
        }
    }

    /// Whether the owner wants the machine now; says so where that has changed.
    fn is_paused(&self) -> bool {
        let why = self.pauses.reason(clock::wall());
        let is_paused = why.is_some();
        let before = self.node_state.paused(why.clone());
        match (&before, &why) {
            (before, Some(why)) if before.as_ref() != Some(why) => {
                tracing::info!("no work is taken: paused {why}")
            }
            (Some(_), None) => tracing::info!("work is taken again"),
            _ => {}
        }
        is_paused
    }

    /// How long the learner does without this node. The numbers of nodes change, the news does not.
    fn rest(&mut self, reason: String) -> Duration {
        let pause = reason.parse::<RestNotice>().map_or(REFUSED_PAUSE, |rest| rest.pause());
        let rested = self.refused.as_deref().is_some_and(|why| why.parse::<RestNotice>().is_ok());
        if !rested {
            tracing::info!("{reason}");
        }
        self.refused = Some(reason);
        pause
    }

    /// Asks once; the pause before the next question, if one is needed.
    async fn fill(&mut self, wanted: u32) -> Option<Duration> {
        let epoch = self.newest.borrow().map(|newest| newest.epoch);
        if epoch != self.epoch {
            // A learner that was started again, or put back, may count as ours what was given back, or
            // delivered, after it wrote last.
            self.stock.forget_last();
            self.epoch = epoch;
        }
        let (leases, retry_after_ms) = match self.learner.leases(wanted, self.stock.last()).await {
            Ok(answer) => answer,
            Err(AskError::Refused { reason, .. }) if reason.parse::<RestNotice>().is_ok() => {
                return Some(self.rest(reason));
            }
            Err(error @ AskError::Refused { .. }) => {
                // It is told again and again: the owner hears of it once.
                let message = error.to_string();
                if self.refused.as_deref() != Some(&message) {
                    tracing::warn!("{message}");
                    self.refused = Some(message);
                }
                return Some(REFUSED_PAUSE);
            }
            Err(error) => {
                tracing::debug!(%error, "no leases");
                return Some(FAILED_PAUSE);
            }
        };
        self.refused = None;
        let (now, mut got) = (clock::now(), 0);
        for signed in leases {
            match open_lease(&signed, &self.workload.learner, &self.workload.run, &self.me, now) {
                Ok(orders) => {
                    got += orders.take((wanted - got) as usize).filter(|order| self.stock.add(*order)).count()
                        as u32;
                }
                Err(error) => tracing::warn!(%error, "the learner sent a lease that is not for this node"),
            }
        }
        (got < wanted).then(|| Duration::from_millis(retry_after_ms.into()).clamp(PAUSE.0, PAUSE.1))
    }
}
