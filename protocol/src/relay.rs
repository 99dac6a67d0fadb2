//! The forwarding chain, as seen by one peer: whom to receive from, what to pass on, when to install.
//!
//! Sans-IO: a driver verifies, stores and moves bytes, and tells this machine what happened; the machine says what to do next. The
//! learner runs the same machine as the source of every chain ([`Input::Published`]).
//!
//! A child subscribes at its parent with the set of chunks that it has; the parent sends what is missing, lowest index first, as
//! soon as it has stored it itself. So a new parent after a loss continues where the old one stopped. Each child has a small number
//! of chunks in flight ([`CREDIT`]); its driver returns the credit when a chunk has left.
//!
//! Rules that hold at every step:
//! - only chunks that the driver has verified and stored are forwarded ([`Input::Stored`]);
//! - `Install` is said once all chunks are stored, and never for a version older than the newest complete one;
//! - a peer that served rotten bytes is cut off and never subscribed to again.

mod children;
mod transfer;

use crate::chunk_set::ChunkSet;
use crate::content::ChunkIndex;
use crate::identity::PublicKey;
use crate::manifest::Manifest;
use crate::time::UnixMillis;
use crate::version::PolicyVersion;
use children::Children;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use transfer::Transfer;

/// Complete versions that stay available to children.
pub const KEPT_VERSIONS: usize = 3;
/// Children served at once: one of the chain, and room for re-attachments.
pub const MAX_CHILDREN: usize = 4;
/// Children that the source serves at once.
pub const MAX_SOURCE_CHILDREN: usize = 64;
/// Chunks on their way to one child.
pub const CREDIT: u32 = 4;
/// Silence of a parent, while something is missing, after which it counts as lost; longer where a chunk of this run takes longer.
pub const STALL_MS: u64 = 3_000;
/// Slowest link on which a chunk is waited for longer than that, in bytes per millisecond: a quarter of a megabit a second.
const SLOWEST_BYTES_PER_MS: u64 = 32;
/// Pause between two requests for a parent.
pub const ASK_EVERY_MS: u64 = 500;
/// Rotten peers that are remembered.
const MAX_ROTTEN: usize = 1024;

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A manifest whose signature and form are right, with the chunks of it that are already stored.
    Announced(Arc<Manifest>, ChunkSet),
    /// This peer is the source and has stored every chunk.
    Published(Arc<Manifest>),
    /// The learner named a parent, or had none to name.
    Parent(Option<PublicKey>),
    /// A chunk from `from` matched its name and is on disk.
    Stored {
        /// Who sent it.
        from: PublicKey,
        /// Of which version.
        version: PolicyVersion,
        /// Which chunk.
        index: ChunkIndex,
    },
    /// Bytes from this peer did not match their name, or it broke the protocol.
    Rotten(PublicKey),
    /// The parent does not keep this version.
    Declined {
        /// The parent.
        from: PublicKey,
        /// The version.
        version: PolicyVersion,
    },
    /// The stream from this parent ended, or could not be opened.
    Lost(PublicKey),
    /// The stream to this child ended.
    Left(PublicKey),
    /// A child wants a version and has these chunks of it.
    Subscribed {
        /// The child.
        child: PublicKey,
        /// The version.
        version: PolicyVersion,
        /// What it has.
        have: ChunkSet,
    },
    /// One chunk has left towards this child.
    Sent(PublicKey),
    /// A stored chunk no longer matches its name.
    Damaged {
        /// Of which version.
        version: PolicyVersion,
        /// Which chunk.
        index: ChunkIndex,
    },
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a stream to the parent and ask for what is not in `have`.
    Subscribe {
        /// The parent.
        parent: PublicKey,
        /// The version.
        version: PolicyVersion,
        /// What is already stored.
        have: ChunkSet,
    },
    /// Close the stream to this parent.
    Unsubscribe(PublicKey),
    /// Send a stored chunk to a child, then report [`Input::Sent`].
    Forward {
        /// The child.
        child: PublicKey,
        /// The version.
        version: PolicyVersion,
        /// The chunk.
        index: ChunkIndex,
    },
    /// Tell this child that the version is not available here.
    Decline {
        /// The child.
        child: PublicKey,
        /// The version.
        version: PolicyVersion,
    },
    /// Ask the learner for a parent.
    AskParent {
        /// The parent that failed, if one did.
        lost: Option<PublicKey>,
    },
    /// All chunks are stored: install this version.
    Install(PolicyVersion),
    /// Forget this version; its chunks may be deleted unless another version shares them.
    Discard(PolicyVersion),
    /// Disconnect this peer and don't accept it again.
    CutOff(PublicKey),
}

