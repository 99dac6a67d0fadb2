//! Connections that say nothing, not even who is there.

use crate::attack::strangers::scene::Scene;
use crate::attack::strangers::way::connect;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// As many took every place for a handshake once.
const SOCKETS: usize = 512;
/// The pause before a socket that was closed is opened again.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) fn spawn(scene: &Arc<Scene>, gang: &mut JoinSet<()>) {
    for _ in 0..SOCKETS {
        gang.spawn(hold(scene.clone()));
    }
}

async fn hold(scene: Arc<Scene>) {
    loop {
        match connect(scene.way.socket).await {
            Ok(mut socket) => {
                scene.tally.count("opened", 1);
                let mut byte = [0];
                while socket.read(&mut byte).await.is_ok_and(|read| read > 0) {}
                scene.tally.count("closed", 1);
            }
            Err(error) => {
                tracing::debug!(%error, "a socket is not opened");
                scene.tally.count("refused", 1);
            }
        }
        sleep(PAUSE).await;
    }
}
