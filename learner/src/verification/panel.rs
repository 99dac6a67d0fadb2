//! The panel: which verifiers look at a group, and what follows from what they say.
//!
//! A plain state machine: no clock, no network. It knows the verifiers on offer, and draws up to n
//! of them for a group, no two of one owner and none of the group's own. Of strangers nothing
//! certain is known, so an owner is what [`Owners`] says. Where networks are owners, one of which
//! none is known (perhaps not yet) may be any of them, so it is asked only where none is known of
//! anybody on offer. The draw is between owners and from a secret that nobody else has: many keys
//! of one owner have no better chance than one, and nobody can tell who will be asked.
//!
//! All of them are waited for, up to a deadline: one who denounces a lie is enough, so it does not
//! help liars to be quick. Where at least k vouch and nobody denounces the group or cannot tell, it
//! is [`Ruling::Vouched`] for; anything else is [`Ruling::Open`], and the learner looks itself.
//! What it finds ([`Panel::settle`]) is then held against what each has said, and against what
//! those say who come late.
//!
//! A verifier has one group at first, one more after each report in time, and only one again after
//! it was late. What it was asked and has not reported counts for as long as it is connected, so
//! one that never answers is soon not asked any more; and one that goes while it owes a report is
//! not asked for a minute, should it come back. To say that one cannot tell is no way around this:
//! the group keeps its place until the learner has looked, and where the learner can tell, it
//! counts as late, and its verifier is not asked for as long as a group has time. So nobody makes
//! more work for the learner by it than by silence. The same counts are kept for each owner, over
//! all of its keys and what they owe: fresh keys bring an owner that never answers, or never can
//! tell, no further group, nor does another network bring one where it was.
//!
//! No group is left to verifiers for more than three quarters of the time until it will be too old
//! to be trained on, by the pace of the last update ([`Panel::at`]); the rest is the learner's,
//! should it have to look.
//!
//! Memory is bounded by [`MAX_VERIFIERS`], [`MAX_CASES`], [`MAX_CASE_BYTES`], [`MAX_SETTLED`] and
//! [`MAX_DEBTORS`]. What finds no place is not asked.

mod case;
pub mod options;
mod owners;
mod pace;
mod settled;
mod verifier;

use std::collections::{BTreeMap, BTreeSet};

use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::verification::{Offer, Opinion};

use crate::reputation::network::NetworkPrefix;
use crate::reputation::owner::{Owner, Owners};
use case::PanelCase;
use owners::Accounts;
use pace::VersionPace;
use settled::Settled;
use verifier::PanelVerifier;

/// Most verifiers on offer.
pub const MAX_VERIFIERS: usize = 1024;
/// Most verifiers that are asked about one group.
pub const MAX_MEMBERS: usize = 16;
/// Most groups that wait for verdicts, or for the learner's own look that follows.
pub const MAX_CASES: usize = 512;
/// Bytes of those groups in all.
pub const MAX_CASE_BYTES: usize = 64 << 20;
/// Most groups whose late reports are still compared with what was found.
pub const MAX_SETTLED: usize = 4096;
/// Most verifiers that are remembered because they went while they owed a report, or could not tell.
pub const MAX_DEBTORS: usize = 4096;
/// How long who went is not asked, in milliseconds.
const DEBT_MS: u64 = 60_000;
/// A case that nobody has settled so long after its deadline is forgotten, in milliseconds.
const FORGOTTEN_AFTER_MS: u64 = 600_000;

/// How a panel is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PanelConfig {
    /// Verifiers that are asked about a group, at most [`MAX_MEMBERS`]; 0: nobody ever is.
    pub n: usize,
    /// How many of them have to vouch for it, at least 1.
    pub k: usize,
    /// How long they have, in milliseconds.
    pub within_ms: u64,
    /// What counts as one owner.
    pub owners: Owners,
}

/// A group that verifiers are to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Names the group: BLAKE3 of the body that its node signed.
    pub group: ContentId,
    /// The key of the node that made it; none of its owner's verifiers is asked.
    pub producer: PublicKey,
    /// Where that one is.
    pub network: Option<NetworkPrefix>,
    /// The policies that it names.
    pub versions: BTreeSet<PolicyVersion>,
    /// The last version at which it may be trained on, where that may pass while it waits.
    pub fresh_until: Option<PolicyVersion>,
    /// Length of its frame in bytes; all cases together have [`MAX_CASE_BYTES`].
    pub bytes: usize,
}

