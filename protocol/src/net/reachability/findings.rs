//! Whether others can connect to us, from where they see us and what those found who tried.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use libp2p::Multiaddr;
use tokio::time::Instant;

use crate::control::heartbeat::Reach;
use crate::net::addresses::{is_local, is_relayed, network_of, seen_from_outside, without_peer};
use crate::net::reachability::fixed_window::Allowance;

/// Addresses at which we may be reached that are kept, and new ones that are looked into
/// within an [`HOUR`]. A host at home may get another address every day, so new ones take the
/// place of the oldest.
const MAX_GUESSES: usize = 32;
/// After this counting begins anew.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Peers say every five minutes where they see us. When for so long they saw us only
/// elsewhere, we have moved.
const MOVED: Duration = Duration::from_secs(15 * 60);

/// What is known of one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    /// Nobody has tried it, or only one, in vain.
    Open { failures: u8 },
    /// Somebody dialled it and found us there.
    Confirmed,
    /// Two tried, in vain.
    Refuted,
}

/// An address at which we may be reached.
#[derive(Debug)]
struct Guess {
    address: Multiaddr,
    finding: Finding,
    /// When a peer last saw us at its IP.
    seen: Instant,
}

/// What is known of our own reachability.
///
/// Peers tell at which address they see us. Our dials leave from ports of their own, so the port
/// of that address means nothing; its IP with a port on which we listen is a guess. Each guess is
/// tried by a peer, and after a failure once more, perhaps by another. What was found counts
/// while we are seen there. Guesses within a local network count only while nobody sees us at an
/// address that means the same everywhere: that a neighbour in the same house reaches us says
/// nothing of the others.
#[derive(Debug)]
pub(in crate::net) struct Reachability {
    /// Where others reach us, as our operator says.
    given: Vec<Multiaddr>,
    /// The newest in front.
    guesses: VecDeque<Guess>,
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
            given: Vec::new(),
            guesses: VecDeque::new(),
            guessing: Allowance::new(MAX_GUESSES as u32, HOUR),
            circuits: BTreeSet::new(),
            deaf: false,
        }
    }
}

impl Reachability {
    /// Notes that the host listens nowhere: it counts as private.
    pub(in crate::net) fn deaf(&mut self) {
        self.deaf = true;
    }

