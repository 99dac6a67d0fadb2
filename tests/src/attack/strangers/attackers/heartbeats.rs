//! Keys that promise to relay, and whose address takes connections and says nothing.

use super::again;
use super::stranger::Stranger;
use crate::attack::shared_state::secret;
use crate::attack::strangers::scene::Scene;
use crate::attack::strangers::way::FROM;
use echo_protocol::control::heartbeat::HEARTBEAT_EVERY_MS;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// In the secrets of these keys.
const PART: u8 = 0xb1;
/// As many starved three of four nodes once.
const KEYS: usize = 60;

pub(super) fn spawn(scene: &Arc<Scene>, gang: &mut JoinSet<()>) {
    for number in 0..KEYS {
        gang.spawn(live(scene.clone(), number));
    }
}

async fn live(scene: Arc<Scene>, number: usize) {
    loop {
        if let Err(error) = promise(&scene, number).await {
            again(&scene, error).await;
        }
    }
}

async fn promise(scene: &Scene, number: usize) -> anyhow::Result<()> {
    let hole = TcpListener::bind((FROM, 0)).await?;
    let address = format!("/ip4/{FROM}/tcp/{}", hole.local_addr()?.port());
    let mut stranger = Stranger::join(scene, secret(PART, number, 0), &[]).await?;
    let mut swallowed = Vec::new();
    loop {
        stranger.beat(std::slice::from_ref(&address)).await?;
        scene.tally.count("heartbeats", 1);
        tokio::select! {
            taken = hole.accept() => {
                scene.tally.count("swallowed_connections", 1);
                swallowed.push(taken?);
            }
            () = sleep(Duration::from_millis(HEARTBEAT_EVERY_MS)) => {}
        }
    }
}
