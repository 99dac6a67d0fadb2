//! Who works: the greedy cheapest prefix of equation 3, approached slowly (C.2.1).
//!
//! A look decides one thing, the first of these that holds:
//!
//! - **too little** (μ_pool < μ_target): the cheapest that do not work are activated. At once after a fault,
//!   otherwise when it has lasted.
//! - **too much** (without its dearest node the pool is still above the target by a margin): some of the
//!   dearest are released when it has lasted.
//! - **too dear** (active nodes cost more than the cheapest prefix and one node more): what the prefix has
//!   and does not work is activated; where nothing is missing, the dearest outside of it are released.
//!
//! Besides, some nodes are kept on standby.

use super::{Activation, Capacity, NodeRole, SMALL_FLEET, Worker};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use std::cmp::Ordering;

/// How long too little has to last before nodes are activated, in milliseconds, without a fault.
const SUSTAINED_MS: u64 = 10_000;
/// How long too much, or too dear, has to last before nodes are released, in milliseconds; an update, where
/// that takes longer.
const RELEASE_AFTER_MS: u64 = 30_000;
/// In so many milliseconds a node changes its role once at most, faults excepted; an update, where that takes
/// longer.
pub(super) const PERIOD_MS: u64 = 60_000;
/// By so much of the target the pool has to exceed it after a release.
const MARGIN: f64 = 0.1;
/// A large fleet counts as small again only when so many of [`SMALL_FLEET`] are missing, one in so many. At
/// one and the same limit, everybody would begin and rest in turn where a few nodes come and go.
const FEWER: usize = 4;
/// Of the active nodes one in so many is released or exchanged at once: a mistake then costs little. What is
/// missing is activated together, as the learner waits meanwhile.
const AT_ONCE: usize = 10;
/// Of the active nodes one in so many is kept on standby, and at least one.
const ACTIVE_A_STANDBY: usize = 10;

/// Since when the fleet has not been as it should be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deviations {
    too_little: Option<UnixMillis>,
    too_much: Option<UnixMillis>,
    too_dear: Option<UnixMillis>,
    /// When costs were compared last: that takes a sort.
    compared: Option<UnixMillis>,
}

/// A node in the order of its price for a rollout.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    node: PublicKey,
    /// c in dollars an hour.
    price: f64,
    /// μ in rollouts a second, as it counts.
    rate: f64,
    /// The same of a node without a record, by what it says.
    hoped: f64,
    role: NodeRole,
    /// Whether it does not ask yet.
    sleeps: bool,
    is_settled: bool,
}

impl Candidate {
    /// ρ = c/μ; a node that brings nothing comes last.
    fn cost_of_rate(&self) -> f64 {
        if self.rate > 0.0 { self.price / self.rate } else { f64::INFINITY }
    }

    /// Cheapest first. Of equals, those that work go on, so that nobody takes turns for nothing. Then those
    /// that ask, as they begin at once, and of these the fastest.
    fn by_cost(a: &Self, b: &Self) -> Ordering {
        let works = |candidate: &Self| candidate.role == NodeRole::Active;
        let order = a.cost_of_rate().total_cmp(&b.cost_of_rate());
        let order = order.then_with(|| works(b).cmp(&works(a))).then_with(|| a.sleeps.cmp(&b.sleeps));
        order.then_with(|| b.rate.total_cmp(&a.rate)).then_with(|| a.node.cmp(&b.node))
    }
}

impl Capacity {
    /// Decides who works.
    pub(super) fn decide(&mut self, now: UnixMillis) {
        let fault = std::mem::take(&mut self.fault);
        self.governs = self.governs();
        let Some(target) = self.target().filter(|_| self.governs) else {
            // Whoever is told to work works: nothing is known that speaks against it.
            for worker in self.workers.values_mut().filter(|worker| worker.role != NodeRole::Active) {
                worker.becomes(now, NodeRole::Active);
            }
            self.deviations = Deviations::default();
            self.note(None);
            return;
        };
        self.look_at_rates();
        let (pool, starving_ms) = (self.pool(), self.at_least_an_update(SUSTAINED_MS));
        if pool >= target {
            // A learner that waits all the same gets less than was measured: more is aimed at then.
            self.demand.has_starved(now, starving_ms);
        }
        let target = self.target().unwrap_or(target);
        if pool < target {
            self.deviations.too_much = None;
            let since = *self.deviations.too_little.get_or_insert(now);
            if fault || now.since(since) >= SUSTAINED_MS {
                self.activate(now, target - pool, fault);
            }
        } else {
            self.deviations.too_little = None;
            self.release_surplus(now, pool, target);
            self.compare_costs(now, target);
        }
        self.keep_standby(now);
        self.note(Some(target));
    }

