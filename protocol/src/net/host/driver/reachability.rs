//! Whether others reach us, and the place at a relay for when they do not.

use std::collections::BTreeSet;

use libp2p::autonat::v2::client;
use libp2p::core::transport::ListenerId;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{FromSwarm, NetworkBehaviour as _, NewExternalAddrCandidate};
use libp2p::{Multiaddr, PeerId, dcutr, identify, kad, relay};
use tokio::time::Instant;

use super::HostDriver;
use crate::control::heartbeat::Reach;
use crate::net::addresses::{is_relayed, without_peer};
use crate::net::config::DhtMode;

/// Peers known to relay. There are few, and one is enough.
const MAX_RELAYS: usize = 16;

/// Where we could have a place at a relay, and where we have one.
#[derive(Debug, Default)]
pub(super) struct Relays {
    /// Connected peers that relay, but for those that gave us no place.
    known: BTreeSet<PeerId>,
    /// Our place: its relay, and the listener that stands for it.
    place: Option<(PeerId, ListenerId)>,
}

impl HostDriver {
    /// What is known before anybody was asked.
    pub(super) fn begin_reaching(&mut self, external: Vec<Multiaddr>, deaf: bool) {
        for address in external {
            self.swarm.add_external_address(address.clone());
            self.reachability.given(address);
        }
        if deaf {
            self.reachability.deaf();
        }
        if self.mode == DhtMode::Server {
            self.open_dial_back(true);
            if let Some(relay) = self.swarm.behaviour_mut().relay.as_mut() {
                relay.set_status(Some(relay::Status::Enable));
            }
        }
        self.reach_changed();
    }

    /// A hub can be reached where it listens, which is for its operator to see to; its relay tells
    /// those addresses to its guests.
    pub(super) fn on_listening(&mut self, address: Multiaddr) {
        if self.mode == DhtMode::Server && !is_relayed(&address) {
            self.swarm.add_external_address(address);
        }
        self.tell_addresses();
    }

    pub(super) fn on_listening_no_more(&mut self, address: &Multiaddr) {
        if self.mode == DhtMode::Server {
            self.swarm.remove_external_address(address);
        }
        self.tell_addresses();
    }

    /// A peer to which we connected directly says where it sees us.
    pub(super) fn on_seen(&mut self, seen: &Multiaddr) {
        let listening: Vec<Multiaddr> = self.swarm.listeners().cloned().collect();
        for guess in self.reachability.seen(Instant::now(), seen, &listening) {
            self.ask_whether_reached(&guess);
        }
        self.reach_changed();
    }

    fn ask_whether_reached(&mut self, guess: &Multiaddr) {
        let parts = self.swarm.behaviour_mut();
        let candidate = FromSwarm::NewExternalAddrCandidate(NewExternalAddrCandidate { addr: guess });
        if let Some(probe) = parts.probe.as_mut() {
            probe.on_swarm_event(candidate);
        }
        if let Some(punch) = parts.punch.as_mut() {
            punch.on_swarm_event(candidate);
        }
    }

    /// Somebody tried to reach us. Of an address where it succeeded, the swarm tells by itself.
    pub(super) fn on_probed(&mut self, event: client::Event) {
        let Err(error) = event.result else { return };
        tracing::debug!(address = %event.tested_addr, server = %event.server, %error, "not reached");
        if self.reachability.refuted(&event.tested_addr) {
            self.ask_whether_reached(&self.as_asked_again(event.tested_addr));
        }
        self.reach_changed();
    }

    /// AutoNAT asks once for each address. With our name at its end it is another one for it.
    fn as_asked_again(&self, address: Multiaddr) -> Multiaddr {
        address.with(Protocol::P2p(*self.swarm.local_peer_id()))
    }

    pub(super) fn on_reached(&mut self, address: Multiaddr) {
        tracing::debug!(%address, "others reach us there");
        self.reachability.confirmed(address);
        self.reach_changed();
    }

    pub(super) fn on_reached_no_more(&mut self, address: &Multiaddr) {
        self.reachability.expired(address);
        self.reach_changed();
    }

    /// Remembers a peer that relays.
    pub(super) fn note_relay(&mut self, peer: PeerId, info: &identify::Info) {
        if info.protocols.contains(&relay::HOP_PROTOCOL_NAME) && self.relays.known.len() < MAX_RELAYS {
            self.relays.known.insert(peer);
            self.reach_changed();
        }
    }

