//! Who pulls from this peer, and what each has asked for.

pub(super) mod share;

use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::PieceIndex;
use crate::wire::content_id::ContentId;
use crate::wire::identity::PublicKey;
use crate::wire::time::UnixMillis;
use share::Share;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Consumers that a node serves at once.
pub const MAX_CONSUMERS: usize = 32;
/// Consumers that the source serves at once.
pub const MAX_SOURCE_CONSUMERS: usize = 128;
/// Blocks of one consumer that may wait, beside those on their way: twice the widest window, as
/// cancels travel slower than requests.
pub const MAX_ASKED: usize = 512;
/// Blocks on their way to one consumer: more could no longer be cancelled, nor give way to others.
pub const MAX_SERVED: usize = 4;
/// A consumer that got nothing for this time gives its place to another.
pub const IDLE_MS: u64 = 60_000;
/// The same for one that waits for a version which is not known here.
pub const UNKNOWN_IDLE_MS: u64 = 10_000;
/// Friends that are remembered: no more than the source has places.
pub const MAX_FRIENDS: usize = MAX_SOURCE_CONSUMERS;
/// Milliseconds in which a peer may join for the same version only once: every time it is told all
/// that is held here.
pub const REJOIN_MS: u64 = 250;
/// Joins that are remembered for so long; one is forgotten for every one beyond.
const MAX_JOINS: usize = 1024;
/// Asked blocks that are compared to find the one that was served least often.
const COMPARED: usize = 64;

/// One who pulls from here.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) version: PolicyVersion,
    /// The name of the manifest that it goes by.
    pub(super) manifest: ContentId,
    /// Whether it was told all that is held here of its version, or has a share.
    pub(super) greeted: bool,
    /// When it was last handed a block, or joined.
    pub(super) active: UnixMillis,
    /// What it was told of, while others are told of other things.
    pub(super) share: Option<Share>,
    /// In the order in which it asked; no block is in two of them.
    asks: VecDeque<(PieceIndex, BlockMask)>,
    served: Vec<(PieceIndex, u32)>,
}

/// The consumers, at most `places`.
#[derive(Debug)]
pub(super) struct Consumers {
    places: usize,
    by_key: BTreeMap<PublicKey, Consumer>,
    /// Those that the learner sends here.
    friends: BTreeSet<PublicKey>,
    /// Those who pass nothing on.
    leaves: BTreeSet<PublicKey>,
    /// Who joined for what within the last [`REJOIN_MS`].
    joins: BTreeMap<(PublicKey, PolicyVersion), UnixMillis>,
}

