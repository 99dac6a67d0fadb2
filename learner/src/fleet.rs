//! The fleet: who is here, under which version, and who receives snapshots from whom. Sans-IO.
//!
//! Chains follow ECHO-2 §4.2: the learner sends to the head of each of N_ch = max(1, ⌊B0/B̂w⌋)
//! chains, every node passes on to the next. Nodes are ranked by what others measured of them
//! ([`score`]); the best are heads, the others follow by their uplinks. Beside its chain every node
//! has a standby and a few neighbours of a random mesh ([`mesh`]), from which it takes what its
//! chain is slow to bring.
//!
//! Ranks change only between broadcasts: reshuffling in mid-broadcast would leave two halves of the
//! fleet waiting for each other. In mid-broadcast a node that comes is appended, one that goes
//! leaves its child to its parent, and one that fails a neighbour is replaced for that neighbour
//! alone, until several say the same of it ([`trust`]; for corrupt bytes, [`Rotten`]).
//!
//! This folder imports `reputation` (networks and owners) and `common`.
//!
//! [`capacity`] says who of them works, by what they bring and cost. It knows nothing of chains.
//!
//! ```text
//! heartbeats, uplink reports ─> members
//!     ├─ score, trust      what others measured, and what counts of it
//!     ├─ strangers         who has a record, and who is behind
//!     ├─ ranking ─> chains     heads, then everybody by uplink
//!     └─ graph ─> mesh         a standby and a few random neighbours
//! neighbourhood of a node <─ chains + mesh, without peers that served corrupt bytes
//! ```

pub mod capacity;
pub mod chains;
pub mod corrupt_peers;
pub mod graph;
mod member;
pub mod mesh;
pub mod options;
mod ranking;
pub mod score;
mod strangers;
pub mod trust;
mod view;

use crate::reputation::{NetworkPrefix, Owners};
use chains::Chains;
use corrupt_peers::Rotten;
use echo_protocol::control::heartbeat::{ACTIVE_FOR_MS, Heartbeat, LOST_AFTER_MS, UplinkReport};
use echo_protocol::control::requests::Peer;
use echo_protocol::dissemination::DisseminationMode;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::rate::BytesPerSec;
use echo_protocol::wire::time::UnixMillis;
use graph::Graph;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use trust::Accusations;

pub use member::{ForwardingStanding, Member};
pub use ranking::UNKNOWN_UPLINK;
pub use strangers::LAGGARDS;
pub use view::MemberView;

/// Most nodes that a fleet holds; heartbeats of further ones are refused.
pub const MAX_NODES: usize = 100_000;
/// Broadcast times kept for the percentiles.
pub const MAX_BROADCAST_SAMPLES: usize = 4096;
/// Milliseconds that a node which closed its connection has to come back before nobody receives
/// from it any more.
pub const DISCONNECT_GRACE_MS: u64 = 500;
/// Milliseconds without a heartbeat after which one neighbour's word that a node is gone is enough.
pub const DOUBTFUL_AFTER_MS: u64 = 2_500;
/// The same where a second neighbour says so: one heartbeat is missing.
pub const DOUBTED_BY_TWO_AFTER_MS: u64 = 1_500;
/// Heartbeats of a node that come sooner than so many milliseconds after the one before are not
/// heard, unless it has installed another version.
pub const HASTY_MS: u64 = 200;
/// Milliseconds for which a node gets others instead of a neighbour that it lost.
pub const AVOID_MS: u64 = 10_000;
/// Publications whose arrival is still timed.
const MAX_PUBLICATIONS: usize = 64;
/// A report is believed up to this multiple of the per-worker cap: what is faster than all others
/// shows in the words of several, and a cap that is too low grows with every ranking.
const BELIEVED: u64 = 2;

