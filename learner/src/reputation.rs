//! The record: what every peer has delivered, what it lied about, and whether it is still heard.
//!
//! A plain state machine: no clock, no files. A **lie** is what no honest node can come to send,
//! whatever the network, its disk or our restarts do to it ([`Fault`]); everything else is counted
//! and never held against anybody. Lies add up and fade with a half-life. Too many within it
//! **suspend** their key; each suspension is twice as long as the one before, and the last is a
//! **ban**, until the operator pardons. Keys cost nothing, addresses do: when several keys of one
//! network ([`NetworkPrefix`]) were suspended, newcomers from there are not heard for a while either.
//! Keys with a record of their own are, and no network is ever banned but by the operator.
//!
//! What was accepted lowers the share of a peer's groups that is looked at again
//! ([`Record::recheck_share`]), down to a floor above 0. The same goes for verdicts that verifiers
//! give on the groups of others ([`Record::spot_check_share`]); a false verdict is a lie.
//!
//! Near misses of races ([`NearMisses`]) add up over all that is looked at of a peer's groups. Who
//! stays within the tolerance of each group by itself, and chooses all the same, is found by it. Those of
//! the newcomers of a network add up together as well, so that fresh keys of one network gain nothing.
//!
//! Memory is bounded by [`MAX_PEERS`]: those are forgotten first who have done nothing of use, and
//! a ban is forgotten last. So neither who works nor who was suspended is forgotten because many
//! strangers come, whether they lie or not: as much would have to be accepted of them.
//!
//! This folder imports `storage` and `common`. Intake, verification, fleet and server ask it.
//!
//! ```text
//! group accepted, refused or found false ─> record
//!     ├─ fault      lie or innocent
//!     ├─ peer       credit, suspicion, suspensions of one key ─> recheck share, silence
//!     ├─ network    newcomers of a network whose keys lied
//!     ├─ newcomers  near misses of a network's newcomers
//!     └─ journal    durable with the group's own write
//! operator ─> decisions (peers.journal) ─> record ─> listing (peers.json) ─> operator
//! ```

mod decay;
pub mod decisions;
mod fault;
mod journal;
pub mod listing;
pub mod network;
mod newcomers;
pub mod options;
pub mod owner;
mod peer;
mod silence;
mod snapshot;
mod standing;

use std::collections::{BTreeMap, BTreeSet};

use echo_policy::audit::NearMisses;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::submission::RefuseReason;
use newcomers::Newcomers;
use serde::{Deserialize, Serialize};

pub use fault::Fault;
pub use journal::{RECEIPTS_KEPT, RecordJournal};
pub use network::{LIARS_WITHIN_MS, NETWORK_LIARS, NetworkPrefix, NetworkRecord};
pub use newcomers::Alarm;
pub use owner::{Owner, Owners};
pub use peer::{PROBATION, PeerRecord};
pub use silence::{Silence, date};
pub use snapshot::{MAX_SNAPSHOT_PEERS, RecordSnapshot};
pub use standing::Standing;

/// Most peers that are remembered.
pub const MAX_PEERS: usize = 1 << 16;
/// Most networks that are remembered: those from which somebody was suspended.
pub const MAX_NETWORKS: usize = 1 << 14;
/// Most peers whose network is known because they are connected.
pub const MAX_CONNECTED: usize = 1 << 14;
/// The longest suspension, in milliseconds: 30 days.
pub const MAX_SUSPENSION_MS: u64 = 30 * DAY_MS;
/// A suspension no longer counts towards a ban after this time without another one: 30 days.
pub const STRIKES_LAST_MS: u64 = 30 * DAY_MS;
/// Longest reason of an operator, in bytes.
pub const MAX_REASON_BYTES: usize = 120;

const DAY_MS: u64 = 24 * 3_600 * 1_000;

/// How strict a record is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordConfig {
    /// The time in which a lie comes to count half, in milliseconds.
    pub half_life_ms: u64,
    /// Lies that suspend a key; 0: none do, lies are only counted.
    pub suspend_after: u32,
    /// The first suspension, in milliseconds.
    pub suspension_ms: u64,
    /// Suspensions of which the last is a ban; 0: nobody is banned but by the operator.
    pub ban_after: u32,
    /// The smallest share of a peer's groups that is looked at again, above 0.
    pub recheck_floor: f64,
}