    /// Keeps what is asked for between two looks.
    fn note(&mut self, target: Option<f64>) {
        let standby = self.count(NodeRole::Standby);
        self.look.working = self.count(NodeRole::Active);
        self.look.present = self.look.working + standby + self.count(NodeRole::Resting);
        self.look.enough = target.is_some_and(|target| self.pool() >= target);
        self.look.standby_room = self.wanted_standby().saturating_sub(standby);
    }

    /// Whether there is anything to choose. Once any node has a record, keys without one make no fleet large,
    /// nor one that is paid.
    fn governs(&self) -> bool {
        let (mut present, mut is_paid) = (0, false);
        for worker in self.workers.values().filter(|worker| worker.available && self.is_believed(worker)) {
            present += 1;
            is_paid |= worker.price > 0.0;
        }
        let enough = if self.governs { SMALL_FLEET - SMALL_FLEET / FEWER } else { SMALL_FLEET };
        self.config.activation == Activation::Cheapest && (is_paid || present >= enough)
    }

    /// A newcomer works unless there is enough without it.
    pub(super) fn role_of_newcomer(&mut self) -> NodeRole {
        if !self.look.enough {
            return NodeRole::Active;
        }
        match self.look.standby_room.checked_sub(1) {
            Some(room) => {
                self.look.standby_room = room;
                NodeRole::Standby
            }
            None => NodeRole::Resting,
        }
    }

    /// The median rate of nodes whose work has come in.
    fn look_at_rates(&mut self) {
        let measured = self.workers.values().filter(|w| w.rate.is_measured() && self.counts(w));
        let mut rates: Vec<f64> = measured.filter_map(|worker| worker.rate.per_s(0.0)).collect();
        let middle = rates.len() / 2;
        if !rates.is_empty() {
            self.usual = *rates.select_nth_unstable_by(middle, f64::total_cmp).1;
        }
    }

    /// Activates the cheapest that do not work, until they bring `missing` rollouts a second. What sleeps
    /// counts from the moment at which it is activated, and brings nothing before it asks, which may take ten
    /// minutes. So those that ask are activated until they are enough alone. They are released again when
    /// sleepers have come. A sleeper without a record does not count: such keys would keep others waiting.
    /// After a fault, those that ask come first, whatever they cost.
    fn activate(&mut self, now: UnixMillis, missing: f64, fault: bool) {
        let mut idle = self.candidates(now, |worker| worker.role != NodeRole::Active);
        idle.retain(|candidate| fault || candidate.is_settled);
        if fault {
            // Who is on standby has the policy, and begins within seconds unless it was just woken.
            idle.sort_by_key(|candidate| (candidate.sleeps, candidate.role));
        }
        let asleep: f64 = self
            .workers
            .values()
            .filter(|worker| worker.available && worker.role == NodeRole::Active && worker.sleeps)
            .map(|worker| self.rate(worker))
            .sum();
        let (mut awake, mut in_time) = (0.0, asleep);
        for candidate in idle {
            let brought = if candidate.sleeps { in_time } else { awake };
            if brought >= missing {
                continue;
            }
            in_time += candidate.hoped;
            awake += if candidate.sleeps { 0.0 } else { candidate.hoped };
            self.set(now, &candidate.node, NodeRole::Active);
        }
        self.deviations.too_little = None;
    }

    /// Releases the dearest while the pool stays above the target by a margin.
    fn release_surplus(&mut self, now: UnixMillis, pool: f64, target: f64) {
        let enough = target * (1.0 + MARGIN);
        if pool <= enough {
            self.deviations.too_much = None;
            return;
        }
        let since = *self.deviations.too_much.get_or_insert(now);
        if now.since(since) < self.patience_ms() {
            return;
        }
        self.deviations.too_much = Some(now);
        let (mut left, mut active) = (pool, self.candidates(now, Worker::works));
        let (most, mut standby_room) = (at_once(active.len()), self.standby_room());
        active.reverse();
        for candidate in active.into_iter().filter(|candidate| candidate.is_settled).take(most) {
            if left - candidate.rate < enough {
                break;
            }
            left -= candidate.rate;
            self.release(now, &candidate, &mut standby_room);
        }
    }

