//! What other peers say to this node without being asked.

use std::sync::Arc;
use std::time::Duration;

use echo_protocol::control::requests::ControlResponse;
use echo_protocol::net::snapshots::Stopped;
use echo_protocol::net::{GossipVerdict, HostEvent, HostEvents, PeerId};
use echo_protocol::program::log_throttle::PacedKeys;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::wire::signed::{Signed, SignedError};
use tokio::sync::Notify;

use crate::snapshots::manifests::{BadManifest, ManifestAge, Manifests};

/// Whoever hands on rubbish has one line a minute.
static BAD: PacedKeys<PeerId> = PacedKeys::new(Duration::from_secs(60));

/// Listens to other peers until the host stops. Judges gossiped manifests, and notifies `learner_gone`
/// when the learner's connection ends.
pub async fn listen(
    mut events: HostEvents,
    learner: PeerId,
    manifests: Arc<Manifests>,
    learner_gone: Arc<Notify>,
) -> Result<(), Stopped> {
    while let Some(event) = events.recv().await {
        match event {
            HostEvent::Gossip { source, data, verdict, .. } => {
                judge(&manifests, source, &data, verdict).await?
            }
            HostEvent::Request { peer, reply, .. } => {
                let refusal =
                    ControlResponse::Refused("this peer is a node; only the learner answers".to_owned());
                if let Err(error) = refusal.to_bytes().map(|bytes| reply.send(bytes)) {
                    tracing::debug!(%peer, %error, "could not refuse a request");
                }
            }
            HostEvent::Disconnected { peer } if peer == learner => learner_gone.notify_one(),
            HostEvent::Connected { .. } | HostEvent::Located { .. } | HostEvent::Disconnected { .. } => {}
        }
    }
    Ok(())
}

/// Forwarded is what is true and still of use; a neighbour is blamed only for what it should
/// have found wrong itself.
async fn judge(
    manifests: &Manifests,
    source: PeerId,
    data: &[u8],
    verdict: GossipVerdict,
) -> Result<(), Stopped> {
    let offered = match Signed::<Manifest>::from_bytes(data) {
        Ok(signed) => manifests.offer(signed).await?,
        Err(error) => Err(BadManifest::from(SignedError::from(error))),
    };
    match offered {
        Ok(ManifestAge::News | ManifestAge::Known) => verdict.accept(),
        Ok(ManifestAge::Old) => verdict.ignore(),
        Err(error) => {
            match BAD.due(source) {
                Some(times) => tracing::warn!(%source, %error, times, "a neighbour handed on bad manifests"),
                None => tracing::debug!(%source, %error, "a neighbour handed on a bad manifest"),
            }
            if error.is_of_another_version() { verdict.ignore() } else { verdict.reject() }
        }
    }
    Ok(())
}
