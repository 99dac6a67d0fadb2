//! Keys that connect, and stay.

use super::again;
use super::stranger::Stranger;
use crate::attack::shared_state::secret;
use crate::attack::strangers::scene::Scene;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// In the secrets of these keys.
const PART: u8 = 0xb2;
/// More than 1,024 descriptors have room for.
const KEYS: usize = 1200;
/// The time between the first connections of two keys: all are there within half a minute.
const STAGGER: Duration = Duration::from_millis(25);
/// The pause between two looks at a connection, and before a new key comes in the place of one
/// that was turned away.
const LOOK_EVERY: Duration = Duration::from_secs(5);

pub(super) fn spawn(scene: &Arc<Scene>, gang: &mut JoinSet<()>) {
    for (number, late) in (0..KEYS).zip(0..) {
        gang.spawn(live(scene.clone(), number, STAGGER * late));
    }
}

async fn live(scene: Arc<Scene>, number: usize, late: Duration) {
    sleep(late).await;
    for identity in 0.. {
        match Stranger::join(&scene, secret(PART, number, identity), &[]).await {
            Ok(stranger) => {
                scene.tally.count("connected", 1);
                while stranger.is_connected().await {
                    sleep(LOOK_EVERY).await;
                }
                scene.tally.count("disconnected", 1);
            }
            Err(error) => again(&scene, error).await,
        }
        sleep(LOOK_EVERY).await;
    }
}
