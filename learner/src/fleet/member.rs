//! What is known of one node.

use super::score::ForwardingRecord;
use super::trust::ReportCount;
use crate::reputation::Owner;
use echo_protocol::control::heartbeat::{Heartbeat, Reach};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::rate::BytesPerSec;
use echo_protocol::wire::time::UnixMillis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Neighbours that a node does not want back for a while, at most; the one that is longest avoided
/// is taken back to make room.
const MAX_AVOIDED: usize = 24;

/// Milliseconds in which a node may change its mind once about whether it forwards and can be
/// reached: others move for it.
pub(super) const SETTLED_MS: u64 = 10_000;

/// A member of the fleet.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its last heartbeat, as it was sent.
    pub heartbeat: Heartbeat,
    /// When that heartbeat came, on the learner's clock.
    pub seen: UnixMillis,
    /// When it first told of the version that it has installed.
    pub installed_at: Option<UnixMillis>,
    /// How it forwards, by what others say.
    pub record: ForwardingRecord,
    /// Whether others wait for it.
    pub standing: ForwardingStanding,
    /// What it says of others.
    pub(super) reports: ReportCount,
    /// Whose its word is where it counts for others; `None` while its record is not good enough.
    pub(super) owner: Option<Owner>,
    /// Whether it has a record of accepted work.
    pub(super) worked: bool,
    /// When it came.
    pub(super) since: UnixMillis,
    /// The neighbour that last brought it something, by its own word.
    pub(super) benefactor: Option<PublicKey>,
    /// Those that failed it, and until when it gets others instead.
    avoided: BTreeMap<PublicKey, UnixMillis>,
    /// When it last changed whether it forwards or can be reached; `None` while it is as it came.
    moved: Option<UnixMillis>,
}

/// Whether others wait for a node's forwarding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForwardingStanding {
    /// It has its place by rank.
    #[default]
    Forwards,
    /// It was slow or failed: it comes after all others.
    Tail,
    /// It was so again, or several owners say that it serves rotten bytes: it stands in no chain,
    /// and goes on generating. Since when.
    Out(UnixMillis),
    /// It broke the chunk protocol towards the learner itself: nobody receives from it.
    Banned,
}

impl ForwardingStanding {
    /// The name of a standing that is worse than the ordinary one.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Forwards => None,
            Self::Tail => Some("tail"),
            Self::Out(_) => Some("out"),
            Self::Banned => Some("banned"),
        }
    }
}

impl Member {
    /// A node that sends its first heartbeat.
    pub(crate) fn new(heartbeat: Heartbeat, now: UnixMillis) -> Self {
        Self {
            installed_at: heartbeat.installed.map(|_| now),
            heartbeat,
            seen: now,
            record: ForwardingRecord::default(),
            standing: ForwardingStanding::default(),
            reports: ReportCount::default(),
            owner: None,
            worked: false,
            since: now,
            benefactor: None,
            avoided: BTreeMap::new(),
            moved: None,
        }
    }

    /// Takes a heartbeat in, but for changes that come too soon; true when others can no longer, or
    /// can now, connect to it.
    pub(super) fn take(&mut self, now: UnixMillis, mut heartbeat: Heartbeat) -> bool {
        // Who finds out that it is public can do what it could before.
        let private = |heartbeat: &Heartbeat| heartbeat.reach == Reach::Private;
        let place = |heartbeat: &Heartbeat| (private(heartbeat), heartbeat.relays);
        if place(&heartbeat) != place(&self.heartbeat) {
            if self.moved.is_some_and(|at| now.since(at) < SETTLED_MS) {
                (heartbeat.reach, heartbeat.relays) = (self.heartbeat.reach, self.heartbeat.relays);
            } else {
                self.moved = Some(now);
            }
        }
        let moved = private(&heartbeat) != private(&self.heartbeat);
        (self.seen, self.heartbeat) = (now, heartbeat);
        moved
    }

    /// Whether it offers to serve others, and may.
    pub(super) fn serves(&self) -> bool {
        self.heartbeat.relays && self.standing != ForwardingStanding::Banned
    }

    /// Whether it may stand in a chain.
    pub(super) fn forwards(&self) -> bool {
        self.serves() && !matches!(self.standing, ForwardingStanding::Out(_))
    }

    /// Its uplink: the most that was seen of it, or the cap that its owner set where that is less.
    /// Before anything was seen, what its owner says, `cap` at most; `None` where nothing is known.
    pub fn uplink(&self, cap: BytesPerSec) -> Option<BytesPerSec> {
        let believed = self.record.peak().unwrap_or(cap);
        match self.heartbeat.max_upload {
            Some(declared) => Some(declared.min(believed)),
            None => self.record.peak(),
        }
    }

    /// Gives it others instead of `peer` until an instant.
    pub(super) fn avoid(&mut self, peer: PublicKey, until: UnixMillis) {
        let until = self.avoided.get(&peer).map_or(until, |old| until.max(*old));
        self.avoided.insert(peer, until);
        while self.avoided.len() > MAX_AVOIDED {
            let soonest = self.avoided.iter().min_by_key(|(_, until)| **until).map(|(peer, _)| *peer);
            soonest.map(|peer| self.avoided.remove(&peer));
        }
    }

    /// Whether it gets others instead of `peer`.
    pub(super) fn avoids(&self, peer: &PublicKey, now: UnixMillis) -> bool {
        self.avoided.get(peer).is_some_and(|until| *until > now)
    }
}