/// Where the bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upstream {
    /// Nothing is missing.
    Idle,
    /// Waiting for the learner to name a parent; `lost` is told when it is asked.
    Asking { again_at: UnixMillis, lost: Option<PublicKey> },
    /// Subscribed; `deadline` moves with every chunk.
    Receiving { parent: PublicKey, deadline: UnixMillis },
}

/// The relay machine of one peer.
#[derive(Debug)]
pub struct Relay {
    me: PublicKey,
    source: bool,
    versions: BTreeMap<PolicyVersion, Transfer>,
    /// The version being received.
    current: Option<PolicyVersion>,
    /// The newest announced version, received after the current one.
    next: Option<(Arc<Manifest>, ChunkSet)>,
    parent: Option<PublicKey>,
    upstream: Upstream,
    may_ask_at: UnixMillis,
    children: Children,
    rotten: BTreeSet<PublicKey>,
    outputs: VecDeque<Output>,
}

impl Relay {
    /// A peer that receives and forwards.
    pub fn new(me: PublicKey) -> Self {
        Self::with_role(me, false, MAX_CHILDREN)
    }

    /// A peer that receives and whose owner does not want it to forward: every child is declined.
    pub fn leaf(me: PublicKey) -> Self {
        Self::with_role(me, false, 0)
    }

    /// The source of all chains.
    pub fn source(me: PublicKey) -> Self {
        Self::with_role(me, true, MAX_SOURCE_CHILDREN)
    }

