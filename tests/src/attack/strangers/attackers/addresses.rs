//! Heartbeats that name addresses of somebody else, who then hears from a whole fleet.

use super::again;
use super::stranger::Stranger;
use crate::attack::shared_state::secret;
use crate::attack::strangers::scene::Scene;
use echo_protocol::control::heartbeat::HEARTBEAT_EVERY_MS;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// In the secrets of these keys.
const PART: u8 = 0xb6;
const KEYS: usize = 8;
/// What is counted of the third party: connections that honest members made to it.
pub(in crate::attack::strangers) const DIALLED: &str = "dialled";

pub(super) fn spawn(scene: &Arc<Scene>, gang: &mut JoinSet<()>) {
    for number in 0..KEYS {
        gang.spawn(live(scene.clone(), number));
    }
}

async fn live(scene: Arc<Scene>, number: usize) {
    loop {
        if let Err(error) = lie(&scene, number).await {
            again(&scene, error).await;
        }
    }
}

async fn lie(scene: &Scene, number: usize) -> anyhow::Result<()> {
    let third_party = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = third_party.local_addr()?.port();
    // By its address, and by a name that has to be resolved.
    let addresses = [format!("/ip4/127.0.0.1/tcp/{port}"), format!("/dns4/localhost/tcp/{port}")];
    let mut stranger = Stranger::join(scene, secret(PART, number, 0), &[]).await?;
    loop {
        stranger.beat(&addresses).await?;
        scene.tally.count("heartbeats", 1);
        tokio::select! {
            taken = third_party.accept() => {
                taken?;
                scene.tally.count(DIALLED, 1);
            }
            () = sleep(Duration::from_millis(HEARTBEAT_EVERY_MS)) => {}
        }
    }
}