impl Default for RecordConfig {
    /// Five lies within about a day suspend for ten minutes, the fourth suspension is a ban, and
    /// one group in twenty is always looked at again.
    fn default() -> Self {
        Self {
            half_life_ms: DAY_MS,
            suspend_after: 5,
            suspension_ms: 600_000,
            ban_after: 4,
            recheck_floor: 0.05,
        }
    }
}

/// Whom the operator decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// One key, wherever it connects from.
    Peer(PublicKey),
    /// All keys of a network, those with a good record too.
    Network(NetworkPrefix),
}

/// What the operator decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Not heard any more, for this reason.
    Ban(String),
    /// Heard again, and nothing is held against it. It is looked at as closely as a newcomer.
    Pardon,
}

/// The record of a run.
#[derive(Clone, Debug)]
pub struct Record {
    config: RecordConfig,
    peers: BTreeMap<PublicKey, PeerRecord>,
    /// Peers in the order in which they are forgotten.
    worth: BTreeSet<(peer::Worth, UnixMillis, PublicKey)>,
    networks: BTreeMap<NetworkPrefix, NetworkRecord>,
    newcomers: Newcomers,
    /// Where the peers are that are connected now.
    connected: BTreeMap<PublicKey, NetworkPrefix>,
    /// Bytes of the operator's journal that were followed.
    decided: u64,
    changes: Changes,
    /// Counts changes, in this process.
    revision: u64,
    /// The learner's memory has a gap, so leases and versions that it does not know are held against nobody.
    forgetful: bool,
}

/// What has to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Changes {
    /// Keys whose records have changed, or were forgotten.
    peers: BTreeSet<PublicKey>,
    networks: BTreeSet<NetworkPrefix>,
    decided: bool,
    /// Somebody's standing has changed: that is not to be lost.
    urgent: bool,
}

impl Record {
    /// A record that knows nobody; `config` says how strict it is.
    pub fn new(config: RecordConfig) -> Self {
        Self {
            config,
            peers: BTreeMap::new(),
            worth: BTreeSet::new(),
            networks: BTreeMap::new(),
            newcomers: Newcomers::default(),
            connected: BTreeMap::new(),
            decided: 0,
            changes: Changes::default(),
            revision: 0,
            forgetful: false,
        }
    }

    /// Says that a part of what the learner once knew is lost.
    pub fn forgot(&mut self) {
        self.forgetful = true;
    }

    /// Notes from where a peer is connected.
    pub fn connected(&mut self, peer: PublicKey, network: Option<NetworkPrefix>) {
        match network {
            Some(network) => self.connected.insert(peer, network),
            None => self.connected.remove(&peer),
        };
        if self.connected.len() > MAX_CONNECTED {
            self.connected.pop_first();
        }
    }

    /// Notes that it is not any more.
    pub fn disconnected(&mut self, peer: &PublicKey) {
        self.connected.remove(peer);
    }

    /// Whether a peer is heard.
    ///
    /// # Errors
    /// Why it is not.
    pub fn hear(&self, now: UnixMillis, peer: &PublicKey) -> Result<(), Silence> {
        let record = self.peers.get(peer);
        if let Some(silence) = record.and_then(|record| record.silence(now)) {
            return Err(silence);
        }
        let Some(network) = self.network(peer) else { return Ok(()) };
        let Some(fallen) = self.networks.get(&network) else { return Ok(()) };
        match fallen.silence(now, network) {
            Some(silence) if silence.until.is_none() && !record.is_some_and(PeerRecord::is_vouched_for) => {
                Err(silence)
            }
            Some(silence) if silence.until.is_some() && !record.is_some_and(PeerRecord::is_known) => {
                Err(silence)
            }
            _ => Ok(()),
        }
    }

    /// Whether a peer has delivered enough without a lie, or was pardoned.
    pub fn is_known(&self, peer: &PublicKey) -> bool {
        self.peers.get(peer).is_some_and(PeerRecord::is_known)
    }

    /// Whether a verdict of a peer on the group of another one was found right lately, and none false since.
    pub fn has_judged(&self, now: UnixMillis, peer: &PublicKey) -> bool {
        // One is left half after a week.
        self.peers.get(peer).is_some_and(|record| record.judgement(now) >= 0.5)
    }

    /// Where a peer is connected, or was last.
    pub fn network(&self, peer: &PublicKey) -> Option<NetworkPrefix> {
        let before = || self.peers.get(peer).and_then(|record| record.network);
        self.connected.get(peer).copied().or_else(before)
    }

