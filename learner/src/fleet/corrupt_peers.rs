//! Nodes that serve rotten bytes, by what others say and by what the learner met itself.
//!
//! Who met rot never gets that neighbour again, whatever others say. Beyond itself a node's word
//! counts little, since keys cost nothing: only while its record is good, once for each owner, for
//! [`FADES_MS`] from when it was first said, and not at all where its owner names more than
//! [`MAX_NAMED`] peers. [`QUORUM`] such words keep a peer out of all chains while they last. Nobody
//! is banned by words: only what the learner met itself bans.

use super::trust::{MAX_ACCUSED, MAX_ACCUSERS, QUORUM};
use crate::reputation::Owner;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use std::collections::{BTreeMap, BTreeSet};

/// How long a word counts, in milliseconds: a day. Who says the same all along says it once; after
/// a silence as long it is said anew.
pub const FADES_MS: u64 = 24 * 3_600 * 1_000;
/// Peers that an owner may name at once; who names more is believed about none of them.
pub const MAX_NAMED: usize = 3;
/// Words of one owner that are remembered: more than it takes to believe none of them.
const MAX_WORDS: usize = 32;

/// Who is said to serve rotten bytes, and by whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Rotten {
    by_peer: BTreeMap<PublicKey, Suspect>,
    /// What owners of nodes with a good record say.
    words: BTreeMap<Owner, BTreeMap<PublicKey, Word>>,
}

#[derive(Clone, Debug, Default)]
struct Suspect {
    /// Whoever says so, and when they last did.
    reporters: BTreeMap<PublicKey, UnixMillis>,
    /// The learner met it itself.
    met: bool,
}

/// That a peer is rotten.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// Whose it is: a key that comes from several networks says it once.
    reporter: PublicKey,
    first: UnixMillis,
    last: UnixMillis,
    /// The operator does not believe it.
    void: bool,
}

impl Word {
    fn counts(&self, now: UnixMillis) -> bool {
        !self.void && is_fresh(now, self.first)
    }
}

impl Rotten {
    /// Notes a report; with the owner where the reporter's record is good. True if a word that is
    /// new makes a quorum.
    pub(super) fn add(
        &mut self,
        now: UnixMillis,
        reporter: PublicKey,
        owner: Option<Owner>,
        peer: PublicKey,
    ) -> bool {
        let reporters = &mut self.suspect(peer).reporters;
        if reporters.len() < MAX_ACCUSERS || reporters.contains_key(&reporter) {
            reporters.insert(reporter, now);
        }
        let said = owner.is_some_and(|owner| self.say(now, reporter, owner, peer));
        said && self.accuses(now, &peer)
    }

    /// Notes that the learner met rotten bytes itself.
    pub(super) fn met(&mut self, peer: PublicKey) {
        self.suspect(peer).met = true;
    }

    /// Whether nobody is to receive from this node.
    pub(super) fn condemns(&self, peer: &PublicKey) -> bool {
        self.by_peer.get(peer).is_some_and(|suspect| suspect.met)
    }

    /// Whether nobody is to wait for this node.
    pub(super) fn accuses(&self, now: UnixMillis, peer: &PublicKey) -> bool {
        let against = self.believed(now).filter(|(accused, _)| accused == peer);
        against.map(|(_, reporter)| reporter).collect::<BTreeSet<_>>().len() >= QUORUM
    }

    /// All for whom nobody is to wait. What has faded is forgotten.
    pub(super) fn accused(&mut self, now: UnixMillis) -> BTreeSet<PublicKey> {
        self.fade(now);
        let mut reporters: BTreeMap<PublicKey, BTreeSet<PublicKey>> = BTreeMap::new();
        for (peer, reporter) in self.believed(now) {
            reporters.entry(peer).or_default().insert(reporter);
        }
        reporters.retain(|_, reporters| reporters.len() >= QUORUM);
        reporters.into_keys().collect()
    }