/// What a fleet is told once.
#[derive(Clone, Debug)]
pub struct FleetConfig {
    /// How snapshots are spread.
    pub mode: DisseminationMode,
    /// B0: the source's uplink.
    pub uplink: BytesPerSec,
    /// B̂w: a node's uplink; `None` is the median of those that nodes declared or others measured.
    pub node_uplink: Option<BytesPerSec>,
    /// What counts as one owner, where nodes accuse others.
    pub owners: Owners,
    /// Seed of all draws, such as the mesh's edges; secret, so nobody can choose a place.
    pub seed: [u8; 32],
}

/// All nodes of a run, as the learner sees them.
pub struct Fleet {
    me: Peer,
    config: FleetConfig,
    members: BTreeMap<PublicKey, Member>,
    /// Members by the time of their last heartbeat.
    by_seen: BTreeSet<(UnixMillis, PublicKey)>,
    /// Members that are not silent.
    present: BTreeSet<PublicKey>,
    /// Members whose connection ended, and when.
    disconnected: BTreeMap<PublicKey, UnixMillis>,
    chains: Chains,
    graph: Graph,
    source_places: BTreeSet<PublicKey>,
    accusations: Accusations,
    rotten: Rotten,
    /// How many members have a record of accepted work.
    worked: usize,
    /// Members that are behind, and that the source serves.
    laggards: BTreeSet<PublicKey>,
    publications: VecDeque<(PolicyVersion, UnixMillis)>,
    broadcast_ms: VecDeque<u64>,
    /// Members that have installed the newest publication.
    current: usize,
    /// B̂w at the last ranking.
    cap: BytesPerSec,
    /// What an earlier process knew of nodes that have not come back yet.
    restored: BTreeMap<PublicKey, MemberView>,
    /// When nodes were ranked, and whether something that matters to it has changed since.
    ranked: UnixMillis,
    changed: bool,
}

/// Nobody further can join.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fleet has {MAX_NODES} nodes, which is its limit: ask again later")]
pub struct FleetFull;

impl Fleet {
    /// An empty fleet around the learner `me`.
    pub fn new(me: Peer, config: FleetConfig) -> Self {
        Self {
            me,
            members: BTreeMap::new(),
            by_seen: BTreeSet::new(),
            present: BTreeSet::new(),
            disconnected: BTreeMap::new(),
            chains: Chains::new(1),
            graph: Graph::new(config.seed),
            cap: config.node_uplink.unwrap_or(UNKNOWN_UPLINK),
            config,
            source_places: BTreeSet::new(),
            restored: BTreeMap::new(),
            accusations: Accusations::default(),
            rotten: Rotten::default(),
            worked: 0,
            laggards: BTreeSet::new(),
            publications: VecDeque::new(),
            broadcast_ms: VecDeque::new(),
            current: 0,
            ranked: UnixMillis(0),
            changed: false,
        }
    }

    /// Tells whether a node has a good record, and where it is; to be told before its
    /// heartbeats, of a member. Only while it has one, what it says of rotten neighbours counts
    /// for others than itself.
    pub fn weigh(&mut self, node: &PublicKey, known: bool, network: Option<NetworkPrefix>) {
        let owner = known.then(|| self.config.owners.owner(*node, network));
        if let Some(member) = self.members.get_mut(node) {
            member.owner = owner;
        }
    }

    /// Takes in a heartbeat. A node that is new, or back after a silence, gets a place.
    ///
    /// # Errors
    /// [`FleetFull`], for a node that is not in the fleet yet.
    pub fn heartbeat(
        &mut self,
        now: UnixMillis,
        node: PublicKey,
        heartbeat: Heartbeat,
    ) -> Result<(), FleetFull> {
        let heartbeat = heartbeat.checked();
        self.disconnected.remove(&node);
        match self.members.get(&node) {
            Some(member) if self.is_hasty(now, &node, member, &heartbeat) => return Ok(()),
            Some(_) => {}
            None if self.members.len() >= MAX_NODES => return Err(FleetFull),
            None => self.admit(now, node, &heartbeat),
        }
        self.note_installation(now, &node, heartbeat.installed);
        self.take_in(now, &node, &heartbeat.uplinks);
        let Some(member) = self.members.get_mut(&node) else { return Ok(()) };
        self.by_seen.remove(&(member.seen, node));
        self.by_seen.insert((now, node));
        if member.take(now, heartbeat) {
            // Some of its edges may be impossible now.
            self.displace(&node);
        }
        self.place(&node);
        Ok(())
    }