    /// Notes an accepted group, and returns the number of its receipt.
    pub fn accepted(&mut self, now: UnixMillis, peer: PublicKey) -> u64 {
        self.change(now, peer, |record, _| record.accept(now))
    }

    /// Notes a refused group. True if the peer is not heard from now on.
    pub fn refused(&mut self, now: UnixMillis, peer: PublicKey, reason: RefuseReason, fault: Fault) -> bool {
        let unknowable = matches!(reason, RefuseReason::Lease | RefuseReason::UnknownVersion);
        let fault = if self.forgetful && unknowable { Fault::Innocent } else { fault };
        let struck = self.change(now, peer, |record, config| record.refuse(now, reason, fault, config));
        let Some(network) = struck else { return false };
        self.changes.urgent = true;
        if let Some(network) = network {
            self.network_liar(now, network, peer);
        }
        true
    }

    /// Notes the near misses of what was looked at of a peer's group. `Some` if there are more now than
    /// chance explains: over its record, or over those of all newcomers of its network.
    pub fn near_misses(
        &mut self,
        now: UnixMillis,
        peer: PublicKey,
        near_misses: NearMisses,
    ) -> Option<Alarm> {
        // Where tokens do not race, there are none, and no stranger is remembered for it.
        if near_misses == NearMisses::default() {
            return None;
        }
        let of_key = self.change(now, peer, |record, _| record.near_misses(near_misses));
        let network = self.network(&peer).filter(|_| !self.is_known(&peer));
        let of_network = network.is_some_and(|network| self.newcomers.add(network, near_misses));
        let of_network = of_network.then_some(Alarm::Network);
        if of_key { Some(Alarm::Key) } else { of_network }
    }

    /// Notes what the learner itself found of a verdict on somebody else's group. True if the
    /// verifier is not heard from now on.
    pub fn note_verdict(&mut self, now: UnixMillis, verifier: PublicKey, right: bool) -> bool {
        if right {
            self.change(now, verifier, |record, _| record.judged_rightly(now));
            return false;
        }
        let reason = RefuseReason::FalseVerdict;
        self.refused(now, verifier, reason, Fault::of(reason))
    }

    /// Follows the operator's journal up to byte `end`.
    pub fn decide(&mut self, now: UnixMillis, subject: Subject, decision: &Decision, end: u64) {
        match subject {
            Subject::Peer(peer) => {
                self.change(now, peer, |record, _| record.decide(decision));
            }
            Subject::Network(network) => {
                self.newcomers.forget(&network);
                self.change_network(network, |record| record.decide(decision));
            }
        }
        self.followed(end);
    }

    /// Notes that the operator's journal was followed up to byte `end`, whatever stood there.
    pub fn followed(&mut self, end: u64) {
        self.decided = end;
        self.changes.decided = true;
        self.changes.urgent = true;
        self.revision += 1;
    }

    /// Bytes of the operator's journal that were followed.
    pub fn decided(&self) -> u64 {
        self.decided
    }

    /// The share of a peer's groups that is to be looked at again, in [floor, 1]: 1 for whom nobody
    /// knows and for whom has just lied, then falling with what was accepted since.
    pub fn recheck_share(&self, now: UnixMillis, peer: &PublicKey) -> f64 {
        self.share(self.peers.get(peer).map_or(0.0, |record| record.credit(now)))
    }

    /// The share of groups that is looked at again although all `verifiers` vouched for it, in
    /// [floor, 1]: 1 where one of them is unknown or has just lied, else falling with the verdicts
    /// of the least known that were found right since.
    pub fn spot_check_share(&self, now: UnixMillis, verifiers: &[PublicKey]) -> f64 {
        let judgement = |verifier: &PublicKey| -> f64 {
            self.peers.get(verifier).map_or(0.0, |record| record.judgement(now))
        };
        self.share(verifiers.iter().map(judgement).min_by(f64::total_cmp).unwrap_or(0.0))
    }

    fn share(&self, credit: f64) -> f64 {
        (PROBATION as f64 / credit.max(PROBATION as f64)).max(self.config.recheck_floor)
    }

    /// Whether this group of a peer is among those, by a draw from `secret` that nobody else can
    /// make, and that is the same after a restart.
    pub fn rechecks(&self, now: UnixMillis, peer: &PublicKey, secret: &[u8; 32], group: &[u8; 32]) -> bool {
        draw(secret, &[peer.as_bytes(), group]) < self.recheck_share(now, peer)
    }

