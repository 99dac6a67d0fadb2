//! Whether others can connect to us, from where they see us and what those found who tried.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use libp2p::Multiaddr;
use tokio::time::Instant;

use super::addresses::{is_local, is_relayed, seen_from_outside, without_peer};
use super::allowance::Allowance;
use crate::heartbeat::Reach;

/// Addresses at which we may be reached that are kept, and new ones that are looked into within an [`HOUR`]. A host at home may get another
/// address every day, so new ones take the place of the oldest.
const MAX_GUESSES: usize = 32;
/// After this counting begins anew.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// What is known of one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    /// Nobody has tried it, or only one, in vain.
    Open { failures: u8 },
    /// Somebody dialled it and found us there.
    Confirmed,
    /// Our keeper says that others reach us there.
    Given,
    /// Two tried, in vain.
    Refuted,
}

/// What is known of our own reachability.
///
/// Peers tell at which address they see us. Our dials leave from ports of their own, so the port of that address means nothing; its IP
/// with a port on which we listen is a guess. Each guess is tried by a peer, and after a failure once more, perhaps by another. Guesses
/// within a local network count only while nobody sees us at an address that means the same everywhere: that a neighbour in the same
/// house reaches us says nothing of the others.
#[derive(Debug)]
pub(super) struct Reachability {
    /// Addresses, the newest in front.
    findings: VecDeque<(Multiaddr, Finding)>,
    /// Guesses that may be made.
    guessing: Allowance,
    /// Addresses through relays. They make nobody public.
    circuits: BTreeSet<Multiaddr>,
    /// We listen nowhere: nobody needs to try.
    deaf: bool,
}

impl Default for Reachability {
    fn default() -> Self {
        Self {
            findings: VecDeque::new(),
            guessing: Allowance::new(MAX_GUESSES as u32, HOUR),
            circuits: BTreeSet::new(),
            deaf: false,
        }
    }
}

impl Reachability {
    /// We listen nowhere.
    pub(super) fn deaf(&mut self) {
        self.deaf = true;
    }

    /// A peer sees us at `seen`, and we listen at `listening`. Returns the guesses that are new, to be tried.
    pub(super) fn seen<'a>(
        &mut self,
        now: Instant,
        seen: &Multiaddr,
        listening: impl IntoIterator<Item = &'a Multiaddr>,
    ) -> Vec<Multiaddr> {
        let mut new = Vec::new();
        for listener in listening.into_iter().filter(|listener| !is_relayed(listener)) {
            let Some(guess) = seen_from_outside(seen, listener).map(without_peer) else { continue };
            if self.finding(&guess).is_none() && self.guessing.take(now) {
                self.findings.push_front((guess.clone(), Finding::Open { failures: 0 }));
                new.push(guess);
            }
        }
        new
    }

    /// An address that is kept no longer, for which newer ones have come.
    pub(super) fn outdated(&mut self) -> Option<Multiaddr> {
        let guessed = |(_, finding): &(Multiaddr, Finding)| *finding != Finding::Given;
        if self.findings.iter().filter(|finding| guessed(finding)).count() <= MAX_GUESSES {
            return None;
        }
        let oldest = self.findings.iter().rposition(guessed)?;
        self.findings.remove(oldest).map(|(address, _)| address)
    }

    fn finding(&mut self, address: &Multiaddr) -> Option<&mut Finding> {
        self.findings.iter_mut().find(|(known, _)| known == address).map(|(_, finding)| finding)
    }

    /// Our keeper says that others reach us there.
    pub(super) fn given(&mut self, address: Multiaddr) {
        self.findings.push_front((without_peer(address), Finding::Given));
    }

    /// Somebody found us there, or a relay gave us a place.
    pub(super) fn confirmed(&mut self, address: Multiaddr) {
        let address = without_peer(address);
        if is_relayed(&address) {
            self.circuits.insert(address);
        } else if let Some(finding) = self.finding(&address)
            && *finding != Finding::Given
        {
            *finding = Finding::Confirmed;
        }
    }

    /// A relay took our place away.
    pub(super) fn expired(&mut self, address: &Multiaddr) {
        self.circuits.remove(&without_peer(address.clone()));
    }

    /// Somebody dialled an address in vain. True if it shall be tried once more.
    pub(super) fn refuted(&mut self, address: &Multiaddr) -> bool {
        match self.finding(&without_peer(address.clone())) {
            Some(finding @ Finding::Open { failures: 0 }) => {
                *finding = Finding::Open { failures: 1 };
                true
            }
            Some(finding @ Finding::Open { .. }) => {
                *finding = Finding::Refuted;
                false
            }
            _ => false,
        }
    }

    /// The addresses at which others reach us, the newest first, those through relays last.
    pub(super) fn addresses(&self) -> Vec<Multiaddr> {
        let direct = self.findings.iter().filter(|(_, finding)| finding.is_good());
        direct.map(|(address, _)| address).chain(&self.circuits).cloned().collect()
    }

    /// Public with one direct address; private when every guess that counts was tried in vain.
    pub(super) fn reach(&self) -> Reach {
        if self.findings.iter().any(|(_, finding)| *finding == Finding::Given) {
            return Reach::Public;
        }
        let everywhere = self.findings.iter().any(|(address, _)| !is_local(address));
        let counting = || self.findings.iter().filter(|(address, _)| !everywhere || !is_local(address));
        if counting().any(|(_, finding)| finding.is_good()) {
            Reach::Public
        } else if self.deaf
            || counting().next().is_some() && counting().all(|(_, finding)| *finding == Finding::Refuted)
        {
            Reach::Private
        } else {
            Reach::Unknown
        }
    }
}

