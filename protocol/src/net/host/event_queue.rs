//! How events reach their reader without ever making the driver wait.

use std::collections::{BTreeMap, BTreeSet};

use libp2p::{Multiaddr, PeerId};
use tokio::sync::mpsc;

use super::event::HostEvent;
use crate::net::addresses::outer_ip;

/// The sending end of the events.
///
/// Requests and gossip are sent if there is room and dropped if not. For connections the announcer
/// keeps what is and what the reader was told; where the two differ it tells as soon as there is
/// room. The difference is at most the peers connected now and those that the reader believes
/// connected, so it is bounded whatever the reader does.
pub(super) struct Announcer {
    events: mpsc::Sender<HostEvent>,
    connected: BTreeMap<PeerId, Multiaddr>,
    announced: BTreeSet<PeerId>,
    behind: BTreeSet<PeerId>,
}

impl Announcer {
    pub(super) fn new(events: mpsc::Sender<HostEvent>) -> Self {
        Self { events, connected: BTreeMap::new(), announced: BTreeSet::new(), behind: BTreeSet::new() }
    }

    /// Sends an event if there is room. False if it was dropped.
    pub(super) fn offer(&self, event: HostEvent) -> bool {
        self.events.try_send(event).is_ok()
    }

    /// The first connection with a peer.
    pub(super) fn connected(&mut self, peer: PeerId, addr: Multiaddr) {
        self.connected.insert(peer, addr);
        self.settle(peer);
    }

    /// A further connection with a peer. Where it says more of where the peer is, the reader is told.
    pub(super) fn located(&mut self, peer: PeerId, addr: Multiaddr) {
        let before = self.connected.get(&peer);
        let says_more = outer_ip(&addr).is_some() && before.is_some_and(|before| outer_ip(before).is_none());
        if says_more {
            self.connected.insert(peer, addr.clone());
            self.offer(HostEvent::Located { peer, addr });
        }
    }

    /// The end of the last connection with a peer.
    pub(super) fn disconnected(&mut self, peer: PeerId) {
        self.connected.remove(&peer);
        self.settle(peer);
    }

    /// The remote address that the first connection with a peer had, if the peer is connected.
    pub(super) fn address_of(&self, peer: &PeerId) -> Option<&Multiaddr> {
        self.connected.get(peer)
    }

    /// Whether the reader has not yet been told everything.
    pub(super) fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Waits for room and tells one thing. May be cancelled at any time.
    pub(super) async fn catch_up(&mut self) {
        match self.events.reserve().await {
            Ok(room) => {
                let event = next_event(&self.connected, &mut self.announced, &mut self.behind);
                if let Some(event) = event {
                    room.send(event);
                }
            }
            // Nobody reads events: there is nobody to tell.
            Err(_) => self.behind.clear(),
        }
    }

    fn settle(&mut self, peer: PeerId) {
        if self.connected.contains_key(&peer) == self.announced.contains(&peer) || self.events.is_closed() {
            self.behind.remove(&peer);
        } else {
            self.behind.insert(peer);
        }
        while self.is_behind() {
            let Ok(room) = self.events.try_reserve() else { return };
            if let Some(event) = next_event(&self.connected, &mut self.announced, &mut self.behind) {
                room.send(event);
            }
        }
    }
}

fn next_event(
    connected: &BTreeMap<PeerId, Multiaddr>,
    announced: &mut BTreeSet<PeerId>,
    behind: &mut BTreeSet<PeerId>,
) -> Option<HostEvent> {
    let peer = behind.pop_first()?;
    Some(match connected.get(&peer) {
        Some(addr) => {
            announced.insert(peer);
            HostEvent::Connected { peer, addr: addr.clone() }
        }
        None => {
            announced.remove(&peer);
            HostEvent::Disconnected { peer }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn where_a_peer_is_shows_in_a_later_connection_too() {
        let (events, mut reader) = mpsc::channel(8);
        let (mut announcer, peer) = (Announcer::new(events), PeerId::random());
        let [name, far, other] = ["/dns4/boot.example.org/tcp/1", "/ip4/8.8.8.8/tcp/1", "/ip4/9.9.9.9/tcp/1"]
            .map(|text| text.parse::<Multiaddr>().unwrap());
        announcer.connected(peer, name);
        announcer.located(peer, far.clone());
        announcer.located(peer, other);
        assert!(matches!(reader.recv().await, Some(HostEvent::Connected { .. })));
        assert!(matches!(reader.recv().await, Some(HostEvent::Located { addr, .. }) if addr == far));
        assert!(reader.try_recv().is_err(), "one address that says something is enough");
    }

    fn addr() -> Multiaddr {
        "/ip4/127.0.0.1/tcp/1".parse().unwrap()
    }

    #[tokio::test]
    async fn a_slow_reader_learns_the_outcome_and_memory_stays_bounded() {
        let (sender, mut reader) = mpsc::channel(1);
        let mut announcer = Announcer::new(sender);
        let (early, late) = (PeerId::random(), PeerId::random());
        announcer.connected(early, addr());
        // The queue is full now. A thousand strangers come and go, the early one leaves, a late one stays.
        for _ in 0..1000 {
            let stranger = PeerId::random();
            announcer.connected(stranger, addr());
            announcer.disconnected(stranger);
        }
        announcer.disconnected(early);
        announcer.connected(late, addr());
        assert_eq!(announcer.behind.len(), 2);

        assert!(matches!(reader.recv().await, Some(HostEvent::Connected { peer, .. }) if peer == early));
        let mut seen = Vec::new();
        while announcer.is_behind() {
            announcer.catch_up().await;
            seen.push(reader.recv().await.unwrap());
        }
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().any(|event| matches!(event, HostEvent::Disconnected { peer } if *peer == early)));
        assert!(seen.iter().any(|event| matches!(event, HostEvent::Connected { peer, .. } if *peer == late)));
    }

    #[tokio::test]
    async fn without_a_reader_nothing_piles_up() {
        let (sender, reader) = mpsc::channel(1);
        let mut announcer = Announcer::new(sender);
        announcer.connected(PeerId::random(), addr());
        announcer.connected(PeerId::random(), addr());
        assert!(announcer.is_behind());
        drop(reader);
        announcer.catch_up().await;
        announcer.connected(PeerId::random(), addr());
        assert!(!announcer.is_behind());
    }
}
