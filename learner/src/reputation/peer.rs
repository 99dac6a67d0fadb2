//! What is known of one key.

use std::collections::BTreeMap;

use echo_policy::audit::NearMisses;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::receipt::SEQUENCE_STRETCH;
use echo_protocol::work::submission::RefuseReason;
use serde::{Deserialize, Serialize};

use super::decay::Fading;
use super::standing::{Standing, doubled, short};
use super::{DAY_MS, Decision, Fault, NetworkPrefix, RecordConfig, STRIKES_LAST_MS, Silence};

/// Accepted groups without a lie between them after which a peer is no newcomer any more.
pub const PROBATION: u64 = 32;
/// The time in which an accepted group comes to count half for
/// [`Record::recheck_share`](super::Record::recheck_share).
const CREDIT_HALF_LIFE_MS: u64 = 7 * DAY_MS;

/// The record of one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerRecord {
    /// When it first delivered something.
    pub first_seen: UnixMillis,
    /// When it last did.
    pub seen: UnixMillis,
    /// From where, if that says anything.
    pub network: Option<NetworkPrefix>,
    /// Groups accepted since it was first seen.
    pub accepted: u64,
    /// Groups refused, by reason.
    pub refused: BTreeMap<RefuseReason, u64>,
    /// Refusals that no honest node can come to, false verdicts included.
    pub lies: u64,
    /// When it lied last, and how; `None` if it never did.
    pub last_lie: Option<(UnixMillis, RefuseReason)>,
    /// Suspensions that count towards a ban; a ban is one.
    pub strikes: u32,
    /// Whether it is heard.
    pub standing: Standing,
    /// Why the operator banned it.
    pub operator: Option<String>,
    /// The number of its next receipt.
    pub(super) receipts: u64,
    struck: UnixMillis,
    /// Accepted since the last lie.
    flawless: u64,
    /// Pardoned by the operator, and not suspended since.
    vouched: bool,
    suspicion: Fading,
    credit: Fading,
    /// Verdicts on others' groups that the learner found right itself, since the last lie.
    #[serde(default)]
    judgement: Fading,
    /// Near misses of races, over all that was looked at.
    #[serde(default)]
    near_misses: NearMisses,
}

/// What it would cost to forget a peer. The least is forgotten first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    /// It came by, and did nothing that was of use. Whether it lied does not matter: under a new
    /// key it would be the same again.
    Stranger,
    /// It has done something.
    Newcomer,
    /// It has a good record.
    Known,
    /// It has done something, and lied.
    Lied,
    /// It was suspended, and not pardoned since.
    Struck,
    /// It is banned, or the operator has spoken for it.
    Decided,
}

impl PeerRecord {
    /// The record of a peer of which nothing is known now. It may have been forgotten, so its
    /// receipts begin where none was given before.
    pub(super) fn new(now: UnixMillis) -> Self {
        Self {
            first_seen: now,
            seen: now,
            network: None,
            accepted: 0,
            refused: BTreeMap::new(),
            lies: 0,
            last_lie: None,
            strikes: 0,
            standing: Standing::Good,
            operator: None,
            receipts: (now.0 / 1_000).min(u32::MAX.into()).saturating_mul(SEQUENCE_STRETCH),
            struck: UnixMillis(0),
            flawless: 0,
            vouched: false,
            suspicion: Fading::default(),
            credit: Fading::default(),
            judgement: Fading::default(),
            near_misses: NearMisses::default(),
        }
    }

    /// Whether it has a record good enough to be heard although its network has fallen.
    pub fn is_known(&self) -> bool {
        self.vouched || self.flawless >= PROBATION
    }

    /// Whether the operator has pardoned it, and it was not suspended since.
    pub fn is_vouched_for(&self) -> bool {
        self.vouched
    }

    /// Accepted groups since the last lie, as far as they still count.
    pub fn credit(&self, now: UnixMillis) -> f64 {
        self.credit.at(now, CREDIT_HALF_LIFE_MS)
    }

    /// Verdicts that were found right since the last lie, as far as they still count. They are
    /// counted apart from groups: who agrees with everybody is mostly right, and earns nothing by
    /// it for its own work.
    pub fn judgement(&self, now: UnixMillis) -> f64 {
        self.judgement.at(now, CREDIT_HALF_LIFE_MS)
    }