impl Consumers {
    pub(super) fn new(places: usize) -> Self {
        let (friends, leaves) = Default::default();
        Self { places, by_key: BTreeMap::new(), friends, leaves, joins: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&PublicKey, &Consumer)> {
        self.by_key.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&PublicKey, &mut Consumer)> {
        self.by_key.iter_mut()
    }

    pub(super) fn get_mut(&mut self, key: &PublicKey) -> Option<&mut Consumer> {
        self.by_key.get_mut(key)
    }

    pub(super) fn remove(&mut self, key: &PublicKey) {
        self.by_key.remove(key);
    }

    /// Whether a place is free, or taken by `key` itself.
    pub(super) fn has_place(&self, key: &PublicKey) -> bool {
        self.by_key.len() < self.places || self.by_key.contains_key(key)
    }

    /// Replaces the friends; those beyond [`MAX_FRIENDS`] are ignored.
    pub(super) fn befriend(&mut self, friends: impl IntoIterator<Item = PublicKey>) {
        self.friends = friends.into_iter().take(MAX_FRIENDS).collect();
    }

    /// Replaces those who pass nothing on; those beyond [`MAX_FRIENDS`] are ignored.
    pub(super) fn set_leaves(&mut self, leaves: impl IntoIterator<Item = PublicKey>) {
        self.leaves = leaves.into_iter().take(MAX_FRIENDS).collect();
    }

    pub(super) fn is_leaf(&self, key: &PublicKey) -> bool {
        self.leaves.contains(key)
    }

    pub(super) fn is_friend(&self, key: &PublicKey) -> bool {
        self.friends.contains(key)
    }

    /// Notes a join; false when the peer joined for the same version a moment ago.
    pub(super) fn may_join(&mut self, now: UnixMillis, key: PublicKey, version: PolicyVersion) -> bool {
        self.joins.retain(|_, at| now.since(*at) < REJOIN_MS);
        if self.joins.len() >= MAX_JOINS {
            self.joins.pop_first();
        }
        let again = self.joins.contains_key(&(key, version));
        self.joins.entry((key, version)).or_insert(now);
        !again
    }

    /// Whose place `newcomer` may take: of one who is idle, else, for a friend, of a stranger.
    /// Strangers go first, and the one longest without a block.
    pub(super) fn gives_way(
        &self,
        now: UnixMillis,
        newcomer: &PublicKey,
        friend: impl Fn(&PublicKey) -> bool,
        known: impl Fn(PolicyVersion) -> bool,
    ) -> Option<(PublicKey, PolicyVersion)> {
        let welcome = friend(newcomer);
        let idle = |consumer: &Consumer| {
            let patience = if known(consumer.version) { IDLE_MS } else { UNKNOWN_IDLE_MS };
            now.since(consumer.active) >= patience
        };
        let candidates = self.by_key.iter().map(|(key, consumer)| (friend(key), key, consumer));
        let candidates = candidates.filter(|(friend, _, consumer)| idle(consumer) || welcome && !friend);
        let first = candidates.min_by_key(|(friend, _, consumer)| (*friend, consumer.active));
        first.map(|(_, key, consumer)| (*key, consumer.version))
    }

    pub(super) fn add(
        &mut self,
        now: UnixMillis,
        key: PublicKey,
        version: PolicyVersion,
        manifest: ContentId,
    ) {
        let (asks, served) = (VecDeque::new(), Vec::new());
        let consumer = Consumer { version, manifest, greeted: false, active: now, share: None, asks, served };
        self.by_key.insert(key, consumer);
    }

    pub(super) fn cancel(&mut self, key: &PublicKey, piece: PieceIndex, blocks: BlockMask) {
        if let Some(consumer) = self.by_key.get_mut(key) {
            for (_, asked) in consumer.asks.iter_mut().filter(|(of, _)| *of == piece) {
                *asked = asked.minus(blocks);
            }
            consumer.asks.retain(|(_, asked)| !asked.is_empty());
        }
    }

    /// Takes out these consumers.
    pub(super) fn remove_where(
        &mut self,
        gone: impl Fn(&Consumer) -> bool,
    ) -> Vec<(PublicKey, PolicyVersion)> {
        let keys = self.by_key.iter().filter(|(_, c)| gone(c)).map(|(key, c)| (*key, c.version));
        let keys: Vec<_> = keys.collect();
        keys.iter().for_each(|(key, _)| self.remove(key));
        keys
    }
}

impl Consumer {
    /// Notes a request; false when it asks for too much at once.
    pub(super) fn ask(&mut self, piece: PieceIndex, blocks: BlockMask) -> bool {
        let served = self.served.iter().filter(|(of, _)| *of == piece).map(|(_, block)| *block);
        let asked = self.asks.iter().filter(|(of, _)| *of == piece);
        let known = asked.fold(BlockMask::of(served), |known, (_, asked)| known.union(*asked));
        let new = blocks.minus(known);
        let waiting: u32 = self.asks.iter().map(|(_, asked)| asked.len()).sum();
        if (waiting + new.len()) as usize > MAX_ASKED {
            return false;
        }
        if !new.is_empty() {
            self.asks.push_back((piece, new));
        }
        true
    }

    /// Whether nothing that it asked for waits or is on its way.
    pub(super) fn asks_for_nothing(&self) -> bool {
        self.asks.is_empty() && self.served.is_empty()
    }

    /// Notes that a block has left.
    pub(super) fn sent(&mut self, piece: PieceIndex, block: u32) {
        self.served.retain(|served| *served != (piece, block));
    }

    /// The next block to serve: of those asked, in that order, the one served least often.
    pub(super) fn next(
        &mut self,
        times_served: impl Fn(PieceIndex, u32) -> u32,
    ) -> Option<(PieceIndex, u32)> {
        if self.served.len() >= MAX_SERVED {
            return None;
        }
        let asks = self.asks.iter().enumerate();
        let blocks =
            asks.flat_map(|(at, (piece, blocks))| blocks.iter().map(move |block| (at, *piece, block)));
        let least = blocks.take(COMPARED).min_by_key(|(_, piece, block)| times_served(*piece, *block));
        let (at, piece, block) = least?;
        let (_, asked) = self.asks.get_mut(at)?;
        *asked = asked.minus(BlockMask::of([block]));
        if asked.is_empty() {
            self.asks.remove(at);
        }
        let next = (piece, block);
        self.served.push(next);
        Some(next)
    }
}
