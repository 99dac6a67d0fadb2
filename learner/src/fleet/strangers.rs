//! Who is trusted to serve others, and whom the learner serves itself.
//!
//! A key costs nothing, and neither does a claim of a fast uplink. As soon as some members have a record of
//! accepted work, only they serve others: a relay that takes everything and passes nothing on would cut off
//! all that receive from it. A node that falls behind all the same gets the learner itself for a while.

use std::collections::BTreeSet;

use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::rate::BytesPerSec;
use echo_protocol::wire::time::UnixMillis;

use super::Fleet;
use super::member::Member;

/// Nodes that are behind and that the learner serves beside those with a place at it.
pub const LAGGARDS: usize = 8;
/// A node is behind when it has missed a version for so many milliseconds, and three times as long as nodes
/// mostly need.
const LATE_MS: u64 = 10_000;
/// The same for a newcomer, which can do nothing until it has a policy. Where versions come faster than the
/// others, whose uplinks carry their own work, pass them on, it would get none.
const NEW_LATE_MS: u64 = 3_000;
/// How many times as long as nodes mostly need.
const LATE_TIMES: u64 = 3;
/// Milliseconds for which the learner serves the same ones, where more are behind than it can serve.
const TURN_MS: u64 = 60_000;

impl Fleet {
    /// Tells whether a member has a record of accepted work. While any has, no other serves.
    pub fn has_worked(&mut self, node: &PublicKey, worked: bool) {
        let Some(member) = self.members.get_mut(node) else { return };
        if member.worked == worked {
            return;
        }
        member.worked = worked;
        let before = self.worked;
        self.worked = if worked { before + 1 } else { before.saturating_sub(1) };
        if (before == 0) == (self.worked == 0) {
            self.place_again([*node]);
        } else {
            self.place_everybody();
        }
    }

    /// Notes that a member with a record, or without, has gone.
    pub(super) fn forget_work(&mut self, member: &Member) {
        self.worked -= usize::from(member.worked);
        if member.worked && self.worked == 0 {
            self.place_everybody();
        }
    }

    /// Members with a record of accepted work.
    pub fn with_a_record(&self) -> impl Iterator<Item = &PublicKey> {
        self.members.iter().filter(|(_, member)| member.worked).map(|(node, _)| node)
    }

    fn place_everybody(&mut self) {
        self.place_again(self.present.clone());
    }

    fn place_again(&mut self, nodes: impl IntoIterator<Item = PublicKey>) {
        for node in nodes {
            if self.present.contains(&node) {
                self.place(&node);
            }
        }
    }

    /// Whether what a member says of itself and of others counts, beyond what it receives itself.
    pub(super) fn is_trusted(&self, member: &Member) -> bool {
        member.worked || self.worked == 0
    }

    /// Whether a member serves others.
    pub(super) fn serves(&self, member: &Member) -> bool {
        member.serves() && self.is_trusted(member)
    }

    /// Whether a member may stand in a chain.
    pub(super) fn forwards(&self, member: &Member) -> bool {
        member.forwards() && self.is_trusted(member)
    }

    /// The uplink by which members are told apart. Where nobody has a record, what they claim does not count.
    pub(super) fn uplink_for_rank(&self, member: &Member, cap: BytesPerSec) -> BytesPerSec {
        let seen = || member.record.peak().unwrap_or(BytesPerSec(0));
        if self.worked > 0 { member.uplink(cap).unwrap_or(cap) } else { seen() }
    }

    /// A number of a node that nobody outside can know, so that no key is made to be the first of equals.
    pub(super) fn lot(&self, node: &PublicKey, turn: u64) -> [u8; 32] {
        let drawn = [&self.config.seed[..], node.as_bytes(), &turn.to_le_bytes()].concat();
        *ContentId::of(&drawn).as_bytes()
    }

    /// The neighbour that last brought a node something, if it still may.
    pub(super) fn benefactor(&self, member: &Member) -> Option<PublicKey> {
        let key = member.benefactor.filter(|key| self.present.contains(key))?;
        self.members.get(&key).is_some_and(Member::serves).then_some(key)
    }

    /// Finds out anew which nodes are behind: those with a record first, and others by lot.
    pub(super) fn note_laggards(&mut self, now: UnixMillis) {
        let usual_ms = self.broadcast_ms(0.5).map(|broadcast_ms| LATE_TIMES * broadcast_ms);
        let is_late = |member: &Member| {
            // At the start of a run all are newcomers, and the first broadcast may take long.
            let is_new = member.heartbeat.installed.is_none() && usual_ms.is_some();
            let patience_ms = usual_ms.unwrap_or(0).max(if is_new { NEW_LATE_MS } else { LATE_MS });
            let missed =
                self.publications.iter().find(|(version, _)| Some(*version) > member.heartbeat.installed);
            missed.is_some_and(|(_, at)| now.since((*at).max(member.since)) > patience_ms)
        };
        let (mut with_a_record, mut strangers) = (Vec::new(), Vec::new());
        for node in &self.present {
            match self.members.get(node).filter(|member| is_late(member)) {
                Some(member) if member.worked => with_a_record.push(*node),
                Some(_) => strangers.push(*node),
                None => {}
            }
        }
        let mut laggards = self.drawn(with_a_record, LAGGARDS, now);
        laggards.extend(self.drawn(strangers, LAGGARDS - laggards.len(), now));
        self.laggards = laggards.into_iter().collect();
    }

    /// At most so many of these nodes, by lot. A lot is a hash, and there may be many strangers: none is
    /// drawn where there is no place.
    fn drawn(&self, mut nodes: Vec<PublicKey>, most: usize, now: UnixMillis) -> Vec<PublicKey> {
        if most > 0 && nodes.len() > most {
            nodes.sort_by_cached_key(|node| self.lot(node, now.0 / TURN_MS));
        }
        nodes.truncate(most);
        nodes
    }

    /// Those that are behind and that the learner serves.
    pub fn laggards(&self) -> &BTreeSet<PublicKey> {
        &self.laggards
    }
}

#[cfg(test)]
mod tests;