    fn with_role(me: PublicKey, source: bool, places: usize) -> Self {
        Self {
            me,
            source,
            versions: BTreeMap::new(),
            current: None,
            next: None,
            parent: None,
            upstream: Upstream::Idle,
            may_ask_at: UnixMillis(0),
            children: Children::new(places),
            rotten: BTreeSet::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Takes in what happened at `now`.
    pub fn handle(&mut self, now: UnixMillis, input: Input) {
        match input {
            Input::Announced(manifest, have) => self.announced(now, manifest, have),
            Input::Published(manifest) => self.published(manifest),
            Input::Parent(parent) => self.parent_named(now, parent),
            Input::Stored { from, version, index } => self.stored(now, from, version, index),
            Input::Rotten(peer) => self.rotten(now, peer),
            Input::Declined { from, version } => self.declined(now, from, version),
            Input::Lost(parent) => self.parent_failed(now, parent),
            Input::Left(child) => self.children.remove(&child),
            Input::Subscribed { child, version, have } => self.subscribed(child, version, have),
            Input::Sent(child) => {
                self.children.returned(&child);
                self.feed();
            }
            Input::Damaged { version, index } => self.damaged(now, version, index),
        }
    }

    /// What to do next, if anything.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Relay::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<UnixMillis> {
        match self.upstream {
            Upstream::Idle => None,
            Upstream::Asking { again_at, .. } => Some(again_at),
            Upstream::Receiving { deadline, .. } => Some(deadline),
        }
    }

    /// Reacts to time having passed.
    pub fn handle_timeout(&mut self, now: UnixMillis) {
        match self.upstream {
            Upstream::Asking { again_at, lost } if now >= again_at => self.ask(now, lost),
            Upstream::Receiving { parent, deadline } if now >= deadline => {
                self.outputs.push_back(Output::Unsubscribe(parent));
                self.parent_failed(now, parent);
            }
            _ => {}
        }
    }

    /// Stored and all chunks of the version being received.
    pub fn progress(&self) -> Option<(PolicyVersion, u32, u32)> {
        let version = self.current?;
        self.versions.get(&version).map(|t| (version, t.have.len(), t.chunks()))
    }

    /// The manifest of a version that this peer knows.
    pub fn manifest(&self, version: PolicyVersion) -> Option<&Arc<Manifest>> {
        self.versions.get(&version).map(|t| &t.manifest)
    }

    /// The newest version of which every chunk is stored.
    pub fn newest_complete(&self) -> Option<PolicyVersion> {
        self.versions.iter().rev().find(|(_, t)| t.is_complete()).map(|(v, _)| *v)
    }

    /// Manifests whose chunks must stay on disk.
    pub fn kept(&self) -> impl Iterator<Item = &Arc<Manifest>> {
        self.versions.values().map(|t| &t.manifest)
    }

    fn announced(&mut self, now: UnixMillis, manifest: Arc<Manifest>, have: ChunkSet) {
        let known =
            self.versions.last_key_value().map(|(v, _)| *v).max(self.next.as_ref().map(|(m, _)| m.version));
        if self.source || known.is_some_and(|known| manifest.version <= known) {
            return;
        }
        if self.current.is_some() {
            // Finish what is half here: jumping at every publication could starve a slow link for ever.
            self.next = Some((manifest, have));
        } else {
            self.begin(now, manifest, have);
        }
    }

    fn begin(&mut self, now: UnixMillis, manifest: Arc<Manifest>, have: ChunkSet) {
        let version = manifest.version;
        let transfer = Transfer::new(manifest, have);
        let complete = transfer.is_complete();
        self.versions.insert(version, transfer);
        self.current = Some(version);
        if complete {
            self.completed(now, version)
        } else {
            self.fetch(now)
        }
        self.feed();
    }

    fn published(&mut self, manifest: Arc<Manifest>) {
        let version = manifest.version;
        let all = ChunkSet::all(manifest.chunks.len() as u32);
        self.versions.insert(version, Transfer::new(manifest, all));
        self.discard_old();
        self.feed();
    }

    fn parent_named(&mut self, now: UnixMillis, parent: Option<PublicKey>) {
        if let Some(rotten) = parent.filter(|p| self.rotten.contains(p)) {
            // The learner forgot, or never heard, that it was cut off: the next question says so.
            if let Upstream::Asking { again_at, .. } = self.upstream {
                self.upstream = Upstream::Asking { again_at, lost: Some(rotten) };
            }
            return;
        }
        let parent = parent.filter(|p| *p != self.me);
        match (self.upstream, parent) {
            // A healthy transfer is not interrupted; the new parent serves from the next one on.
            (Upstream::Receiving { .. } | Upstream::Idle, Some(_)) => self.parent = parent,
            (Upstream::Asking { .. }, Some(_)) => {
                self.parent = parent;
                self.fetch(now);
            }
            // Nobody has a place: the question is repeated when its pause is over.
            (_, None) => {}
        }
    }

    fn stored(&mut self, now: UnixMillis, from: PublicKey, version: PolicyVersion, index: ChunkIndex) {
        let Some(transfer) = self.versions.get_mut(&version) else { return };
        if !transfer.store(index) {
            return;
        }
        let (complete, patience) = (transfer.is_complete(), patience(&transfer.manifest));
        if let Upstream::Receiving { parent, deadline } = &mut self.upstream
            && *parent == from
        {
            *deadline = now.plus(patience);
        }
        if complete && self.current == Some(version) {
            self.completed(now, version);
        }
        self.feed();
    }

    fn completed(&mut self, now: UnixMillis, version: PolicyVersion) {
        self.upstream = Upstream::Idle;
        self.current = None;
        if self.newest_complete() == Some(version) {
            self.outputs.push_back(Output::Install(version));
        }
        self.discard_old();
        if let Some((manifest, have)) = self.next.take() {
            self.begin(now, manifest, have);
        }
    }

    fn discard_old(&mut self) {
        let complete: Vec<_> =
            self.versions.iter().rev().filter(|(_, t)| t.is_complete()).map(|(v, _)| *v).collect();
        for version in complete.into_iter().skip(KEPT_VERSIONS) {
            self.versions.remove(&version);
            self.outputs.push_back(Output::Discard(version));
        }
    }

    fn rotten(&mut self, now: UnixMillis, peer: PublicKey) {
        if self.rotten.len() >= MAX_ROTTEN {
            self.rotten.pop_first();
        }
        self.rotten.insert(peer);
        self.outputs.push_back(Output::CutOff(peer));
        self.children.remove(&peer);
        self.parent_failed(now, peer);
    }

    fn declined(&mut self, now: UnixMillis, from: PublicKey, version: PolicyVersion) {
        if self.current != Some(version) {
            return;
        }
        if let Some((manifest, have)) = self.next.take() {
            // The chain has moved on; so do we.
            self.versions.remove(&version);
            self.outputs.push_back(Output::Discard(version));
            self.upstream = Upstream::Idle;
            self.begin(now, manifest, have);
        } else {
            self.parent_failed(now, from);
        }
    }

    fn parent_failed(&mut self, now: UnixMillis, peer: PublicKey) {
        if self.parent == Some(peer) {
            self.parent = None;
        }
        if matches!(self.upstream, Upstream::Receiving { parent, .. } if parent == peer) {
            self.ask(now, Some(peer));
        }
    }

    fn damaged(&mut self, now: UnixMillis, version: PolicyVersion, index: ChunkIndex) {
        let Some(transfer) = self.versions.get_mut(&version) else { return };
        transfer.have.remove(index);
        let outdated = self.newest_complete().is_some_and(|newest| version < newest);
        if outdated && !self.source && self.current != Some(version) {
            // Nobody here will install it again, and the chain has moved on.
            self.versions.remove(&version);
            self.outputs.push_back(Output::Discard(version));
            return;
        }
        if self.current.is_none() && !self.source {
            self.current = Some(version);
            self.fetch(now);
        } else if self.source {
            // Nobody can repair the source but the source: its driver is told, and nobody is waited for.
            self.outputs.push_back(Output::AskParent { lost: None });
        }
    }

    /// Subscribes to the parent for the current version, or asks for a parent.
    fn fetch(&mut self, now: UnixMillis) {
        let Some((version, transfer)) = self.current.and_then(|v| self.versions.get_key_value(&v)) else {
            return;
        };
        match self.parent {
            Some(parent) => {
                let (have, patience) = (transfer.have.clone(), patience(&transfer.manifest));
                self.outputs.push_back(Output::Subscribe { parent, version: *version, have });
                self.upstream = Upstream::Receiving { parent, deadline: now.plus(patience) };
            }
            None => self.ask(now, None),
        }
    }

    /// Asks at once, or when the pause since the last question is over: parents that fail at once must not make this a storm.
    fn ask(&mut self, now: UnixMillis, lost: Option<PublicKey>) {
        if now < self.may_ask_at {
            self.upstream = Upstream::Asking { again_at: self.may_ask_at, lost };
            return;
        }
        self.may_ask_at = now.plus(ASK_EVERY_MS);
        self.outputs.push_back(Output::AskParent { lost });
        self.upstream = Upstream::Asking { again_at: self.may_ask_at, lost: None };
    }

    fn subscribed(&mut self, child: PublicKey, version: PolicyVersion, have: ChunkSet) {
        let oldest = self.versions.first_key_value().map(|(v, _)| *v);
        let gone = oldest.is_some_and(|oldest| version < oldest) && !self.versions.contains_key(&version);
        if gone || !have.is_bounded() || !self.children.add(child, version, have) {
            self.outputs.push_back(Output::Decline { child, version });
        }
        self.feed();
    }

    /// Gives every child with credit the next chunk that it lacks.
    fn feed(&mut self) {
        let Self { children, versions, outputs, .. } = self;
        children
            .feed(|version, have| versions.get(&version).and_then(|t| t.have.first_not_in(have)), outputs);
    }
}

/// How long a parent may be silent while chunks of this size are on their way.
fn patience(manifest: &Manifest) -> u64 {
    STALL_MS.max(u64::from(manifest.chunk_bytes) / SLOWEST_BYTES_PER_MS)
}

#[cfg(test)]
mod tests;
