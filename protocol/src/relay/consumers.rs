//! Who pulls from this peer, and what each has asked for.

use crate::content::ContentId;
use crate::groups::GroupMask;
use crate::identity::PublicKey;
use crate::manifest::PieceIndex;
use crate::time::UnixMillis;
use crate::version::PolicyVersion;
use std::collections::{BTreeMap, VecDeque};

/// Consumers that a node serves at once.
pub const MAX_CONSUMERS: usize = 32;
/// Consumers that the source serves at once.
pub const MAX_SOURCE_CONSUMERS: usize = 128;
/// Groups that one consumer may have asked for and not yet received: twice the widest window, as cancels travel slower than requests.
pub const MAX_ASKED: usize = 512;
/// Groups on their way to one consumer: more could no longer be cancelled, nor give way to others.
pub const MAX_SERVED: usize = 4;
/// A consumer that asked for nothing for this time gives its place to another.
pub const IDLE_MS: u64 = 60_000;
/// Asked groups that are compared to find the one that was served least often.
const COMPARED: usize = 64;

/// One who pulls from here.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) version: PolicyVersion,
    /// The name of the manifest that it goes by.
    pub(super) manifest: ContentId,
    /// Whether it was told all that is held here of its version.
    pub(super) greeted: bool,
    /// When it last asked, or joined.
    active: UnixMillis,
    asks: VecDeque<(PieceIndex, u32)>,
    served: Vec<(PieceIndex, u32)>,
}

/// The consumers, at most `places`.
#[derive(Debug)]
pub(super) struct Consumers {
    places: usize,
    by_key: BTreeMap<PublicKey, Consumer>,
}

impl Consumers {
    pub(super) fn new(places: usize) -> Self {
        Self { places, by_key: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
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

    /// Whose place `newcomer` may take: of one who is idle, else, for a friend, of a stranger; the one longest without a question.
    pub(super) fn gives_way(
        &self,
        now: UnixMillis,
        newcomer: &PublicKey,
        friend: impl Fn(&PublicKey) -> bool,
    ) -> Option<(PublicKey, PolicyVersion)> {
        let welcome = friend(newcomer);
        let may_go = |key: &PublicKey, consumer: &Consumer| {
            now.since(consumer.active) >= IDLE_MS || welcome && !friend(key)
        };
        let candidates = self.by_key.iter().filter(|(key, consumer)| may_go(key, consumer));
        candidates.min_by_key(|(_, consumer)| consumer.active).map(|(key, consumer)| (*key, consumer.version))
    }

    pub(super) fn add(
        &mut self,
        now: UnixMillis,
        key: PublicKey,
        version: PolicyVersion,
        manifest: ContentId,
    ) {
        let (asks, served) = (VecDeque::new(), Vec::new());
        self.by_key.insert(key, Consumer { version, manifest, greeted: false, active: now, asks, served });
    }

    pub(super) fn cancel(&mut self, key: &PublicKey, piece: PieceIndex, groups: GroupMask) {
        if let Some(consumer) = self.by_key.get_mut(key) {
            consumer.asks.retain(|(of, group)| *of != piece || !groups.contains(*group));
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
    pub(super) fn ask(&mut self, now: UnixMillis, piece: PieceIndex, groups: GroupMask) -> bool {
        self.active = now;
        for group in groups.iter() {
            if self.served.contains(&(piece, group)) || self.asks.contains(&(piece, group)) {
                continue;
            }
            if self.asks.len() >= MAX_ASKED {
                return false;
            }
            self.asks.push_back((piece, group));
        }
        true
    }

    /// Notes that a group has left.
    pub(super) fn sent(&mut self, piece: PieceIndex, group: u32) {
        self.served.retain(|served| *served != (piece, group));
    }

    /// The next group to serve: of those asked, in that order, the one served least often.
    pub(super) fn next(
        &mut self,
        times_served: impl Fn(PieceIndex, u32) -> u32,
    ) -> Option<(PieceIndex, u32)> {
        if self.served.len() >= MAX_SERVED {
            return None;
        }
        let asks = self.asks.iter().take(COMPARED).enumerate();
        let (at, _) = asks.min_by_key(|(at, (piece, group))| (times_served(*piece, *group), *at))?;
        let next = self.asks.remove(at)?;
        self.served.push(next);
        Some(next)
    }
}