    /// Makes a stranger a member. Accusations survive an absence.
    fn admit(&mut self, now: UnixMillis, node: PublicKey, heartbeat: &Heartbeat) {
        let (reach, relays) = (heartbeat.reach, heartbeat.relays);
        let mut member = Member::new(Heartbeat { reach, relays, ..Heartbeat::default() }, now);
        if let Some(known) = self.restored.remove(&node) {
            (member.record, member.standing) = (known.record, known.standing);
        }
        if self.rotten.condemns(&node) {
            member.standing = ForwardingStanding::Banned;
        } else if self.rotten.accuses(now, &node) {
            member.standing = ForwardingStanding::Out(now);
        }
        self.members.insert(node, member);
    }

    fn is_hasty(&self, now: UnixMillis, node: &PublicKey, member: &Member, heartbeat: &Heartbeat) -> bool {
        let soon = now >= member.seen && now.since(member.seen) < HASTY_MS;
        soon && self.present.contains(node) && heartbeat.installed == member.heartbeat.installed
    }

    fn note_installation(&mut self, now: UnixMillis, node: &PublicKey, installed: Option<PolicyVersion>) {
        let newest = self.publications.back().map(|(version, _)| *version);
        let Some(member) = self.members.get_mut(node) else { return };
        let before = member.heartbeat.installed;
        if installed == before {
            return;
        }
        member.installed_at = installed.map(|_| now);
        let is_newest = |version: Option<PolicyVersion>| usize::from(version.is_some() && version == newest);
        self.current = self.current + is_newest(installed) - is_newest(before);
        let published = self.publications.iter().find(|(version, _)| Some(*version) == installed);
        // Strangers would say that broadcasts take long, and nobody would count as behind.
        let counts = installed > before && (member.worked || self.worked == 0);
        if let (true, Some((_, at))) = (counts, published) {
            self.broadcast_ms.push_back(now.since(*at));
            if self.broadcast_ms.len() > MAX_BROADCAST_SAMPLES {
                self.broadcast_ms.pop_front();
            }
        }
    }

    /// Believes a node about those that it was told to receive from, and about nobody else. What a free
    /// key says counts for that key alone, once others have a record.
    fn take_in(&mut self, now: UnixMillis, node: &PublicKey, reports: &[UplinkReport]) {
        let Some(member) = self.members.get(node) else { return };
        let counts = self.is_trusted(member);
        let upstreams: Vec<PublicKey> =
            self.upstreams(now, node, member).into_iter().map(|(key, _)| key).collect();
        let before = member.heartbeat.uplinks.clone();
        let elapsed = now.since(member.seen).min(ACTIVE_FOR_MS);
        let believed = self.cap.0.saturating_mul(BELIEVED).saturating_mul(elapsed) / 1_000;
        let mut benefactor = None;
        for report in reports {
            let known =
                upstreams.contains(&report.peer) || member_avoids(&self.members, node, &report.peer, now);
            if !known || report.peer == self.me.key {
                continue;
            }
            let old = before.iter().find(|old| old.peer == report.peer && old.bytes <= report.bytes);
            let (bytes, failed) = old.map_or((0, 0), |old| (old.bytes, old.failed));
            if let Some(peer) = self.members.get_mut(&report.peer) {
                let gained = report.bytes.saturating_sub(bytes).min(believed);
                if gained > 0 {
                    benefactor = Some(report.peer);
                    if counts {
                        peer.record.delivered(now, gained, report.bytes_per_s);
                    }
                }
                if report.failed > failed && counts {
                    peer.record.failed(now, *node);
                }
            }
            if report.rotten {
                self.rotten(now, node, &report.peer);
            }
        }
        if let Some(member) = self.members.get_mut(node) {
            member.benefactor = benefactor.or(member.benefactor);
        }
    }