    /// Holds nothing against a peer any more, and goes on not to believe those who only say
    /// again what they said.
    pub(super) fn forgive(&mut self, peer: &PublicKey) {
        self.by_peer.remove(peer);
        self.words.values_mut().filter_map(|said| said.get_mut(peer)).for_each(|word| word.void = true);
    }

    /// Whoever was reported, and by how many.
    pub(super) fn peers(&self) -> impl Iterator<Item = (PublicKey, usize)> {
        let reporters = |suspect: &Suspect| suspect.reporters.len() + usize::from(suspect.met);
        self.by_peer.iter().map(move |(peer, suspect)| (*peer, reporters(suspect)))
    }

    /// Peers with those who accuse them and are believed, one for each owner.
    fn believed(&self, now: UnixMillis) -> impl Iterator<Item = (PublicKey, PublicKey)> {
        let live = move |(_, word): &(&PublicKey, &Word)| word.counts(now);
        let believed = self.words.values().filter(move |said| said.iter().filter(live).count() <= MAX_NAMED);
        let words = believed.flat_map(move |said| said.iter().filter(live));
        words.map(|(peer, word)| (*peer, word.reporter))
    }

    /// Notes an owner's word; false if it has said so before.
    fn say(&mut self, now: UnixMillis, reporter: PublicKey, owner: Owner, peer: PublicKey) -> bool {
        if self.words.len() >= MAX_ACCUSED && !self.words.contains_key(&owner) {
            self.fade(now);
            let newest = |said: &BTreeMap<PublicKey, Word>| said.values().map(|word| word.last).max();
            let oldest = self.words.iter().min_by_key(|(_, said)| newest(said)).map(|(owner, _)| *owner);
            let full = self.words.len() >= MAX_ACCUSED;
            oldest.filter(|_| full).map(|oldest| self.words.remove(&oldest));
        }
        let said = self.words.entry(owner).or_default();
        if let Some(word) = said.get_mut(&peer).filter(|word| is_fresh(now, word.last)) {
            word.last = now;
            return false;
        }
        if said.len() >= MAX_WORDS {
            let oldest = said.iter().min_by_key(|(_, word)| word.first).map(|(peer, _)| *peer);
            oldest.map(|oldest| said.remove(&oldest));
        }
        said.insert(peer, Word { reporter, first: now, last: now, void: false });
        true
    }

    fn fade(&mut self, now: UnixMillis) {
        self.words.retain(|_, said| {
            said.retain(|_, word| is_fresh(now, word.last));
            !said.is_empty()
        });
        self.by_peer.retain(|_, suspect| {
            suspect.reporters.retain(|_, at| is_fresh(now, *at));
            suspect.met || !suspect.reporters.is_empty()
        });
    }

    /// The record of a node. To make room for it, the one against which least is known is forgotten.
    fn suspect(&mut self, peer: PublicKey) -> &mut Suspect {
        if self.by_peer.len() >= MAX_ACCUSED && !self.by_peer.contains_key(&peer) {
            let weight = |suspect: &Suspect| (suspect.met, suspect.reporters.len());
            let least = self.by_peer.iter().min_by_key(|(_, suspect)| weight(suspect)).map(|(peer, _)| *peer);
            least.map(|least| self.by_peer.remove(&least));
        }
        self.by_peer.entry(peer).or_default()
    }
}