    /// Whether this group is looked at again although all `verifiers` vouched for it, by a draw
    /// like that of [`Record::rechecks`].
    pub fn spot_checks(
        &self,
        now: UnixMillis,
        verifiers: &[PublicKey],
        secret: &[u8; 32],
        group: &[u8; 32],
    ) -> bool {
        draw(secret, &[b"spot check", group]) < self.spot_check_share(now, verifiers)
    }

    /// All that are remembered.
    pub fn peers(&self) -> &BTreeMap<PublicKey, PeerRecord> {
        &self.peers
    }

    /// Networks from which somebody was suspended, and those about which the operator has decided.
    pub fn networks(&self) -> &BTreeMap<NetworkPrefix, NetworkRecord> {
        &self.networks
    }

    /// Peers, those first that are forgotten last.
    pub fn by_worth(&self) -> impl Iterator<Item = (&PublicKey, &PeerRecord)> {
        self.worth.iter().rev().filter_map(|(_, _, peer)| self.peers.get_key_value(peer))
    }

    /// Differs from what it was before when somebody's record has changed since.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether something is to be written that must not be lost.
    pub fn is_urgent(&self) -> bool {
        self.changes.urgent
    }

    /// Changes a peer's record, which is begun if there is none; forgets another one if there are too many.
    fn change<T>(
        &mut self,
        now: UnixMillis,
        peer: PublicKey,
        change: impl FnOnce(&mut PeerRecord, &RecordConfig) -> T,
    ) -> T {
        let record = self.peers.entry(peer).or_insert_with(|| PeerRecord::new(now));
        self.worth.remove(&(record.worth(), record.seen, peer));
        record.seen = record.seen.max(now);
        record.network = self.connected.get(&peer).copied().or(record.network);
        let outcome = change(record, &self.config);
        self.worth.insert((record.worth(), record.seen, peer));
        self.changes.peers.insert(peer);
        self.revision += 1;
        self.bound_peers();
        outcome
    }

    fn bound_peers(&mut self) {
        while self.peers.len() > MAX_PEERS
            && let Some((_, _, forgotten)) = self.worth.pop_first()
        {
            self.peers.remove(&forgotten);
            self.changes.peers.insert(forgotten);
        }
    }

    /// Notes that a key of this network was suspended or banned.
    fn network_liar(&mut self, now: UnixMillis, network: NetworkPrefix, peer: PublicKey) {
        let suspension_ms = self.config.suspension_ms;
        self.change_network(network, |record| record.liar(now, peer, suspension_ms));
    }

    fn change_network(&mut self, network: NetworkPrefix, change: impl FnOnce(&mut NetworkRecord)) {
        change(self.networks.entry(network).or_default());
        self.changes.networks.insert(network);
        self.revision += 1;
        self.bound_networks();
    }

    fn bound_networks(&mut self) {
        while self.networks.len() > MAX_NETWORKS {
            let least = self.networks.iter().min_by_key(|(_, record)| record.worth());
            let Some((network, _)) = least.map(|(network, record)| (*network, record)) else { return };
            self.networks.remove(&network);
            self.changes.networks.insert(network);
        }
    }

    /// Puts a remembered peer in its place.
    fn restore(&mut self, peer: PublicKey, record: PeerRecord) {
        self.worth.insert((record.worth(), record.seen, peer));
        self.peers.insert(peer, record);
        self.bound_peers();
    }
}

/// Which part of this group is looked at whoever made it and vouches for it, by a draw
/// like that of [`Record::rechecks`].
pub fn glance(secret: &[u8; 32], group: &[u8; 32]) -> u64 {
    word(secret, &[b"glance", group])
}

/// A number in [0, 1) that nobody can tell who does not have the secret.
fn draw(secret: &[u8; 32], parts: &[&[u8]]) -> f64 {
    // 53 bits: as many as a number in [0, 1) has.
    (word(secret, parts) >> 11) as f64 / (1u64 << 53) as f64
}

/// 64 bits that nobody can tell who does not have the secret.
fn word(secret: &[u8; 32], parts: &[&[u8]]) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    for part in parts {
        hasher.update(part);
    }
    let hash = hasher.finalize();
    let (first, _) = hash.as_bytes().split_first_chunk().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*first)
}

#[cfg(test)]
mod tests;