    /// Takes a node's word that a neighbour served rotten bytes. It never gets that neighbour
    /// again; others go on with it until several owners say the same, and then wait for it no more.
    fn rotten(&mut self, now: UnixMillis, reporter: &PublicKey, peer: &PublicKey) {
        let Some(member) = self.members.get_mut(reporter) else { return };
        member.avoid(*peer, UnixMillis(u64::MAX));
        let owner = member.owner;
        if self.rotten.add(now, *reporter, owner, *peer) {
            self.put_out(now, peer);
        }
    }

    /// Notes that a node broke the chunk protocol towards the learner itself: nobody receives
    /// from it any more.
    pub fn cut_off(&mut self, node: &PublicKey) {
        self.rotten.met(*node);
        if let Some(member) = self.members.get_mut(node)
            && member.standing != ForwardingStanding::Banned
        {
            member.standing = ForwardingStanding::Banned;
            self.displace(node);
        }
    }

    /// Holds nothing against a node any more, as the operator has decided. Who met rot of it
    /// goes on without it.
    pub fn pardon(&mut self, node: &PublicKey) {
        self.rotten.forgive(node);
        if let Some(known) = self.restored.get_mut(node) {
            known.standing = ForwardingStanding::default();
        }
        if let Some(member) = self.members.get_mut(node) {
            member.standing = ForwardingStanding::default();
            if self.present.contains(node) {
                self.place(node);
            }
        }
    }

    /// Takes a node's word that neighbours are gone. It gets others at once. For everybody else it depends on
    /// how many say so, and on whether the learner hears those neighbours itself. Of a neighbour that is
    /// heard, only nodes with a record may say so, once there are any: sixty free keys would move all of a
    /// fleet out of its chains.
    pub fn lost(&mut self, now: UnixMillis, node: &PublicKey, lost: &[PublicKey]) {
        let Some(member) = self.members.get(node) else { return };
        let counts = self.is_trusted(member);
        let mut named: Vec<PublicKey> =
            self.upstreams(now, node, member).into_iter().map(|(key, _)| key).collect();
        named.retain(|key| *key != self.me.key && lost.contains(key));
        for peer in named {
            let Some(member) = self.members.get_mut(node) else { return };
            if !member.reports.one_more(now) {
                return;
            }
            member.avoid(peer, now.plus(AVOID_MS));
            let Some(accused) = self.members.get_mut(&peer) else { continue };
            let silence = now.since(accused.seen);
            let word = counts.then(|| {
                accused.record.failed(now, *node);
                self.accusations.add(now, *node, peer)
            });
            let by_two = word.as_ref().is_some_and(|word| word.accusers >= 2);
            if silence > DOUBTFUL_AFTER_MS || by_two && silence > DOUBTED_BY_TWO_AFTER_MS {
                self.silence(&peer);
            } else if word.is_some_and(|word| word.makes_quorum()) {
                self.degrade(now, &peer);
            }
        }
    }

    /// Notes that the last connection with a node ended. It has [`DISCONNECT_GRACE_MS`] to come back.
    pub fn disconnected(&mut self, now: UnixMillis, node: &PublicKey) {
        if self.present.contains(node) {
            self.disconnected.insert(*node, now);
        }
    }

    /// Looks for nodes that are silent or have gone, and ranks the others when it is time to.
    /// Returns those that are members no more.
    pub fn expire(&mut self, now: UnixMillis) -> Vec<PublicKey> {
        let (mut gone, mut silent) = (Vec::new(), Vec::new());
        self.disconnected.retain(|node, at| {
            let is_over = now.since(*at) > DISCONNECT_GRACE_MS;
            if is_over {
                silent.push(*node);
            }
            !is_over
        });
        for (seen, node) in &self.by_seen {
            match now.since(*seen) {
                silence if silence > ACTIVE_FOR_MS => gone.push(*node),
                silence if silence > LOST_AFTER_MS => silent.push(*node),
                _ => break,
            }
        }
        silent.iter().for_each(|node| self.silence(node));
        gone.iter().for_each(|node| self.forget(node));
        self.rank_if_due(now);
        self.note_laggards(now);
        gone
    }

