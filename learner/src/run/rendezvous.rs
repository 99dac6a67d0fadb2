//! How nodes find a learner whose address they do not know: through the bootstrap peers, the
//! DHT, and each other.

use crate::fleet::MemberView;
use echo_protocol::net::peer_id::peer_of_key;
use echo_protocol::net::{AddrProtocol, Host, Multiaddr, PeerId};
use echo_protocol::program::log_on_change::LastMessage;
use futures::future::join_all;
use std::cmp::Reverse;
use std::time::Duration;

/// Pause between attempts to reach a bootstrap peer, while none is connected.
const BOOTSTRAP_EVERY: Duration = Duration::from_secs(2);
/// Nodes of the last checkpoint that are dialled: enough that one of them is still there.
const KNOWN_NODES: usize = 16;

/// Keeps a connection to the bootstrap peers and a place in the DHT, so that nodes find the learner by its
/// key. While nobody is connected, `nodes` are dialled as well: they know each other, and may be all that
/// is left of a network whose bootstrap peers have gone.
pub(crate) async fn stay_found(
    host: Host,
    bootstraps: Vec<Multiaddr>,
    nodes: Vec<(PeerId, Vec<Multiaddr>)>,
    key: Vec<u8>,
) {
    let (mut provided, mut failed) = (false, LastMessage::default());
    loop {
        let connected = host.connected_peers().await;
        let away = bootstraps.iter().filter_map(|address| match address.iter().last() {
            Some(AddrProtocol::P2p(peer)) if !connected.contains(&peer) => Some((peer, address)),
            _ => None,
        });
        let dials = away.map(async |(peer, address)| (address, host.dial(peer, vec![address.clone()]).await));
        let mut failures = Vec::new();
        for (address, dialled) in join_all(dials).await {
            match dialled {
                Ok(()) => tracing::info!("joined the network through {address}"),
                Err(error) => failures.push(error.to_string()),
            }
        }
        match failures.join("; ") {
            failures if failures.is_empty() => failed.clear(),
            failures if failed.is_new(&failures) => {
                tracing::warn!("bootstrap peers do not answer: {failures}; trying again");
            }
            _ => {}
        }
        if host.connected_peers().await.is_empty() {
            let dials = nodes.iter().map(|(peer, addresses)| host.dial(*peer, addresses.clone()));
            let reached = join_all(dials).await.iter().filter(|dialled| dialled.is_ok()).count();
            if reached > 0 {
                tracing::info!("joined the network through {reached} nodes of the last checkpoint");
            }
        }
        let has_peers = !bootstraps.is_empty() || !nodes.is_empty();
        if has_peers && !provided {
            match host.provide(key.clone()).await {
                Ok(()) => provided = true,
                Err(error) => tracing::debug!(%error, "not in the DHT yet"),
            }
        }
        tokio::time::sleep(BOOTSTRAP_EVERY).await;
    }
}

/// The nodes of a checkpoint that are dialled, and where: those that were heard last.
pub(crate) fn known_nodes(fleet: &[MemberView]) -> Vec<(PeerId, Vec<Multiaddr>)> {
    let mut members: Vec<&MemberView> = fleet.iter().collect();
    members.sort_by_key(|member| Reverse(member.seen));
    let reached = |member: &MemberView| {
        let addresses: Vec<Multiaddr> =
            member.addresses.iter().filter_map(|text| text.parse().ok()).collect();
        Some((peer_of_key(&member.node)?, addresses)).filter(|(_, addresses)| !addresses.is_empty())
    };
    members.into_iter().filter_map(reached).take(KNOWN_NODES).collect()
}
