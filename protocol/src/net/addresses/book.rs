//! What a host knows about where peers live.

use std::collections::BTreeMap;

use libp2p::{Multiaddr, PeerId};

use crate::net::addresses::without_peer;

/// Peers in the book. The one that was touched longest ago makes room for a new one.
pub(in crate::net) const MAX_BOOK_PEERS: usize = 16_384;

/// Addresses kept for a peer from each source: those we were given, and those the peer said itself.
pub(in crate::net) const MAX_ADDRESSES_PER_SOURCE: usize = 8;

/// Addresses of peers, the most promising first: the one that last worked, those given to us
/// by our own process, and those that the peer last said of itself. Callers pass only
/// addresses that they believe.
#[derive(Debug, Default)]
pub(in crate::net) struct AddressBook {
    peers: BTreeMap<PeerId, Entry>,
    /// Peers by the moment at which they were last touched, to find the oldest.
    by_age: BTreeMap<u64, PeerId>,
    clock: u64,
}

#[derive(Debug, Default)]
struct Entry {
    touched: u64,
    worked: Option<Multiaddr>,
    given: Vec<Multiaddr>,
    said: Vec<Multiaddr>,
}

impl AddressBook {
    /// Keeps an address that our own process gave; the newest is tried first.
    pub(in crate::net) fn give(&mut self, peer: PeerId, address: Multiaddr) {
        let address = without_peer(address);
        let given = &mut self.touch(peer).given;
        given.retain(|known| *known != address);
        given.insert(0, address);
        given.truncate(MAX_ADDRESSES_PER_SOURCE);
    }

    /// Replaces what the peer says of itself, so that addresses which it has left are forgotten.
    pub(in crate::net) fn say(&mut self, peer: PeerId, addresses: impl IntoIterator<Item = Multiaddr>) {
        self.touch(peer).said =
            addresses.into_iter().map(without_peer).take(MAX_ADDRESSES_PER_SOURCE).collect();
    }

    /// Remembers the address through which we reached the peer.
    pub(in crate::net) fn worked(&mut self, peer: PeerId, address: Multiaddr) {
        self.touch(peer).worked = Some(without_peer(address));
    }

    /// Everything known about a peer, without repetition, the most promising first.
    pub(in crate::net) fn addresses(&self, peer: &PeerId) -> Vec<Multiaddr> {
        let mut found: Vec<Multiaddr> = Vec::new();
        if let Some(entry) = self.peers.get(peer) {
            for address in entry.worked.iter().chain(&entry.given).chain(&entry.said) {
                if !found.contains(address) {
                    found.push(address.clone());
                }
            }
        }
        found
    }

    fn touch(&mut self, peer: PeerId) -> &mut Entry {
        self.clock += 1;
        match self.peers.get(&peer) {
            Some(entry) => {
                self.by_age.remove(&entry.touched);
            }
            None if self.peers.len() >= MAX_BOOK_PEERS => {
                if let Some((_, oldest)) = self.by_age.pop_first() {
                    self.peers.remove(&oldest);
                }
            }
            None => {}
        }
        self.by_age.insert(self.clock, peer);
        let entry = self.peers.entry(peer).or_default();
        entry.touched = self.clock;
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> Multiaddr {
        format!("/ip4/10.0.0.1/tcp/{port}").parse().unwrap()
    }

    #[test]
    fn what_worked_comes_first_and_nothing_twice() {
        let (mut book, peer) = (AddressBook::default(), PeerId::random());
        book.say(peer, [addr(1), addr(2)]);
        book.give(peer, addr(3).with_p2p(peer).unwrap());
        book.worked(peer, addr(2));
        assert_eq!(book.addresses(&peer), [addr(2), addr(3), addr(1)]);
        book.say(peer, [addr(4)]);
        assert_eq!(book.addresses(&peer), [addr(2), addr(3), addr(4)]);
    }

    #[test]
    fn a_talkative_peer_gets_no_more_than_its_share() {
        let (mut book, peer) = (AddressBook::default(), PeerId::random());
        book.say(peer, (1..100).map(addr));
        (100..200).for_each(|port| book.give(peer, addr(port)));
        assert_eq!(book.addresses(&peer).len(), 2 * MAX_ADDRESSES_PER_SOURCE);
        assert_eq!(book.addresses(&peer)[0], addr(199));
    }

    #[test]
    fn a_full_book_forgets_the_peer_touched_longest_ago() {
        let mut book = AddressBook::default();
        let (kept, lost) = (PeerId::random(), PeerId::random());
        book.give(kept, addr(1));
        book.give(lost, addr(1));
        book.give(kept, addr(2));
        for _ in 0..MAX_BOOK_PEERS - 1 {
            book.give(PeerId::random(), addr(1));
        }
        assert!(book.addresses(&lost).is_empty());
        assert_eq!(book.addresses(&kept).len(), 2);
        assert_eq!((book.peers.len(), book.by_age.len()), (MAX_BOOK_PEERS, MAX_BOOK_PEERS));
    }
}
