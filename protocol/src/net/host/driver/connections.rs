//! Who is connected, who may not be, and what peers say of themselves.

use libp2p::core::ConnectedPoint;
use libp2p::swarm::{ConnectionError, ConnectionId};
use libp2p::{Multiaddr, PeerId, identify};
use tokio::time::Instant;

use super::HostDriver;
use crate::net::addresses::{believable, believable_from_any, dialable, is_relayed, without_peer};
use crate::net::behaviour::instance::Instance;
use crate::net::limits::MAX_BLOCKED;
use crate::net::protocol_names;

/// One open connection: its remote end, and which side opened it.
pub(super) struct OpenConnection {
    /// The remote address; of a circuit that the peer opened, the relay's.
    pub(super) via: Multiaddr,
    /// Whether we opened it.
    pub(super) dialled: bool,
}

impl HostDriver {
    pub(super) fn connected_peers(&self) -> Vec<PeerId> {
        let mut peers: Vec<PeerId> = self.swarm.connected_peers().copied().collect();
        peers.sort_unstable();
        peers
    }

    /// Whether a connection with this peer runs through no relay.
    pub(super) fn is_direct(&self, peer: &PeerId) -> bool {
        self.swarm.behaviour().streams.reach(peer)
    }

    pub(super) fn give_address(&mut self, peer: PeerId, addr: Multiaddr) -> bool {
        let good = dialable(&addr);
        if good {
            self.book.give(peer, addr);
        }
        good
    }

    /// Keeps an address that a peer tells of another one, if it is believable from any that we talk to.
    pub(super) fn hear_address(&mut self, peer: PeerId, addr: Multiaddr) -> bool {
        let good = believable_from_any(&addr, self.links.values().map(|link| &link.via));
        if good {
            self.book.give(peer, addr);
        }
        good
    }

    pub(super) fn block(&mut self, peer: PeerId) {
        if self.swarm.behaviour_mut().blocked.block_peer(peer) {
            self.blocked.push_back(peer);
        }
        if self.blocked.len() > MAX_BLOCKED
            && let Some(oldest) = self.blocked.pop_front()
        {
            self.swarm.behaviour_mut().blocked.unblock_peer(oldest);
        }
        self.swarm.behaviour_mut().kad.remove_peer(&peer);
    }

    pub(super) fn unblock(&mut self, peer: PeerId) {
        self.blocked.retain(|blocked| *blocked != peer);
        self.swarm.behaviour_mut().blocked.unblock_peer(peer);
    }

    pub(super) fn is_blocked(&self, peer: &PeerId) -> bool {
        self.swarm.behaviour().blocked.blocked_peers().contains(peer)
    }

    /// `connections` with this peer there are now, this one included.
    pub(super) fn on_connected(
        &mut self,
        peer: PeerId,
        id: ConnectionId,
        endpoint: &ConnectedPoint,
        connections: u32,
    ) {
        let via = match endpoint {
            ConnectedPoint::Listener { local_addr, .. } if is_relayed(local_addr) => local_addr.clone(),
            _ => endpoint.get_remote_address().clone(),
        };
        if endpoint.is_dialer() && !endpoint.is_relayed() {
            self.book.worked(peer, via.clone());
        }
        self.links.insert(id, OpenConnection { via: via.clone(), dialled: endpoint.is_dialer() });
        if connections == 1 {
            self.announcer.connected(peer, via);
        } else {
            self.announcer.located(peer, via);
        }
        self.dial_succeeded(peer);
    }

    /// `connections` with this peer are left.
    pub(super) fn on_closed(
        &mut self,
        peer: PeerId,
        id: ConnectionId,
        cause: Option<ConnectionError>,
        connections: u32,
    ) {
        self.links.remove(&id);
        self.twins.closed(&peer, id);
        if let Some(cause) = cause {
            tracing::debug!(%peer, %cause, "a connection broke");
        }
        if connections == 0 {
            self.announcer.disconnected(peer);
            self.forget_relay(peer);
        }
    }

    /// Keeps the addresses that a peer says of itself, and lists it in the DHT if it serves there.
    pub(super) fn on_identify(&mut self, event: identify::Event) {
        let identify::Event::Received { connection_id, peer_id: peer, info } = event else { return };
        let Some(OpenConnection { via, dialled }) = self.links.get(&connection_id) else { return };
        let (via, dialled) = (via.clone(), *dialled);
        if info.protocol_version != protocol_names::IDENTIFY {
            tracing::debug!(%peer, network = info.protocol_version, "a peer of another network");
            return;
        }
        if let Some(instance) = Instance::read(&info.agent_version) {
            self.twins.identified(Instant::now(), peer, connection_id, instance);
        }
        let listed = info.listen_addrs.iter().filter(|addr| believable(addr, &via));
        let mut believed: Vec<Multiaddr> = listed.cloned().collect();
        // Not all are kept, and who tells of a circuit is reached there only.
        believed.sort_by_key(|addr| !is_relayed(addr));
        self.book.say(peer, believed);
        if dialled && !is_relayed(&via) {
            self.on_seen(&info.observed_addr);
            self.note_relay(peer, &info);
        }
        if info.protocols.iter().any(|protocol| protocol.as_ref() == protocol_names::KAD) {
            self.list_in_dht(peer);
        }
    }

    /// A peer answers over this connection: says so where another process of the same identity does, too.
    pub(super) fn look_for_twin(&mut self, peer: PeerId, id: ConnectionId) {
        let Some(twin) = self.twins.answered(Instant::now(), peer, id) else { return };
        if let (Some(one), Some(other)) = (self.links.get(&id), self.links.get(&twin)) {
            tracing::warn!(
                "two processes use the identity of {peer}, at {} and at {}, and are in each other's way: give one of them a \
                 directory of its own",
                one.via,
                other.via
            );
        }
    }

    /// Makes the routing table's addresses of a peer those of the book, so that they cannot pile up there.
    fn list_in_dht(&mut self, peer: PeerId) {
        let kept = self.book.addresses(&peer);
        let kad = &mut self.swarm.behaviour_mut().kad;
        for addr in &kept {
            kad.add_address(&peer, addr.clone());
        }
        let mut stale: Vec<Multiaddr> = Vec::new();
        if let Some(bucket) = kad.kbucket(peer) {
            for entry in bucket.iter().filter(|entry| *entry.node.key.preimage() == peer) {
                let listed = entry.node.value.iter().cloned();
                stale.extend(listed.filter(|addr| !kept.contains(&without_peer(addr.clone()))));
            }
        }
        for addr in stale {
            kad.remove_address(&peer, &addr);
        }
    }
}
