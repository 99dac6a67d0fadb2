//! Asking the learner for manifests that gossip did not bring.

use std::sync::Arc;
use std::time::Duration;

use echo_protocol::net::snapshots::Stopped;
use tokio::sync::watch;

use crate::learner_link::client::{LearnerClient, Newest};
use crate::snapshots::manifests::{MAX_MANIFESTS, Manifests};

/// Gossip gets this much time to bring a manifest that a heartbeat told of, before the learner
/// is asked for it.
const GOSSIP_HEAD_START: Duration = Duration::from_millis(300);
/// The pause after the learner did not send the newest manifest.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// Follows the learner's epoch, and asks for the newest manifest when a heartbeat told of a version that
/// gossip did not bring.
///
/// # Errors
/// [`Stopped`] when nothing is fetched any more.
pub async fn fetch_manifests(
    learner: LearnerClient,
    manifests: Arc<Manifests>,
    mut newest: watch::Receiver<Option<Newest>>,
) -> Result<(), Stopped> {
    let is_missing =
        |announced: &Option<Newest>| announced.is_some_and(|announced| manifests.lag_behind(announced));
    loop {
        let Ok(Some(announced)) = newest.wait_for(is_missing).await.map(|announced| *announced) else {
            return Ok(());
        };
        manifests.turn_to(announced.epoch);
        tokio::time::sleep(GOSSIP_HEAD_START).await;
        if !is_missing(&newest.borrow()) {
            continue;
        }
        let problem = match learner.newest_manifest().await {
            Ok(Some(signed)) => match manifests.offer(signed).await? {
                Ok(_) if !is_missing(&newest.borrow()) => continue,
                Ok(_) => "it sent an old one".to_owned(),
                Err(error) => error.to_string(),
            },
            Ok(None) => "it keeps none".to_owned(),
            Err(error) => error.to_string(),
        };
        tracing::debug!(problem, "the learner did not send its newest manifest");
        tokio::time::sleep(FAILED_PAUSE).await;
    }
}

/// Asks the learner for manifests between what the node holds and the newest: without one of them
/// the deltas after it are of no use, and whole chunks are fetched instead.
///
/// # Errors
/// [`Stopped`] when nothing is fetched any more.
pub async fn fetch_missed(learner: LearnerClient, manifests: Arc<Manifests>) -> Result<(), Stopped> {
    loop {
        manifests.news().await;
        for _ in 0..MAX_MANIFESTS {
            let Some(version) = manifests.missed() else { break };
            let problem = match learner.manifest_of(version).await {
                Ok(Some(signed)) => match manifests.offer_missed(signed).await? {
                    Ok(()) => continue,
                    Err(error) => error.to_string(),
                },
                Ok(None) => "it keeps it no more".to_owned(),
                Err(error) => error.to_string(),
            };
            tracing::debug!(%version, problem, "the learner did not send a manifest that was missed");
            break;
        }
    }
}
