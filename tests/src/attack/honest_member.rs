//! An honest member in the lab's process: others there can overhear what it delivers.

use super::account::FrameOutcome;
use super::honest_work::Truth;
use super::shared_state::{SharedState, offer, secret};
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// The byte that fills its secret key, and tells it from other members.
const PART: u8 = 0xa0;
/// The pause between two of its groups.
const PACE: Duration = Duration::from_millis(250);
/// The pause before it tries again what has failed: the learner warms up, or the run is over.
const PAUSE: Duration = Duration::from_secs(1);

/// Its public key, the same in both courses.
pub(super) fn key() -> PublicKey {
    NodeKey::from_secret(secret(PART, 0, 0)).public()
}

/// Works for as long as it lives, one group at a time.
pub(super) async fn live(shared: Arc<SharedState>) {
    loop {
        if let Err(error) = work(&shared).await {
            tracing::debug!(%error, "the honest member joins again");
        }
        sleep(PAUSE).await;
    }
}

async fn work(shared: &SharedState) -> anyhow::Result<()> {
    let mut member = shared.join(secret(PART, 0, 0)).await?;
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pace.tick().await;
        let policy = shared.snapshots.newest(member.learner(), member.workload()).await?;
        let leases = member.learner().leases(1).await?;
        let Some(order) = member.orders_of(leases)?.pop() else { continue };
        let truth = block_in_place(|| Truth::of(&member, order, policy))?;
        let frame = member.sign(&truth.group)?;
        let (outcome, _) = offer(&mut member, &frame).await;
        *shared.account().honest.entry(outcome).or_default() += 1;
        if outcome == FrameOutcome::Accepted {
            shared.overhear(frame);
        }
    }
}
