//! Noise on the topic of manifests, to the learner and to every honest node.

use super::again;
use super::stranger::Stranger;
use crate::attack::shared_state::secret;
use crate::attack::strangers::scene::Scene;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// In the secrets of these keys.
const PART: u8 = 0xb5;
const KEYS: usize = 4;
/// The pause between two messages of one key: 200 a second.
const PACE: Duration = Duration::from_millis(5);
/// Messages after which it connects again to whom it has lost.
const REDIAL: u64 = 1000;
const MESSAGE_BYTES: usize = 64;

pub(super) fn spawn(scene: &Arc<Scene>, gang: &mut JoinSet<()>) {
    for number in 0..KEYS {
        gang.spawn(live(scene.clone(), number));
    }
}

async fn live(scene: Arc<Scene>, number: usize) {
    for identity in 0.. {
        if let Err(error) = shout(&scene, number, identity).await {
            again(&scene, error).await;
        }
    }
}

async fn shout(scene: &Scene, number: usize, identity: u64) -> anyhow::Result<()> {
    let secret = secret(PART, number, identity);
    let topic = scene.way.topic.clone();
    let stranger = Stranger::join(scene, secret, std::slice::from_ref(&topic)).await?;
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for message in 0_u64.. {
        if message % REDIAL == 0 {
            meet_everybody(scene, &stranger).await;
        }
        pace.tick().await;
        // Never twice the same, which would not be passed on.
        let mut noise = secret.to_vec();
        noise.extend(message.to_le_bytes());
        noise.resize(MESSAGE_BYTES, 0xf7);
        match stranger.host.publish(&topic, noise).await {
            Ok(()) => scene.tally.count("messages", 1),
            Err(error) => {
                tracing::debug!(%error, "nobody hears");
                scene.tally.count("unheard_messages", 1);
            }
        }
        // Who was cut off by everybody comes back under another key.
        if message % REDIAL == REDIAL - 1 && stranger.host.connected_peers().await.is_empty() {
            break;
        }
    }
    Ok(())
}

async fn meet_everybody(scene: &Scene, stranger: &Stranger) {
    for node in &scene.nodes {
        let found = stranger.host.find_peer(*node).await.unwrap_or_default();
        match stranger.host.dial(*node, found).await {
            Ok(()) => scene.tally.count("dials", 1),
            Err(error) => {
                tracing::debug!(%error, "a node is not reached");
                scene.tally.count("refused_dials", 1);
            }
        }
    }
}
