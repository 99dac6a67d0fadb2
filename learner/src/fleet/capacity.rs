//! Capacity: how much the fleet brings, how much the learner needs, and who works for it. Sans-IO.
//!
//! ECHO-2 §3.3, §3.4 and C.2.1. The fleet has to bring μ_target = γ μ_min(κ) rollouts a second (equation
//! 2). Of the nodes that are there, the cheapest by ρ = c/μ work until their sum reaches that (equation 3):
//!
//! - **active** nodes get orders;
//! - **standby** nodes keep the newest policy and forward it, and begin within seconds;
//! - **resting** nodes compute nothing, and are told when to ask again.
//!
//! Roles change slowly: only after a deviation has lasted, and no node twice within a period. Few nodes are
//! released at once. What is missing is activated together. Only a fault is mended at once, by nodes on
//! standby.
//!
//! ```text
//! heartbeats, accepted groups ─> rate      μ of each node ─┐
//! updates, publications, installations ─> demand   μ_min ──┼─> selection ─> roles
//! prices, offers ─> prices                 c of each node ─┘       │
//!                                   ledger: node-hours, dollars <──┘─> report, provisioning
//! ```
//!
//! It imports nothing of the fleet. Who drives it calls [`Capacity::tick`] at least every second.

mod away;
mod crowd;
mod demand;
mod ledger;
pub mod options;
mod prices;
mod provision;
mod rate;
mod report;
mod selection;

use std::collections::BTreeMap;

use echo_protocol::control::heartbeat::{LOST_AFTER_MS, Offer};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::rest::RestNotice;
use serde::{Deserialize, Serialize};

use away::{Away, MAX_AWAY};
use demand::Demand;
use ledger::Ledger;
use rate::WorkRate;
use selection::Deviations;

pub use crowd::{Beats, Seat};
pub use options::Activation;
pub use prices::Prices;
pub use provision::{ClassCount, ProvisionRequest};
pub use report::CapacityReport;

/// How often the fleet is looked at, in milliseconds.
const LOOK_EVERY_MS: u64 = 1_000;
/// The same for so many nodes a millisecond: 100,000 nodes are looked at every ten seconds.
const NODES_A_MS: u64 = 10;
/// Most of the time between two heartbeats that counts as work, in milliseconds.
const LONGEST_BEAT_MS: u64 = 5_000;
/// Without prices, everybody works in fleets that are smaller: too little is there to choose from.
const SMALL_FLEET: usize = 16;
/// A node that should work or stand by, but has had no orders and asked for none for this long, is idle, in
/// milliseconds: paused by its owner, or without the role `rollout`. Others ask every ten seconds at least.
const IDLE_AFTER_MS: u64 = 30_000;
/// When a node that rests asks again, in minutes.
const REST_MIN: u32 = 10;
/// A node is believed to be at most so many times as fast as the usual one, until it has shown what it can.
const BELIEVED: f64 = 2.0;

/// The numbers of a [`Capacity`].
#[derive(Clone, Debug, PartialEq)]
pub struct CapacityConfig {
    /// Whether nodes rest at all.
    pub activation: Activation,
    /// γ: what is aimed at, in times of μ_min; above 1.
    pub gamma: f64,
    /// R: trajectories of an update.
    pub batch: u64,
    /// κ: updates from one publication to the next; `None` where nothing overlaps, as on-policy.
    pub period: Option<u64>,
    /// What nodes cost.
    pub prices: Prices,
    /// What the learner's machine costs, in dollars an hour.
    pub learner_price: f64,
}

/// What a node does for the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// Gets orders.
    #[default]
    Active,
    /// Keeps the newest policy and forwards it.
    Standby,
    /// Computes nothing.
    Resting,
}

/// What a heartbeat says that matters here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beat {
    /// The version that the node generates under.
    pub installed: Option<PolicyVersion>,
    /// Rollouts a second, by the node's own word.
    pub declared: f64,
    /// Whether orders are out with it.
    pub has_work: bool,
    /// Whether it gets none because they would come back too late: it brings nothing then, however fast
    /// it is.
    pub too_slow: bool,
    /// Whether it has a record of accepted work.
    pub is_known: bool,
    /// What its owner says.
    pub offer: Offer,
}