/// What a verifier says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The group is sound.
    Sound,
    /// It is a lie.
    Lie,
    /// It cannot tell, for example as it does not hold a policy any more.
    Unable,
}

/// What follows from what they said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// These vouch for the group, k or more, and nobody denounces it.
    Vouched(Vec<PublicKey>),
    /// The learner has to look.
    Open,
}

/// What a report came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportOutcome {
    /// Nobody has asked for it.
    Unasked,
    /// It says nothing more by itself.
    Noted,
    /// It decides what becomes of the group.
    Ruled(Ruling),
    /// The learner has looked already: whether the report is right.
    Judged(bool),
}

/// Verifiers, and the groups that they look at.
#[derive(Debug)]
pub struct Panel {
    config: PanelConfig,
    secret: [u8; 32],
    verifiers: BTreeMap<PublicKey, PanelVerifier>,
    cases: BTreeMap<ContentId, PanelCase>,
    /// Bytes of all cases.
    bytes: usize,
    settled: Settled,
    accounts: Accounts,
    /// Who went while it owed a report, or could not tell what can be told, whose it was, and until
    /// when it is not asked.
    debtors: BTreeMap<PublicKey, (Owner, UnixMillis)>,
    pace: VersionPace,
    /// The time, as far as it was told.
    now: UnixMillis,
}

impl Default for PanelConfig {
    /// Two of three, within ten seconds: a node takes a learner for dead that says nothing for twenty.
    fn default() -> Self {
        Self { n: 3, k: 2, within_ms: 10_000, owners: Owners::Network }
    }
}

impl From<&Opinion> for Said {
    fn from(opinion: &Opinion) -> Self {
        match opinion {
            Opinion::Sound => Self::Sound,
            Opinion::Lie { .. } => Self::Lie,
            Opinion::Unable { .. } => Self::Unable,
        }
    }
}

impl Panel {
    /// A panel without verifiers, which draws from `secret`.
    pub fn new(config: PanelConfig, secret: [u8; 32]) -> Self {
        let config = PanelConfig { n: config.n.min(MAX_MEMBERS), k: config.k.max(1), ..config };
        Self {
            config,
            secret,
            verifiers: BTreeMap::new(),
            cases: BTreeMap::new(),
            bytes: 0,
            settled: Settled::default(),
            accounts: Accounts::default(),
            debtors: BTreeMap::new(),
            pace: VersionPace::default(),
            now: UnixMillis(0),
        }
    }

    /// Takes a verifier in, or what it offers from now on. False where there are too many.
    pub fn offer(&mut self, key: PublicKey, network: Option<NetworkPrefix>, offer: &Offer) -> bool {
        if let Some(verifier) = self.verifiers.get_mut(&key) {
            verifier.offers(offer);
            return true;
        }
        let room = self.verifiers.len() < MAX_VERIFIERS;
        if room {
            self.verifiers.insert(key, PanelVerifier::new(network, offer));
        }
        room
    }

    /// Notes where a verifier is. What it owes stays with the owner that it had, if any was known.
    pub fn moved(&mut self, key: &PublicKey, network: Option<NetworkPrefix>) {
        let Some(verifier) = self.verifiers.get_mut(key) else { return };
        let before = std::mem::replace(&mut verifier.network, network);
        let owes = before.is_some() && !verifier.asked().is_empty();
        if self.owner(*key, before) != self.owner(*key, network) {
            self.left(*key, before, owes);
        }
    }

    /// Lets a verifier go, and says which groups that decides.
    pub fn gone(&mut self, key: &PublicKey) -> Vec<(ContentId, Ruling)> {
        let Some(verifier) = self.verifiers.remove(key) else { return Vec::new() };
        self.left(*key, verifier.network, !verifier.asked().is_empty());
        let k = self.config.k;
        let ruled = verifier.asked().iter().filter_map(|group| {
            let case = self.cases.get_mut(group)?;
            case.leaves(key).then(|| case.rule(k, false)).flatten().map(|ruling| (*group, ruling))
        });
        ruled.collect()
    }