    /// Exchanges dear nodes for cheap ones, where that saves more than one node costs.
    fn compare_costs(&mut self, now: UnixMillis, target: f64) {
        let patience_ms = self.patience_ms();
        if self.deviations.compared.is_some_and(|at| now.since(at) < patience_ms) {
            return;
        }
        self.deviations.compared = Some(now);
        let all = self.candidates(now, |_| true);
        let mut brought = 0.0;
        let inside = all.iter().take_while(|candidate| {
            let is_missing = brought < target;
            brought += candidate.rate;
            is_missing
        });
        let (prefix, outside) = all.split_at(inside.count());
        let works = |candidate: &&Candidate| candidate.role == NodeRole::Active;
        let cost: f64 = all.iter().filter(works).map(|candidate| candidate.price).sum();
        let dearest = all.iter().filter(works).map(|candidate| candidate.price).fold(0.0, f64::max);
        let allowed = prefix.iter().map(|candidate| candidate.price).sum::<f64>() + dearest;
        // Sums in another order differ in their last digits.
        if cost <= allowed * (1.0 + 1e-9) {
            self.deviations.too_dear = None;
            return;
        }
        if now.since(*self.deviations.too_dear.get_or_insert(now)) < patience_ms {
            return;
        }
        let most = at_once(all.iter().filter(works).count());
        let missing: Vec<PublicKey> =
            prefix.iter().filter(|c| !works(c) && c.is_settled).map(|c| c.node).take(most).collect();
        if missing.is_empty() {
            let (mut cost, mut left, mut standby_room) = (cost, self.pool(), self.standby_room());
            let dear: Vec<Candidate> =
                outside.iter().rev().filter(|c| works(c) && c.is_settled).take(most).copied().collect();
            for candidate in dear {
                if cost <= allowed || left - candidate.rate < target {
                    break;
                }
                (cost, left) = (cost - candidate.price, left - candidate.rate);
                self.release(now, &candidate, &mut standby_room);
            }
        } else {
            missing.iter().for_each(|node| self.set(now, node, NodeRole::Active));
        }
    }

    /// Keeps as many nodes on standby as a fault may need.
    fn keep_standby(&mut self, now: UnixMillis) {
        let (wanted, there) = (self.wanted_standby(), self.count(NodeRole::Standby));
        if there < wanted {
            let mut resting = self.candidates(now, |worker| worker.role == NodeRole::Resting);
            // Who still asks begins at once. Who brings nothing is of no help after a fault.
            resting.sort_by_key(|candidate| candidate.sleeps);
            let chosen =
                resting.into_iter().filter(|candidate| candidate.is_settled && candidate.hoped > 0.0);
            for candidate in chosen.take(wanted - there) {
                self.set(now, &candidate.node, NodeRole::Standby);
            }
        } else if there > 2 * wanted {
            let mut standby = self.candidates(now, |worker| worker.role == NodeRole::Standby);
            standby.sort_by_key(|candidate| candidate.sleeps);
            let chosen = standby.into_iter().rev().filter(|candidate| candidate.is_settled);
            for candidate in chosen.take(there - wanted) {
                self.set(now, &candidate.node, NodeRole::Resting);
            }
        }
    }

    fn wanted_standby(&self) -> usize {
        self.count(NodeRole::Active).div_ceil(ACTIVE_A_STANDBY).max(1)
    }

    /// How many more nodes on standby are wanted that begin within seconds.
    fn standby_room(&self) -> usize {
        let begins =
            |worker: &&Worker| worker.available && worker.role == NodeRole::Standby && !worker.sleeps;
        self.wanted_standby().saturating_sub(self.workers.values().filter(begins).count())
    }

    fn release(&mut self, now: UnixMillis, candidate: &Candidate, standby_room: &mut usize) {
        // Who brings nothing is of no help after a fault.
        let stands_by = *standby_room > 0 && candidate.rate > 0.0;
        *standby_room -= usize::from(stands_by);
        let role = if stands_by { NodeRole::Standby } else { NodeRole::Resting };
        self.set(now, &candidate.node, role);
    }

    fn count(&self, role: NodeRole) -> usize {
        self.workers.values().filter(|worker| worker.available && worker.role == role).count()
    }

    /// The nodes that are there and wanted, cheapest first.
    fn candidates(&self, now: UnixMillis, wanted: impl Fn(&Worker) -> bool) -> Vec<Candidate> {
        let period_ms = self.at_least_an_update(PERIOD_MS);
        let there = self.workers.iter().filter(|(_, worker)| worker.available && wanted(worker));
        let mut candidates: Vec<Candidate> = there
            .map(|(node, worker)| Candidate {
                node: *node,
                price: self.price(worker),
                rate: self.rate(worker),
                hoped: self.hoped(worker),
                role: worker.role,
                sleeps: worker.sleeps,
                is_settled: worker.changed.is_none_or(|at| now.since(at) >= period_ms),
            })
            .collect();
        candidates.sort_unstable_by(Candidate::by_cost);
        candidates
    }

    fn set(&mut self, now: UnixMillis, node: &PublicKey, role: NodeRole) {
        if let Some(worker) = self.workers.get_mut(node) {
            worker.becomes(now, role);
        }
    }

    fn patience_ms(&self) -> u64 {
        self.at_least_an_update(RELEASE_AFTER_MS)
    }

    fn at_least_an_update(&self, ms: u64) -> u64 {
        self.demand.train_s().map_or(ms, |seconds| ms.max((seconds * 1e3) as u64))
    }
}

/// How many of so many active nodes change at once.
fn at_once(active: usize) -> usize {
    (active / AT_ONCE).max(1)
}