    /// Why it is not heard now, by itself.
    pub(super) fn silence(&self, now: UnixMillis) -> Option<Silence> {
        let lies = || match self.last_lie {
            Some((_, reason)) => format!("too many groups that no honest node sends, the last for {reason}"),
            None => "too many groups that no honest node sends".to_owned(),
        };
        match self.standing {
            Standing::Suspended(until) if now < until => {
                Some(Silence { reason: RefuseReason::Suspended, until: Some(until), cause: lies() })
            }
            Standing::Banned => {
                let cause = self.operator.clone().unwrap_or_else(lies);
                Some(Silence { reason: RefuseReason::Banned, until: None, cause })
            }
            Standing::Good | Standing::Suspended(_) => None,
        }
    }

    /// Notes an accepted group; the number of its receipt.
    pub(super) fn accept(&mut self, now: UnixMillis) -> u64 {
        self.accepted = self.accepted.saturating_add(1);
        self.flawless = self.flawless.saturating_add(1);
        self.credit.add(now, CREDIT_HALF_LIFE_MS);
        let number = self.receipts;
        self.receipts = number.saturating_add(1);
        number
    }

    /// Notes near misses. True if there are more now than chance explains.
    pub(super) fn near_misses(&mut self, near_misses: NearMisses) -> bool {
        self.near_misses = self.near_misses.then(near_misses);
        self.near_misses.is_alarm()
    }

    /// Notes a verdict that was found right.
    pub(super) fn judged_rightly(&mut self, now: UnixMillis) {
        self.judgement.add(now, CREDIT_HALF_LIFE_MS);
    }

    /// Notes a refused group, or a false verdict. `Some` if that was one lie too many, with the
    /// network where it came from.
    pub(super) fn refuse(
        &mut self,
        now: UnixMillis,
        reason: RefuseReason,
        fault: Fault,
        config: &RecordConfig,
    ) -> Option<Option<NetworkPrefix>> {
        *self.refused.entry(reason).or_default() += 1;
        if fault == Fault::Innocent {
            return None;
        }
        self.lies = self.lies.saturating_add(1);
        self.last_lie = Some((now, reason));
        self.flawless = 0;
        (self.credit, self.judgement) = (Fading::default(), Fading::default());
        // What has faded since the first lie of a quick row must not count as a lie less.
        let suspicion = self.suspicion.add(now, config.half_life_ms).round();
        if config.suspend_after == 0 || suspicion < f64::from(config.suspend_after) {
            return None;
        }
        self.strike(now, config);
        Some(self.network)
    }

    fn strike(&mut self, now: UnixMillis, config: &RecordConfig) {
        if now.since(self.struck) > STRIKES_LAST_MS {
            self.strikes = 0;
        }
        self.strikes = self.strikes.saturating_add(1);
        self.struck = now;
        self.vouched = false;
        self.suspicion = Fading::default();
        if self.standing == Standing::Banned {
            return;
        }
        self.standing = if config.ban_after > 0 && self.strikes >= config.ban_after {
            Standing::Banned
        } else {
            Standing::Suspended(now.plus(doubled(config.suspension_ms, self.strikes)))
        };
    }

    pub(super) fn decide(&mut self, decision: &Decision) {
        match decision {
            Decision::Ban(reason) => {
                self.standing = Standing::Banned;
                self.vouched = false;
                self.operator = Some(short(reason));
            }
            Decision::Pardon => {
                (self.standing, self.operator, self.strikes) = (Standing::Good, None, 0);
                (self.suspicion, self.credit, self.flawless) = (Fading::default(), Fading::default(), 0);
                (self.judgement, self.near_misses) = (Fading::default(), NearMisses::default());
                self.vouched = true;
            }
        }
    }

    pub(super) fn worth(&self) -> Worth {
        let useful = self.accepted > 0 || self.judgement != Fading::default();
        match self.standing {
            Standing::Banned => Worth::Decided,
            _ if self.vouched => Worth::Decided,
            _ if self.strikes > 0 => Worth::Struck,
            _ if !useful => Worth::Stranger,
            _ if self.last_lie.is_some() => Worth::Lied,
            _ if self.flawless >= PROBATION => Worth::Known,
            _ => Worth::Newcomer,
        }
    }

    /// Goes on where nobody knows which receipts were given.
    pub(super) fn after_loss(mut self) -> Self {
        self.receipts = (self.receipts / SEQUENCE_STRETCH).saturating_add(1).saturating_mul(SEQUENCE_STRETCH);
        self
    }

    /// Whether there are receipts of it.
    pub(super) fn has_receipts(&self) -> bool {
        self.accepted > 0
    }
}