    /// Whom to send a group to; none if no panel can be formed, or there is no place for another one.
    pub fn ask(&mut self, now: UnixMillis, question: &Question) -> Option<Vec<PublicKey>> {
        self.now = self.now.max(now);
        let full = self.cases.len() >= MAX_CASES || self.bytes + question.bytes > MAX_CASE_BYTES;
        if full || self.cases.contains_key(&question.group) {
            return None;
        }
        let within_ms = question.fresh_until.and_then(|last| self.pace.patience_ms(now, last));
        let within_ms = within_ms.unwrap_or(u64::MAX).min(self.config.within_ms);
        let chosen = self.choose(question);
        if within_ms == 0 || chosen.len() < self.config.k {
            return None;
        }
        for key in &chosen {
            if let Some(verifier) = self.verifiers.get_mut(key) {
                verifier.ask(question.group);
            }
        }
        let deadline = now.plus(within_ms);
        self.bytes += question.bytes;
        self.cases.insert(question.group, PanelCase::new(&chosen, deadline, question.bytes));
        Some(chosen)
    }

    /// Takes what a verifier says of a group; [`ReportOutcome`] says what follows.
    pub fn report(&mut self, key: &PublicKey, group: &ContentId, said: Said) -> ReportOutcome {
        let says = self.cases.get_mut(group).is_some_and(|case| case.says(key, said));
        // What it cannot tell takes its place until somebody has.
        let keeps = self.cases.get(group).is_some_and(|case| case.unable().any(|unable| unable == *key));
        let verifier = self.verifiers.get_mut(key).filter(|_| !keeps);
        let asked = verifier.is_some_and(|verifier| verifier.reported(group));
        if says && let Some(case) = self.cases.get_mut(group) {
            let in_time = !case.is_ruled() && said != Said::Unable;
            if in_time && let Some(verifier) = self.verifiers.get_mut(key) {
                verifier.was_in_time();
                self.accounts.was_in_time(self.config.owners.owner(*key, verifier.network));
            }
            return case.rule(self.config.k, false).map_or(ReportOutcome::Noted, ReportOutcome::Ruled);
        }
        match (self.settled.take(group, key), said) {
            (Some(sound), Said::Sound) => ReportOutcome::Judged(sound),
            (Some(sound), Said::Lie) => ReportOutcome::Judged(!sound),
            (Some(_), Said::Unable) => ReportOutcome::Noted,
            (None, _) if asked => ReportOutcome::Noted,
            (None, _) => ReportOutcome::Unasked,
        }
    }

    /// Groups that are decided because their time is over.
    pub fn expired(&mut self, now: UnixMillis) -> Vec<(ContentId, Ruling)> {
        self.now = self.now.max(now);
        self.debtors.retain(|_, (_, until)| *until > now);
        let mut ruled = Vec::new();
        let mut forgotten = Vec::new();
        for (group, case) in &mut self.cases {
            if now.since(case.deadline) > FORGOTTEN_AFTER_MS {
                forgotten.push(*group);
            }
            if case.is_ruled() || case.deadline > now {
                continue;
            }
            for key in case.awaited() {
                if let Some(verifier) = self.verifiers.get_mut(&key) {
                    verifier.was_late();
                    self.accounts.forget(&self.config.owners.owner(key, verifier.network));
                }
            }
            ruled.extend(case.rule(self.config.k, true).map(|ruling| (*group, ruling)));
        }
        forgotten.iter().for_each(|group| self.dismiss(group));
        ruled
    }

    /// The learner has looked, and could tell: who has said what it found, and who the opposite.
    pub fn settle(&mut self, group: &ContentId, sound: bool) -> Vec<(PublicKey, bool)> {
        let Some(case) = self.remove(group) else { return Vec::new() };
        for key in case.unable() {
            // Who has gone meanwhile owes it already.
            if let Some(verifier) = self.verifiers.get_mut(&key) {
                verifier.was_late();
                let owner = self.config.owners.owner(key, verifier.network);
                self.accounts.forget(&owner);
                self.owes(key, owner, self.config.within_ms);
            }
        }
        self.settled.remember(*group, sound, case.awaited().collect());
        case.verdicts().map(|(key, vouched)| (key, vouched == sound)).collect()
    }

    /// The learner does not look, or could not tell: nobody is right or wrong.
    pub fn dismiss(&mut self, group: &ContentId) {
        self.remove(group);
    }

    /// Tells that the policy is at `version` from now on.
    pub fn at(&mut self, now: UnixMillis, version: PolicyVersion) {
        self.pace.at(now, version);
    }