    /// Forgets a relay to which we are not connected any more.
    pub(super) fn forget_relay(&mut self, peer: PeerId) {
        self.relays.known.remove(&peer);
    }

    /// Whether `listener` stood for a place at a relay; then another relay is asked for one. The
    /// one that closed it is asked again when it identifies itself next.
    pub(super) fn lost_place(&mut self, listener: ListenerId) -> bool {
        let Some((peer, _)) = self.relays.place.take_if(|(_, place)| *place == listener) else {
            return false;
        };
        tracing::debug!(relay = %peer, "the place at a relay is gone");
        self.relays.known.remove(&peer);
        self.reach_changed();
        true
    }

    pub(super) fn on_punched(&mut self, event: &dcutr::Event) {
        match &event.result {
            Ok(_) => tracing::debug!(peer = %event.remote_peer_id, "a circuit became a direct connection"),
            Err(error) => tracing::debug!(peer = %event.remote_peer_id, %error, "only a circuit"),
        }
    }

    /// Tells the handles, and acts on it: who cannot be reached is not listed in the DHT, and takes
    /// a place at a relay; who can, helps others to find out.
    fn reach_changed(&mut self) {
        let reach = match self.mode {
            DhtMode::Server => Reach::Public,
            DhtMode::Auto | DhtMode::Client => self.reachability.reach(),
        };
        let changed = self.reach.send_replace(reach) != reach;
        if self.mode == DhtMode::Auto {
            if changed {
                tracing::info!(?reach, "whether others can connect to this host");
                self.open_dial_back(reach == Reach::Public);
                let answers = self.answers_dht && reach != Reach::Private;
                let listed = if answers { kad::Mode::Server } else { kad::Mode::Client };
                self.swarm.behaviour_mut().kad.set_mode(Some(listed));
            }
            match (reach, self.relays.place) {
                (Reach::Private, None) => self.take_place(),
                (Reach::Public, Some((_, listener))) => {
                    // False when it is closing already, as it shall.
                    self.swarm.remove_listener(listener);
                }
                _ => {}
            }
        }
        if self.mode != DhtMode::Server {
            self.tell_swarm();
        }
        self.tell_addresses();
    }

    /// Tells the swarm, and so all peers, where others may reach us. It knows already what was
    /// found, but not what counts no more.
    fn tell_swarm(&mut self) {
        let good = self.reachability.addresses();
        let external: Vec<Multiaddr> = self.swarm.external_addresses().cloned().collect();
        for old in external.iter().filter(|external| !good.contains(&without_peer((*external).clone()))) {
            self.swarm.remove_external_address(old);
        }
        let external: Vec<Multiaddr> = external.into_iter().map(without_peer).collect();
        for new in good.into_iter().filter(|good| !external.contains(good)) {
            self.swarm.add_external_address(new);
        }
    }

    fn open_dial_back(&mut self, open: bool) {
        if let Some(dial_back) = self.swarm.behaviour_mut().dial_back.as_mut() {
            dial_back.open(open);
        }
    }

    fn take_place(&mut self) {
        let me = *self.swarm.local_peer_id();
        // The next one in the order of names: others begin elsewhere, so that not all take places
        // at the same relay.
        let Some(&peer) = self.relays.known.range(me..).chain(&self.relays.known).next() else { return };
        let direct = self.book.addresses(&peer).into_iter().find(|address| !is_relayed(address));
        let Some(address) = direct else { return };
        match self.swarm.listen_on(address.with(Protocol::P2p(peer)).with(Protocol::P2pCircuit)) {
            Ok(listener) => self.relays.place = Some((peer, listener)),
            Err(error) => tracing::debug!(relay = %peer, %error, "no place at a relay"),
        }
    }

    /// Tells the handles where we listen and where others may reach us. A place at a relay is a
    /// listener for the swarm only.
    pub(super) fn tell_addresses(&self) {
        let listening: Vec<Multiaddr> =
            self.swarm.listeners().filter(|address| !is_relayed(address)).cloned().collect();
        let known = self.reachability.addresses();
        let others = listening.iter().filter(|address| !known.contains(address));
        let own = known.iter().chain(others).cloned().collect();
        self.own.send_replace(own);
        self.listening.send_replace(listening);
    }
}