impl Finding {
    fn is_good(self) -> bool {
        matches!(self, Self::Confirmed | Self::Given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELAY: &str =
        "/ip4/198.51.100.1/tcp/4160/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN/p2p-circuit";

    fn now() -> Instant {
        Instant::now()
    }

    fn address(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    /// A host with one port of TCP and one of QUIC, which somebody sees at `seen`.
    fn seen_at(seen: &str) -> (Reachability, Vec<Multiaddr>) {
        let mut own = Reachability::default();
        let listening = [address("/ip4/10.0.0.2/tcp/4160"), address("/ip4/10.0.0.2/udp/4160/quic-v1")];
        let guesses = own.seen(now(), &address(seen), &listening);
        assert_eq!(own.seen(now(), &address(seen), &listening), Vec::<Multiaddr>::new(), "asked twice");
        (own, guesses)
    }

    #[test]
    fn one_open_port_makes_public() {
        let (mut own, guesses) = seen_at("/ip4/203.0.113.7/tcp/50123");
        assert_eq!(guesses.len(), 2);
        assert_eq!(own.reach(), Reach::Unknown);
        own.refuted(&guesses[0]);
        own.confirmed(guesses[1].clone());
        own.refuted(&guesses[0]);
        assert_eq!((own.reach(), own.addresses()), (Reach::Public, vec![guesses[1].clone()]));
    }

    #[test]
    fn every_port_must_fail_twice_to_make_private() {
        let (mut own, guesses) = seen_at("/ip4/203.0.113.7/tcp/50123");
        assert!(guesses.iter().all(|guess| own.refuted(guess)));
        assert!(!own.refuted(&guesses[0]));
        assert_eq!(own.reach(), Reach::Unknown);
        assert!(!own.refuted(&guesses[1]));
        assert_eq!(own.reach(), Reach::Private);
        // Of an address that nobody guessed nothing is believed.
        own.confirmed(address("/ip4/192.0.2.1/tcp/1"));
        assert_eq!(own.reach(), Reach::Private);
    }

    #[test]
    fn a_neighbour_in_the_house_does_not_speak_for_the_world() {
        let (mut own, inside) = seen_at("/ip4/10.0.0.2/tcp/50123");
        own.confirmed(inside[0].clone());
        assert_eq!(own.reach(), Reach::Public);
        let outside =
            own.seen(now(), &address("/ip4/203.0.113.7/tcp/9"), &[address("/ip4/10.0.0.2/tcp/4160")]);
        assert_eq!(own.reach(), Reach::Unknown);
        own.refuted(&outside[0]);
        own.refuted(&outside[0]);
        assert_eq!(own.reach(), Reach::Private);
    }

    #[test]
    fn who_listens_nowhere_is_private_and_stays_so_with_a_place_at_a_relay() {
        let mut own = Reachability::default();
        own.deaf();
        own.confirmed(address(RELAY));
        assert_eq!((own.reach(), own.addresses()), (Reach::Private, vec![address(RELAY)]));
        own.expired(&address(RELAY));
        assert!(own.addresses().is_empty());
        own.given(address("/dns4/example.org/tcp/4160"));
        assert_eq!(own.reach(), Reach::Public);
    }

    #[test]
    fn memory_is_bounded_and_new_addresses_replace_old_ones() {
        let (mut own, begun) = (Reachability::default(), now());
        let given = address("/dns4/example.org/tcp/4160");
        own.given(given.clone());
        let listening = [address("/ip4/10.0.0.2/tcp/4160")];
        let seen = |own: &mut Reachability, hour: u32| {
            let seen_at = |n| address(&format!("/ip4/8.8.{hour}.{n}/tcp/1"));
            (0..200).map(|n| own.seen(begun + hour * HOUR, &seen_at(n), &listening).len()).sum::<usize>()
        };
        assert_eq!(seen(&mut own, 0), MAX_GUESSES);
        assert_eq!(own.outdated(), None);
        assert_eq!(seen(&mut own, 1), MAX_GUESSES);
        let outdated: Vec<Multiaddr> = std::iter::from_fn(|| own.outdated()).collect();
        assert_eq!((outdated.len(), own.findings.len()), (MAX_GUESSES, MAX_GUESSES + 1));
        assert!(!outdated.contains(&given));
        let new = address("/ip4/8.8.1.31/tcp/4160");
        own.confirmed(new.clone());
        assert_eq!(own.addresses(), [new, given]);
    }
}