/// A node that is there.
#[derive(Clone, Debug)]
struct Worker {
    rate: WorkRate,
    seen: UnixMillis,
    installed: Option<PolicyVersion>,
    offer: Offer,
    /// c in dollars an hour.
    price: f64,
    role: NodeRole,
    /// When its role changed last; `None` since it came.
    changed: Option<UnixMillis>,
    /// a: whether its heartbeats come.
    available: bool,
    /// Whether it has a record of accepted work.
    is_known: bool,
    /// Whether it gets no orders because they would come back too late.
    too_slow: bool,
    /// Whether it was told to rest, and has not asked again since: it does not know of another role yet.
    sleeps: bool,
    /// When it had orders or asked for some last.
    asked: UnixMillis,
    /// Whether that is long ago.
    is_idle: bool,
}

/// What a look at the fleet found.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    at: UnixMillis,
    /// Active nodes that are there.
    working: usize,
    /// All nodes that are there.
    present: usize,
    /// Whether newcomers are not needed.
    enough: bool,
    /// Newcomers that may be on standby.
    standby_room: usize,
}

/// What a later process goes on from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityState {
    /// μ of each node: of those that are there, and then of those that have gone, the newest first.
    pub rates: Vec<(PublicKey, f64)>,
    /// Seconds of the last updates.
    pub updates: Vec<f64>,
    /// Seconds of the last broadcasts.
    pub broadcasts: Vec<f64>,
    /// Hours of nodes that were active or on standby.
    pub node_hours: f64,
    /// Hours of the learner.
    pub learner_hours: f64,
    /// Dollars so far.
    pub usd: f64,
}

/// Who works for a run, and what that costs.
#[derive(Clone, Debug)]
pub struct Capacity {
    config: CapacityConfig,
    demand: Demand,
    workers: BTreeMap<PublicKey, Worker>,
    /// Workers with a record: once there are any, no others count.
    known: usize,
    away: Away,
    ledger: Ledger,
    deviations: Deviations,
    /// What the last look found.
    look: Look,
    /// The usual rate of a node, by the last look.
    usual: f64,
    /// Whether an active node was lost or fell silent since the last look.
    fault: bool,
    /// Whether the last look chose among nodes.
    governs: bool,
}

impl Capacity {
    /// Of a learner that begins now, with an empty fleet.
    pub fn new(config: CapacityConfig, now: UnixMillis) -> Self {
        Self {
            ledger: Ledger::new(now, config.learner_price),
            config,
            demand: Demand::default(),
            workers: BTreeMap::new(),
            known: 0,
            away: Away::default(),
            deviations: Deviations::default(),
            look: Look::default(),
            usual: 0.0,
            fault: false,
            governs: false,
        }
    }

    /// Goes on from what an earlier process knew.
    pub fn restore(&mut self, state: CapacityState) {
        let CapacityState { rates, updates, broadcasts, node_hours, learner_hours, usd } = state;
        self.demand.restore(&updates, &broadcasts);
        self.ledger.restore(node_hours, learner_hours, usd);
        self.away = Away::default();
        let rates: Vec<_> = rates.into_iter().filter(|(_, rate)| rate.is_finite()).take(MAX_AWAY).collect();
        rates.into_iter().rev().for_each(|(node, rate)| self.away.gone(node, rate));
    }

    /// What a later process goes on from.
    pub fn state(&self) -> CapacityState {
        let (updates, broadcasts) = self.demand.kept();
        let here = self.workers.iter().filter_map(|(node, worker)| {
            Some((*node, worker.rate.is_measured().then(|| worker.rate.per_s(0.0))??))
        });
        let rates = here.chain(self.away.newest_first()).take(MAX_AWAY).collect();
        let Ledger { node_hours, learner_hours, usd, .. } = self.ledger;
        CapacityState { rates, updates, broadcasts, node_hours, learner_hours, usd }
    }