    /// How many owners' verifiers may ever be asked about this group, and how many it takes, where
    /// those are too few.
    pub fn shortage(&self, question: &Question) -> Option<(usize, usize)> {
        let theirs = self.owner(question.producer, question.network);
        let all = self.verifiers.iter().map(|(key, verifier)| self.owner(*key, verifier.network));
        let mut owners: BTreeSet<Owner> = all.filter(|owner| *owner != theirs).collect();
        if self.knows_networks() {
            owners.remove(&Owner::Network(None));
        }
        let PanelConfig { n, k, .. } = self.config;
        (n > 0 && owners.len() < k).then_some((owners.len(), k))
    }

    /// Verifiers that are connected and have made an offer.
    pub fn verifiers(&self) -> usize {
        self.verifiers.len()
    }

    fn remove(&mut self, group: &ContentId) -> Option<PanelCase> {
        let case = self.cases.remove(group)?;
        self.bytes -= case.bytes;
        for key in case.unable() {
            if let Some(verifier) = self.verifiers.get_mut(&key) {
                verifier.reported(group);
            }
        }
        Some(case)
    }

    /// Notes that a verifier is no longer among those that its owner has there, and whether it
    /// `owes` a report.
    fn left(&mut self, key: PublicKey, network: Option<NetworkPrefix>, owes: bool) {
        let owner = self.owner(key, network);
        if owes {
            self.owes(key, owner, DEBT_MS);
        }
        if owes || !self.verifiers.iter().any(|(key, other)| self.owner(*key, other.network) == owner) {
            self.accounts.forget(&owner);
        }
    }

    /// Lets nobody ask `key` for so long, and counts a group as one that `owner` has.
    fn owes(&mut self, key: PublicKey, owner: Owner, millis: u64) {
        let (now, until) = (self.now, self.now.plus(millis));
        if let Some((_, debt)) = self.debtors.get_mut(&key).filter(|(_, debt)| *debt > now) {
            // Whose it was when it was asked, wherever it went since.
            *debt = until.max(*debt);
        } else if self.debtors.len() < MAX_DEBTORS {
            self.debtors.insert(key, (owner, until));
        }
    }

    /// One of each owner that was drawn: of its keys that which has least to do.
    fn choose(&self, question: &Question) -> Vec<PublicKey> {
        let theirs = self.owner(question.producer, question.network);
        let has = self.under_way();
        let mut by_owner: BTreeMap<Owner, (usize, [u8; 32], PublicKey)> = BTreeMap::new();
        for (key, verifier) in &self.verifiers {
            let owner = self.owner(*key, verifier.network);
            let owes = self.debtors.get(key).is_some_and(|(_, until)| *until > self.now);
            let is_busy = !self.accounts.may_have(&owner, has.get(&owner).copied().unwrap_or(0) + 1);
            let is_out = *key == question.producer || owner == theirs || owes || is_busy;
            if is_out || !verifier.takes(&question.versions) {
                continue;
            }
            let candidate = (verifier.asked().len(), self.draw(&question.group, key.as_bytes()), *key);
            let least = by_owner.entry(owner).or_insert(candidate);
            *least = candidate.min(*least);
        }
        if self.knows_networks() {
            by_owner.remove(&Owner::Network(None));
        }
        let drawn = by_owner.into_iter().map(|(owner, (_, by_key, key))| match owner {
            Owner::Key(_) => (by_key, key),
            Owner::Network(network) => {
                let name = network.map(|network| network.to_string()).unwrap_or_default();
                (self.draw(&question.group, name.as_bytes()), key)
            }
        });
        let mut drawn: Vec<_> = drawn.collect();
        drawn.sort_unstable();
        drawn.into_iter().map(|(_, key)| key).take(self.config.n).collect()
    }

    /// Groups that each owner's keys have, those included that went with one.
    fn under_way(&self) -> BTreeMap<Owner, usize> {
        let mut groups: BTreeMap<Owner, usize> = BTreeMap::new();
        for (key, verifier) in &self.verifiers {
            *groups.entry(self.owner(*key, verifier.network)).or_default() += verifier.asked().len();
        }
        let owed = self.debtors.values().filter(|(_, until)| *until > self.now);
        owed.for_each(|(owner, _)| *groups.entry(*owner).or_default() += 1);
        groups
    }

    /// Whether any verifier's network is known.
    fn knows_networks(&self) -> bool {
        self.verifiers.values().any(|verifier| verifier.network.is_some())
    }

    /// Whose a key is that is connected from `network`.
    pub(crate) fn owner(&self, key: PublicKey, network: Option<NetworkPrefix>) -> Owner {
        self.config.owners.owner(key, network)
    }

    fn draw(&self, group: &ContentId, of: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(group.as_bytes()).update(of);
        *hasher.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests;