    /// A peer sees us at `seen`, and we listen at `listening`. Returns the guesses that are new, to be tried.
    pub(in crate::net) fn seen<'a>(
        &mut self,
        now: Instant,
        seen: &Multiaddr,
        listening: impl IntoIterator<Item = &'a Multiaddr>,
    ) -> Vec<Multiaddr> {
        let mut new = Vec::new();
        for listener in listening.into_iter().filter(|listener| !is_relayed(listener)) {
            let Some(address) = seen_from_outside(seen, listener).map(without_peer) else { continue };
            if let Some(guess) = self.guess(&address) {
                guess.seen = now;
            } else if !self.given.contains(&address) && self.guessing.take(now) {
                let finding = Finding::Open { failures: 0 };
                self.guesses.push_front(Guess { address: address.clone(), finding, seen: now });
                new.push(address);
            }
        }
        self.guesses.truncate(MAX_GUESSES);
        new
    }

    fn guess(&mut self, address: &Multiaddr) -> Option<&mut Guess> {
        self.guesses.iter_mut().find(|guess| guess.address == *address)
    }

    /// Our operator says that others reach us there.
    pub(in crate::net) fn given(&mut self, address: Multiaddr) {
        self.given.push(without_peer(address));
    }

    /// Somebody found us there, or a relay gave us a place.
    pub(in crate::net) fn confirmed(&mut self, address: Multiaddr) {
        let address = without_peer(address);
        if is_relayed(&address) {
            self.circuits.insert(address);
        } else if let Some(guess) = self.guess(&address) {
            guess.finding = Finding::Confirmed;
        }
    }

    /// A relay took our place away.
    pub(in crate::net) fn expired(&mut self, address: &Multiaddr) {
        self.circuits.remove(&without_peer(address.clone()));
    }

    /// Somebody dialled an address in vain. True if it shall be tried once more.
    pub(in crate::net) fn refuted(&mut self, address: &Multiaddr) -> bool {
        let Some(guess) = self.guess(&without_peer(address.clone())) else { return false };
        match guess.finding {
            Finding::Open { failures: 0 } => guess.finding = Finding::Open { failures: 1 },
            Finding::Open { .. } => guess.finding = Finding::Refuted,
            Finding::Confirmed | Finding::Refuted => {}
        }
        guess.finding == Finding::Open { failures: 1 }
    }

    /// The addresses at which others reach us, the newest first, those through relays last.
    pub(in crate::net) fn addresses(&self) -> Vec<Multiaddr> {
        let confirmed = self.current().filter(|guess| guess.finding == Finding::Confirmed);
        confirmed.map(|guess| &guess.address).chain(&self.given).chain(&self.circuits).cloned().collect()
    }

    /// Public with one direct address; private when every guess that counts was tried in vain.
    pub(in crate::net) fn reach(&self) -> Reach {
        if !self.given.is_empty() {
            return Reach::Public;
        }
        let everywhere = self.guesses.iter().any(|guess| !is_local(&guess.address));
        let counting = || self.current().filter(|guess| !everywhere || !is_local(&guess.address));
        if counting().any(|guess| guess.finding == Finding::Confirmed) {
            Reach::Public
        } else if self.deaf
            || counting().next().is_some() && counting().all(|guess| guess.finding == Finding::Refuted)
        {
            Reach::Private
        } else {
            Reach::Unknown
        }
    }

    /// The guesses at places that we have not left.
    fn current(&self) -> impl Iterator<Item = &Guess> {
        self.guesses.iter().filter(|guess| {
            let mut alike = self.guesses.iter().filter(|other| other.kind() == guess.kind());
            alike.all(|other| other.seen - guess.seen < MOVED)
        })
    }
}

impl Guess {
    /// Peers see us at one address of each kind, as long as we stay where we are: local or not, and
    /// of which version of IP.
    fn kind(&self) -> (bool, bool) {
        (is_local(&self.address), network_of(&self.address).is_some_and(|ip| ip.is_ipv4()))
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
    fn who_moves_leaves_behind_what_was_found_there_and_finds_it_again() {
        let (mut own, begun) = (Reachability::default(), now());
        let listening = [address("/ip4/10.0.0.2/tcp/4160"), address("/ip6/fd00::2/tcp/4160")];
        let seen = |own: &mut Reachability, pauses: u32, at: &str| {
            own.seen(begun + pauses * MOVED, &address(at), &listening)
        };
        let home = seen(&mut own, 0, "/ip4/203.0.113.7/tcp/9");
        own.confirmed(home[0].clone());
        seen(&mut own, 1, "/ip4/192.168.1.2/tcp/9");
        seen(&mut own, 1, "/ip6/2001:db8::1/tcp/9").iter().for_each(|v6| {
            own.refuted(v6);
            own.refuted(v6);
        });
        assert_eq!((own.reach(), own.addresses()), (Reach::Public, home.clone()));
        let away = seen(&mut own, 1, "/ip4/198.51.100.1/tcp/9");
        assert_eq!((own.reach(), own.addresses()), (Reach::Unknown, vec![]));
        assert!(own.refuted(&away[0]) && !own.refuted(&away[0]));
        assert_eq!(own.reach(), Reach::Private);
        assert!(seen(&mut own, 2, "/ip4/203.0.113.7/tcp/9").is_empty());
        assert_eq!((own.reach(), own.addresses()), (Reach::Public, home));
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
        assert_eq!(seen(&mut own, 1), MAX_GUESSES);
        assert_eq!(own.guesses.len(), MAX_GUESSES);
        let new = address("/ip4/8.8.1.31/tcp/4160");
        own.confirmed(new.clone());
        assert_eq!(own.addresses(), [new, given]);
    }
}
