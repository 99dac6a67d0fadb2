//! Who stands where, decided between broadcasts.

use super::chains::{Chains, chain_count};
use super::member::{ForwardingStanding, Member};
use super::{Fleet, linked};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::rate::BytesPerSec;
use echo_protocol::wire::time::UnixMillis;
use std::cmp::Reverse;

/// Least milliseconds between two rankings.
const RANK_EVERY_MS: u64 = 2_000;
/// B̂w while nothing is known of any node's uplink: 100 Mbit/s, the paper's cap.
pub const UNKNOWN_UPLINK: BytesPerSec = BytesPerSec(12_500_000);
/// A node is slow at less than this share of the median speed.
const SLOW: f64 = 0.5;
/// Milliseconds after which a node that was taken out of the forwarding role is tried again, at the tail.
const TRY_AGAIN_MS: u64 = 600_000;

impl Fleet {
    /// Ranks nodes when no broadcast is under way and something has changed.
    pub(super) fn rank_if_due(&mut self, now: UnixMillis) {
        let idle = self.publications.is_empty() || self.current >= self.present.len();
        if idle && self.changed && now.since(self.ranked) >= RANK_EVERY_MS {
            self.rank(now);
        }
    }

    /// Builds the chains anew: the best N_ch are heads, the others follow by uplink,
    /// the degraded after them.
    pub(super) fn rank(&mut self, now: UnixMillis) {
        (self.ranked, self.changed) = (now, false);
        self.review(now);
        let cap = self.node_uplink();
        self.cap = cap;
        let count = chain_count(self.config.uplink, cap);
        let standing: Vec<(PublicKey, &Member)> = self
            .present
            .iter()
            .filter_map(|node| Some((*node, self.members.get(node)?)))
            .filter(|(_, member)| self.forwards(member))
            .collect();
        let (good, mut tail): (Vec<_>, Vec<_>) =
            standing.into_iter().partition(|(_, member)| member.standing == ForwardingStanding::Forwards);
        // Equals are told apart by lot.
        let rank = |node: &PublicKey, member: &Member| {
            (Reverse(self.uplink_for_rank(member, cap)), self.lot(node, 0))
        };
        // A lot is a hash: it is drawn once for each node, and not at each comparison.
        let good = good.into_iter();
        let mut heads: Vec<_> =
            good.map(|(node, member)| (member.record.score(now, cap), rank(&node, member), node)).collect();
        heads.sort_by(|(a, x, _), (b, y, _)| b.total_cmp(a).then_with(|| x.cmp(y)));
        let mut rest = heads.split_off(count.min(heads.len()));
        rest.sort_by_key(|(_, x, _)| *x);
        tail.sort_by_cached_key(|(node, member)| rank(node, member));
        let good = heads.into_iter().chain(rest).map(|(_, _, node)| node);
        let ranked = good.chain(tail.into_iter().map(|(node, _)| node));
        self.chains = Chains::of(count, ranked, |a, b| linked(&self.members, a, b));
        self.place_at_source();
    }

    /// B̂w: what the run file says, else the median of the nodes' uplinks. Once some have a record, it is
    /// theirs: with a claim of one byte a second, free keys would make every node the head of a chain.
    pub fn node_uplink(&self) -> BytesPerSec {
        if let Some(uplink) = self.config.node_uplink {
            return uplink;
        }
        let members = self.present.iter().filter_map(|node| self.members.get(node));
        let trusted = members.filter(|member| self.is_trusted(member));
        let uplinks: Vec<BytesPerSec> = trusted.filter_map(|member| member.uplink(UNKNOWN_UPLINK)).collect();
        median(uplinks).unwrap_or(UNKNOWN_UPLINK)
    }

    /// Moves nodes that were slow or failed one step away from the front, those that were not one
    /// step back, and those of whom several owners say that they are rotten out.
    fn review(&mut self, now: UnixMillis) {
        let speeds = self.present.iter().filter_map(|node| self.members.get(node)?.record.speed());
        let typical = median(speeds.map(|speed| speed as u64).collect());
        let accused = self.rotten.accused(now);
        for node in &self.present {
            let Some(member) = self.members.get_mut(node) else { continue };
            let slow = |speed: f64| typical.is_some_and(|typical| speed < SLOW * typical as f64);
            let degraded = member.record.is_failing() || member.record.speed().is_some_and(slow);
            let accused = accused.contains(node);
            member.standing = match member.standing {
                ForwardingStanding::Forwards | ForwardingStanding::Tail if accused => {
                    ForwardingStanding::Out(now)
                }
                ForwardingStanding::Forwards if degraded => ForwardingStanding::Tail,
                ForwardingStanding::Tail if degraded => ForwardingStanding::Out(now),
                ForwardingStanding::Tail => ForwardingStanding::Forwards,
                ForwardingStanding::Out(since) if !accused && now.since(since) >= TRY_AGAIN_MS => {
                    ForwardingStanding::Tail
                }
                standing => standing,
            };
        }
    }

    /// Moves a node one step away from the front at once, because several said that it fails them.
    pub(super) fn degrade(&mut self, now: UnixMillis, node: &PublicKey) {
        let Some(member) = self.members.get_mut(node) else { return };
        member.standing = match member.standing {
            ForwardingStanding::Forwards => ForwardingStanding::Tail,
            ForwardingStanding::Tail => ForwardingStanding::Out(now),
            standing => standing,
        };
        self.chains.leave(node);
        self.place(node);
        self.place_at_source();
    }

    /// Takes a node out of all chains at once, because several owners say that it serves rotten bytes.
    pub(super) fn put_out(&mut self, now: UnixMillis, node: &PublicKey) {
        let Some(member) = self.members.get_mut(node) else { return };
        if let ForwardingStanding::Forwards | ForwardingStanding::Tail = member.standing {
            member.standing = ForwardingStanding::Out(now);
            self.chains.leave(node);
            self.place_at_source();
            self.changed = true;
        }
    }
}

/// The middle value, the lower one of two.
fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    let middle = values.len().checked_sub(1)? / 2;
    values.sort_unstable();
    values.get(middle).copied()
}