    /// Notes when a version went out.
    pub fn published(&mut self, now: UnixMillis, version: PolicyVersion) {
        // The broadcast before is over, whether or not everybody has it.
        if self.changed {
            self.rank(now);
        }
        self.publications.push_back((version, now));
        if self.publications.len() > MAX_PUBLICATIONS {
            self.publications.pop_front();
        }
        self.current = self.members.values().filter(|m| m.heartbeat.installed == Some(version)).count();
    }

    /// Gives a node that is not silent its place in chains and mesh, if it has none.
    fn place(&mut self, node: &PublicKey) {
        let Some(member) = self.members.get(node) else { return };
        let (serves, forwards) = (self.serves(member), self.forwards(member));
        let mut changed = self.present.insert(*node);
        if serves != self.graph.contains(node) || forwards != self.chains.contains(node) {
            changed = true;
            let members = &self.members;
            let linked = |a: &PublicKey, b: &PublicKey| linked(members, a, b);
            match serves {
                true => self.graph.join(*node, linked),
                false => self.graph.leave(node, linked),
            }
            match forwards {
                true => self.chains.join(*node),
                false => self.chains.leave(node),
            }
        }
        if changed {
            self.changed = true;
            self.place_at_source();
        }
    }

    /// Takes a node out of chains and mesh.
    fn displace(&mut self, node: &PublicKey) {
        let members = &self.members;
        self.graph.leave(node, |a, b| linked(members, a, b));
        self.chains.leave(node);
        self.changed = true;
        self.place_at_source();
    }

    /// Nobody receives from a silent node.
    fn silence(&mut self, node: &PublicKey) {
        if self.present.remove(node) {
            self.displace(node);
        }
    }

    fn forget(&mut self, node: &PublicKey) {
        self.silence(node);
        self.disconnected.remove(node);
        let Some(member) = self.members.remove(node) else { return };
        self.by_seen.remove(&(member.seen, *node));
        let newest = self.publications.back().map(|(version, _)| *version);
        self.current -= usize::from(newest.is_some() && member.heartbeat.installed == newest);
        self.forget_work(&member);
    }

    /// The members by key: nodes whose heartbeats come.
    pub fn members(&self) -> &BTreeMap<PublicKey, Member> {
        &self.members
    }

    /// The forwarding chains as they stand now.
    pub fn chains(&self) -> &Chains {
        &self.chains
    }

    /// Nodes that were reported to serve bytes which do not match their names, and by how many.
    pub fn rotten_peers(&self) -> impl Iterator<Item = (PublicKey, usize)> {
        self.rotten.peers()
    }

    /// The p-th percentile (0 to 1) of the time from a publication to its installation on a
    /// node, in milliseconds: T_bcast.
    pub fn broadcast_ms(&self, p: f64) -> Option<u64> {
        let mut sorted: Vec<u64> = self.broadcast_ms.iter().copied().collect();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        sorted.get((p.clamp(0.0, 1.0) * last as f64).round() as usize).copied()
    }
}

fn linked(members: &BTreeMap<PublicKey, Member>, a: &PublicKey, b: &PublicKey) -> bool {
    let reach = |key| members.get(key).map(|member: &Member| member.heartbeat.reach).unwrap_or_default();
    reach(a).links(reach(b))
}

fn member_avoids(
    members: &BTreeMap<PublicKey, Member>,
    node: &PublicKey,
    peer: &PublicKey,
    now: UnixMillis,
) -> bool {
    members.get(node).is_some_and(|member| member.avoids(peer, now))
}

#[cfg(test)]
mod tests;