    /// Takes in a heartbeat. A node that is new gets a role.
    pub fn heard(&mut self, now: UnixMillis, node: PublicKey, beat: Beat) {
        let Beat { installed, declared, has_work, too_slow, is_known, offer } = beat;
        if !self.workers.contains_key(&node) {
            self.admit(now, node, &offer);
        }
        let Some(worker) = self.workers.get_mut(&node) else { return };
        // A longer silence is no work.
        let worked_ms = now.since(worker.seen).min(LONGEST_BEAT_MS);
        worker.is_here(now, Beats { has_work, asks: false, too_slow }, worked_ms);
        if worker.is_known != is_known {
            worker.is_known = is_known;
            self.known = if is_known { self.known + 1 } else { self.known - 1 };
        }
        worker.rate.declares(if declared.is_finite() { declared } else { 0.0 });
        if worker.offer != offer {
            worker.price = self.config.prices.of(&node, &offer);
            worker.offer = offer;
        }
        // A node that goes back and forth has a version once.
        let before = worker.installed;
        worker.installed = before.max(installed);
        if let Some(installed) = installed
            && before < Some(installed)
            && self.workers.get(&node).is_some_and(|worker| self.is_awaited(worker))
        {
            self.demand.installed(now, before, installed);
        }
    }

    fn admit(&mut self, now: UnixMillis, node: PublicKey, offer: &Offer) {
        let rate = self.away.back(&node).map_or_else(WorkRate::default, WorkRate::measured);
        let role = self.role_of_newcomer();
        let price = self.config.prices.of(&node, offer);
        let offer = offer.clone();
        let worker = Worker {
            rate,
            seen: now,
            installed: None,
            offer,
            price,
            role,
            changed: None,
            available: true,
            is_known: false,
            too_slow: false,
            sleeps: false,
            asked: now,
            is_idle: false,
        };
        self.workers.insert(node, worker);
    }

    /// Rollouts of a node were accepted.
    pub fn accepted(&mut self, node: &PublicKey, rollouts: u64) {
        if let Some(worker) = self.workers.get_mut(node) {
            worker.rate.accepted(rollouts as f64);
        }
    }

    /// A node is gone. What an active one brought is replaced at the next look.
    pub fn gone(&mut self, node: &PublicKey) {
        let Some(worker) = self.workers.remove(node) else { return };
        self.known -= usize::from(worker.is_known);
        self.fault |= worker.role == NodeRole::Active;
        if let Some(rate) = worker.rate.per_s(0.0).filter(|_| worker.rate.is_measured()) {
            self.away.gone(*node, rate);
        }
    }

    /// An update was made, which took so many seconds, waiting not included.
    pub fn updated(&mut self, now: UnixMillis, seconds: f64) {
        self.demand.updated(seconds);
        self.accrue(now);
        self.ledger.updated();
    }

    /// The learner waits for a batch, and has so since the first of these calls after it went on.
    pub fn waits(&mut self, now: UnixMillis) {
        self.demand.waits(now);
    }

    /// The batch is there. So many groups were accepted and filtered out since the run began, and a batch
    /// has so many: what is filtered out has to be brought as well.
    pub fn goes_on(&mut self, filtered: u64, groups: u64) {
        self.demand.goes_on(filtered, groups);
    }

    /// A version goes out.
    pub fn published(&mut self, now: UnixMillis, version: PolicyVersion) {
        let active = self.workers.values().filter(|worker| self.is_awaited(worker)).count();
        self.demand.published(now, version, active, self.config.gamma);
    }

    /// Looks at the fleet: who is silent, whether it brings enough, and what it costs. It may be called at
    /// any time, and looks about every second, at very large fleets less often.
    pub fn tick(&mut self, now: UnixMillis) {
        let every_ms = LOOK_EVERY_MS.max(self.workers.len() as u64 / NODES_A_MS);
        if !self.fault && now.since(self.look.at) < every_ms {
            return;
        }
        self.look.at = now;
        self.accrue(now);
        for worker in self.workers.values_mut() {
            if worker.available && now.since(worker.seen) > LOST_AFTER_MS {
                worker.available = false;
                self.fault |= worker.role == NodeRole::Active;
            }
            // Who rests asks seldom, and is believed to be what it was.
            if worker.role != NodeRole::Resting && now.since(worker.asked) > IDLE_AFTER_MS {
                worker.is_idle = true;
            }
        }
        self.decide(now);
    }

    /// What a node does for the run; a stranger is to work.
    pub fn role(&self, node: &PublicKey) -> NodeRole {
        self.workers.get(node).map_or(NodeRole::Active, |worker| worker.role)
    }

