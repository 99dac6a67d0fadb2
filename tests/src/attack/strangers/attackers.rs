//! The attackers of single kinds. Each is a task that lives in the lab's process.

pub(super) mod addresses;
mod connections;
mod droppers;
mod gossip;
mod heartbeats;
mod omega;
mod silent;
mod sleepers;
mod stranger;

use super::kind::AttackKind;
use super::scene::Scene;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The pause before an attacker tries again what failed.
const PAUSE: Duration = Duration::from_millis(500);

/// Starts all attackers of a kind.
pub(super) fn spawn(kind: AttackKind, scene: &Arc<Scene>, gang: &mut JoinSet<()>) {
    match kind {
        AttackKind::Heartbeats => heartbeats::spawn(scene, gang),
        AttackKind::Silent => silent::spawn(scene, gang),
        AttackKind::Connections => connections::spawn(scene, gang),
        AttackKind::Droppers => droppers::spawn(scene, gang),
        AttackKind::Omega => omega::spawn(scene, gang),
        AttackKind::Gossip => gossip::spawn(scene, gang),
        AttackKind::Addresses => addresses::spawn(scene, gang),
        AttackKind::Sleepers => sleepers::spawn(scene, gang),
    }
}

/// Notes why an attacker has to begin anew, and waits a little.
async fn again(scene: &Scene, error: impl Display) {
    tracing::debug!(%error, "an attacker begins anew");
    scene.tally.count("turned_away", 1);
    sleep(PAUSE).await;
}