fn is_fresh(now: UnixMillis, at: UnixMillis) -> bool {
    now.since(at) < FADES_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> PublicKey {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        PublicKey::from_bytes(bytes)
    }

    fn owner(number: u32) -> Option<Owner> {
        Some(Owner::Key(key(1_000 + number)))
    }

    /// Whether the word of node `n` of owner `n` against `peer` makes a quorum.
    fn says(rotten: &mut Rotten, at: u64, n: u32, peer: u32) -> bool {
        rotten.add(UnixMillis(at), key(n), owner(n), key(peer))
    }

    #[test]
    fn a_quorum_is_of_owners_with_a_record_and_condemns_nobody() {
        let mut rotten = Rotten::default();
        let accused = key(9);
        assert!((1..20).all(|n| !rotten.add(UnixMillis(0), key(n), None, accused)), "of nobody known");
        assert!((1..20).all(|n| !rotten.add(UnixMillis(0), key(n), owner(0), accused)), "of one owner");
        assert!((0..20).all(|n| !rotten.add(UnixMillis(0), key(1), owner(n), accused)), "of one key");
        assert!(!says(&mut rotten, 0, 31, 9));
        assert!(says(&mut rotten, 0, 32, 9));
        assert!(rotten.accuses(UnixMillis(0), &accused) && !rotten.condemns(&accused));
        assert_eq!(rotten.accused(UnixMillis(0)), [accused].into());
    }

    #[test]
    fn a_word_fades_although_it_is_repeated_and_counts_anew_after_a_silence() {
        let mut rotten = Rotten::default();
        let hour = FADES_MS / 24;
        let quorum = |rotten: &mut Rotten, at| (1..=3).filter(|n| says(rotten, at, *n, 9)).count() == 1;
        assert!(quorum(&mut rotten, 0));
        (1..48).for_each(|n| assert!(!quorum(&mut rotten, n * hour)));
        assert!(rotten.accused(UnixMillis(23 * hour)).contains(&key(9)));
        assert!(rotten.accused(UnixMillis(47 * hour)).is_empty());
        assert!(!quorum(&mut rotten, 48 * hour));
        assert!(quorum(&mut rotten, 72 * hour));
    }

    #[test]
    fn who_names_many_is_believed_about_none_of_them() {
        let mut rotten = Rotten::default();
        let named = |rotten: &mut Rotten| rotten.accused(UnixMillis(0)).len();
        for n in 1..=3 {
            (0..MAX_NAMED as u32).for_each(|peer| assert_eq!(says(&mut rotten, 0, n, 100 + peer), n == 3));
        }
        assert_eq!(named(&mut rotten), MAX_NAMED);
        says(&mut rotten, 0, 3, 200);
        assert_eq!(named(&mut rotten), 0);
        assert!(says(&mut rotten, 0, 4, 100), "others are believed all the same");
    }

    #[test]
    fn who_is_forgiven_is_not_accused_by_the_same_words() {
        let mut rotten = Rotten::default();
        assert_eq!((1..=3).map(|n| says(&mut rotten, 0, n, 9)).collect::<Vec<_>>(), [false, false, true]);
        rotten.met(key(9));
        rotten.forgive(&key(9));
        assert!(!rotten.condemns(&key(9)) && rotten.peers().next().is_none());
        assert!((1..=3).all(|n| !says(&mut rotten, 1, n, 9)));
        assert!(!rotten.accuses(UnixMillis(1), &key(9)));
        assert_eq!((4..=6).map(|n| says(&mut rotten, 2, n, 9)).collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn memory_is_bounded_and_keeps_what_counts() {
        let mut rotten = Rotten::default();
        rotten.met(key(0));
        assert_eq!((1..=3).filter(|n| says(&mut rotten, 1 << 20, *n, 7)).count(), 1);
        for n in 0..MAX_ACCUSED as u32 + 10 {
            rotten.add(UnixMillis(n.into()), key(1), None, key(10_000 + n));
            rotten.add(UnixMillis(n.into()), key(1), owner(100), key(10_000 + n));
            says(&mut rotten, n.into(), 10_000 + n, 10_000 + n);
        }
        assert_eq!((rotten.peers().count(), rotten.words.len()), (MAX_ACCUSED, MAX_ACCUSED));
        assert!(rotten.words.values().all(|said| said.len() <= MAX_WORDS));
        assert!(rotten.condemns(&key(0)) && rotten.accuses(UnixMillis(1 << 20), &key(7)));
    }
}