    /// A node asks for orders: what it does for the run. Who rests is told so, and does not ask again for
    /// long.
    pub fn asks(&mut self, now: UnixMillis, node: &PublicKey) -> NodeRole {
        let Some(worker) = self.workers.get_mut(node) else { return NodeRole::Active };
        (worker.asked, worker.is_idle) = (now, false);
        worker.sleeps = worker.role == NodeRole::Resting;
        worker.role
    }

    /// What a node is told that rests.
    pub fn rest(&self) -> RestNotice {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let Look { working, present, .. } = self.look;
        RestNotice { working: number(working), present: number(present), again_min: REST_MIN }
    }

    /// μ_min(κ) of equation 2 in rollouts a second; `None` while updates and broadcasts are not measured, and
    /// where no rate is enough.
    pub fn required(&self) -> Option<f64> {
        self.demand
            .pipeline(self.config.batch as f64 * self.demand.of_a_trained_one())?
            .required_rate(self.config.period?)
    }

    /// μ_target = γ μ_min; more where that has not been enough.
    pub fn target(&self) -> Option<f64> {
        self.required().map(|required| self.config.gamma * self.demand.starvation_factor() * required)
    }

    /// μ_pool of equation 4: the sum over active nodes that are there and know that they are.
    pub fn pool(&self) -> f64 {
        self.workers.values().filter(|worker| worker.works()).map(|worker| self.rate(worker)).sum()
    }

    /// Whether what a node brings is counted upon. Who gets no orders, or wants none, brings nothing: slow
    /// volunteers cost nothing, and would take the place of all who bring anything. A key costs nothing,
    /// and what it says of its speed neither: once any node has a record, the others are tried, and put
    /// nobody to rest.
    fn counts(&self, worker: &Worker) -> bool {
        worker.may_bring() && self.is_believed(worker)
    }

    /// Whether what a node says of itself counts. Once any node has a record, a key without one says nothing.
    fn is_believed(&self, worker: &Worker) -> bool {
        worker.is_known || self.known == 0
    }

    /// c of a node as it counts. Otherwise free keys that ask for much would spend a budget that nobody pays.
    fn price(&self, worker: &Worker) -> f64 {
        if self.is_believed(worker) { worker.price } else { 0.0 }
    }

    /// The nodes that are paid: those that are active or on standby.
    fn paid(&self) -> impl Iterator<Item = &Worker> {
        let kept = self.workers.values().filter(|w| w.available && w.role != NodeRole::Resting);
        kept.filter(move |worker| self.is_believed(worker))
    }

    /// Whether a broadcast is timed by a node: it works, and counts.
    fn is_awaited(&self, worker: &Worker) -> bool {
        worker.works() && self.counts(worker)
    }

    /// μ of a node as it counts.
    fn rate(&self, worker: &Worker) -> f64 {
        if self.counts(worker) { self.hoped(worker) } else { 0.0 }
    }

    /// μ of a node as it may be, with a record or without one. One of which nothing is known is as fast as
    /// the usual one.
    fn hoped(&self, worker: &Worker) -> f64 {
        if !worker.may_bring() {
            return 0.0;
        }
        let believed = if self.usual > 0.0 { BELIEVED * self.usual } else { f64::MAX };
        worker.rate.per_s(believed).unwrap_or(self.usual)
    }

    fn accrue(&mut self, now: UnixMillis) {
        let (nodes, usd_per_hour) = self.paid().fold((0, 0.0), |(nodes, usd), w| (nodes + 1, usd + w.price));
        self.ledger.accrue(now, nodes, usd_per_hour);
    }
}

impl Worker {
    /// Whether it gets orders, is there, and asks for them.
    fn works(&self) -> bool {
        self.available && self.role == NodeRole::Active && !self.sleeps
    }

    /// Whether it would bring something: it asks for orders, and gets some.
    fn may_bring(&self) -> bool {
        !self.too_slow && !self.is_idle
    }

    /// Gives it a role.
    fn becomes(&mut self, now: UnixMillis, role: NodeRole) {
        if self.sleeps {
            // It asks when its rest is over, and not before.
            self.asked = now.plus(60_000 * u64::from(REST_MIN));
        }
        (self.role, self.changed) = (role, Some(now));
    }
}

#[cfg(test)]
mod tests;
