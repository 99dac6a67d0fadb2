//! Work-ahead by lag: how many orders a node is leased, and which orders are leased a second time.
//!
//! A plain state machine: no clock, no files, no network. It imports nothing of the intake. An order is
//! leased if three things hold:
//!
//! - **In turn.** The update in which its turn comes, given what waits and is out, is at most S updates
//!   after the version that its node has installed.
//! - **In time.** By the node's own order time it comes back before the batch of that last update.
//! - **Wanted.** No more runs ahead than keeps the learner from waiting: batches stay fresh. A controller
//!   finds out how much that is.
//!
//! ```text
//! version reached, batch formed ──> period of an update, depth ─┐
//! leases granted, groups back ────> order time of each node ────┼─> room, or why there is none
//! what waits and is out ────────────────────────────────────────┘
//! batches that have passed ───────> orders that are too late: leased anew
//! a batch that waits ─────────────> a backup of one straggler, by a fast node
//! ```
//!
//! A request costs time in the number of orders that its own node holds. No step looks at all nodes or
//! orders, but for one in as many as there are nodes.

mod depth;
mod node_pace;

use std::collections::{BTreeMap, BTreeSet};

use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::{Lease, LeaseId};
use echo_protocol::work::order::OrderCounter;

use depth::Depth;
use node_pace::NodePace;

/// Weights of the newest update in the smoothed time of an update, where it was longer and where it was
/// shorter. The first one waits for nodes, and others for evaluations: what is too long is soon forgotten.
const PERIOD_WEIGHTS: (f64, f64) = (0.25, 0.5);
/// One order in so many may be leased a second time as a backup: 5 % of the work.
const ORDERS_A_BACKUP: u64 = 20;
/// A backup begins when an order is out for so many times the order time of the node that would make it.
const STRAGGLES_AFTER: f64 = 2.0;
/// Orders that are looked at for one that straggles.
const MAX_SEARCHED: usize = 64;
/// A node that is too slow gets an order to try after so many of its own order times.
const TRY_AGAIN_AFTER: f64 = 4.0;
/// Nodes whose pace is kept at least. Beyond, those without an order are forgotten now and then.
const MAX_NODES: usize = 1 << 14;

/// The numbers of a [`WorkAhead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkAheadConfig {
    /// S: largest lag of what is trained on, in updates.
    pub budget: u64,
    /// κ: updates from one publication to the next.
    pub period: u64,
    /// B: groups of a batch.
    pub batch: u64,
    /// How long a lease runs, in milliseconds.
    pub lifetime_ms: u64,
}

/// Where the learner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnerPosition {
    /// The learner's version.
    pub current: PolicyVersion,
    /// The first update that has no batch yet.
    pub unformed: PolicyVersion,
    /// Groups that wait for a batch, and orders that are out.
    pub ahead: u64,
}

/// Orders that are leased a second time, since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeasedAgain {
    /// Those that could only come back too old.
    pub late: u64,
    /// Those of stragglers that a batch waited for.
    pub backups: u64,
}

/// How far work may run ahead of the learner.
#[derive(Clone, Debug)]
pub struct WorkAhead {
    config: WorkAheadConfig,
    depth: Depth,
    version: PolicyVersion,
    /// When the learner came to `version`.
    reached: UnixMillis,
    /// When the batch at hand was first asked for; `None` once it is there.
    asked: Option<UnixMillis>,
    /// From one update to the next, smoothed, in milliseconds; `None` before the first.
    period_ms: Option<f64>,
    nodes: BTreeMap<PublicKey, NodePace>,
    /// Orders that are out and not late, by the version that their nodes had installed.
    out: BTreeSet<(PolicyVersion, OrderCounter, PublicKey)>,
    granted: u64,
    again: LeasedAgain,
    /// With so many nodes it is looked for those that hold nothing.
    forget_at: usize,
}

impl WorkAhead {
    /// Of a learner that comes to `version` now.
    pub fn new(config: WorkAheadConfig, now: UnixMillis, version: PolicyVersion) -> Self {
        Self {
            config,
            depth: Depth::new(config.budget, config.period, config.batch),
            version,
            reached: now,
            asked: None,
            period_ms: None,
            nodes: BTreeMap::new(),
            out: BTreeSet::new(),
            granted: 0,
            again: LeasedAgain::default(),
            forget_at: MAX_NODES,
        }
    }

    /// Notes the learner's version; the same one may be named again.
    pub fn at(&mut self, now: UnixMillis, version: PolicyVersion) {
        if version <= self.version {
            return;
        }
        let period = now.since(self.reached) as f64 / (version.0 - self.version.0) as f64;
        self.period_ms = Some(self.period_ms.map_or(period, |before| {
            let weight = if period > before { PERIOD_WEIGHTS.0 } else { PERIOD_WEIGHTS.1 };
            before + weight * (period - before)
        }));
        (self.version, self.reached, self.asked) = (version, now, None);
    }

    /// Notes that the batch at hand is asked for and not there.
    pub fn waits(&mut self, now: UnixMillis) {
        self.asked.get_or_insert(now);
    }

    /// Notes that the batch at hand is formed, and that `spare` groups are left that wait.
    pub fn formed(&mut self, now: UnixMillis, spare: u64) {
        let waited_ms = self.asked.take().map_or(0, |asked| now.since(asked));
        // The first batch has nothing to be compared with: everybody has waited for the first policy.
        if let Some(period_ms) = self.period_ms {
            self.depth.formed(waited_ms as f64 / period_ms.max(1.0), spare);
        }
    }

    /// Orders that `node` may be leased now; fewer than it wants where more would be of no use.
    ///
    /// # Errors
    /// Why the node gets none for long, in words for its owner.
    pub fn room(
        &mut self,
        now: UnixMillis,
        node: &PublicKey,
        installed: PolicyVersion,
        position: &LearnerPosition,
    ) -> Result<u64, String> {
        let wanted = self.in_turn(installed, position).min(self.wanted(position));
        let (period_ms, horizon_ms) = (self.period(now), self.horizon(now, installed, position));
        let lifetime_ms = self.config.lifetime_ms;
        let Some(pace) = self.nodes.get_mut(node) else { return Ok(wanted.min(node_pace::FIRST_ORDERS)) };
        for (version, counter) in pace.forget(now, lifetime_ms) {
            self.out.remove(&(version, counter, *node));
        }
        if let Some(period_ms) = period_ms
            && let Some(refused) = pace.too_slow(self.config.budget, period_ms)
        {
            if pace.may_try(now, TRY_AGAIN_AFTER) {
                return Ok(wanted.min(1));
            }
            return Err(refused);
        }
        Ok(wanted.min(pace.allowed(horizon_ms).saturating_sub(pace.holding())))
    }

    /// Notes what `node` was leased, with the version that it had installed.
    pub fn granted(&mut self, now: UnixMillis, node: PublicKey, installed: PolicyVersion, leases: &[Lease]) {
        if leases.is_empty() {
            return;
        }
        self.forget_idle_nodes();
        let pace = self.nodes.entry(node).or_default();
        for (lease, counter) in leases.iter().flat_map(|lease| lease.orders().map(|order| (lease.id, order)))
        {
            self.granted += 1;
            if let Some(before) = pace.lease(now, counter, lease, installed) {
                self.out.remove(&(before, counter, node));
            }
            self.out.insert((installed, counter, node));
        }
    }

    /// Notes that the group of an order came back from `node`, whatever it was worth.
    pub fn came_back(&mut self, now: UnixMillis, node: &PublicKey, counter: OrderCounter) {
        let back = self.nodes.get_mut(node).and_then(|pace| pace.came_back(now, counter));
        if let Some(version) = back {
            self.out.remove(&(version, counter, *node));
        }
    }

    /// Notes that `node` will not do an order.
    pub fn given_back(&mut self, node: &PublicKey, counter: OrderCounter) {
        let given_back = self.nodes.get_mut(node).and_then(|pace| pace.give_back(counter));
        if let Some(version) = given_back {
            self.out.remove(&(version, counter, *node));
        }
    }

    /// Notes that `node` is gone. Its pace is kept: it may come back.
    pub fn gone(&mut self, node: &PublicKey) {
        let Some(pace) = self.nodes.get_mut(node) else { return };
        for (version, counter) in pace.drop_all() {
            self.out.remove(&(version, counter, *node));
        }
        if !pace.is_measured() {
            self.nodes.remove(node);
        }
    }

    /// The orders that can only come back too old, each once, with the leases that they are out under. They
    /// count no longer, and are to be leased anew.
    pub fn late(&mut self, now: UnixMillis, position: &LearnerPosition) -> Vec<(LeaseId, OrderCounter)> {
        let mut late = Vec::new();
        while let Some(&(version, counter, node)) = self.out.first()
            && version.0.saturating_add(self.config.budget) < position.unformed.0
        {
            self.out.pop_first();
            late.extend(self.nodes.get_mut(&node).and_then(|pace| {
                let lease = pace.late(counter)?;
                pace.waited_for(now, counter);
                Some((lease, counter))
            }));
        }
        self.again.late += late.len() as u64;
        late
    }

    /// An order that the batch at hand waits for and that straggles, for `node` to make too; with the lease
    /// that it is out under. At most one order in twenty.
    pub fn straggler(
        &mut self,
        now: UnixMillis,
        node: &PublicKey,
        installed: PolicyVersion,
        position: &LearnerPosition,
    ) -> Option<(LeaseId, OrderCounter)> {
        let is_waiting = self.asked.is_some() && position.unformed == position.current;
        if !is_waiting || self.again.backups.saturating_mul(ORDERS_A_BACKUP) >= self.granted {
            return None;
        }
        let horizon_ms = self.horizon(now, installed, position);
        let maker = self.nodes.get(node)?;
        let order_ms = maker.order_ms().filter(|_| maker.holding() < maker.allowed(horizon_ms))?;
        let straggles = |(_, counter, holder): &&(PolicyVersion, OrderCounter, PublicKey)| {
            let age_ms = self.nodes.get(holder).and_then(|pace| pace.age_ms(now, *counter));
            holder != node && age_ms.is_some_and(|age_ms| age_ms as f64 >= STRAGGLES_AFTER * order_ms)
        };
        let found = *self.out.iter().take(MAX_SEARCHED).find(straggles)?;
        let (_, counter, holder) = found;
        self.out.remove(&found);
        let lease = self.nodes.get_mut(&holder)?.late(counter)?;
        self.again.backups += 1;
        Some((lease, counter))
    }

    /// Orders that may run ahead of the update at hand now: η·B of AReaL's rule, as it was measured.
    pub fn depth(&self) -> u64 {
        self.depth.orders()
    }

    /// Orders that were leased a second time.
    pub fn leased_again(&self) -> LeasedAgain {
        self.again
    }

    /// Whether a node gets no orders for now because none would come back within S updates.
    pub fn refuses(&self, node: &PublicKey) -> bool {
        self.nodes.get(node).is_some_and(NodePace::is_refused)
    }

    /// Orders whose turn comes within S updates of `installed`.
    fn in_turn(&self, installed: PolicyVersion, position: &LearnerPosition) -> u64 {
        // Nobody has a version that the learner has not come to; one that was put back may hear of one.
        let last = installed.min(position.current).0.saturating_add(self.config.budget);
        let updates = last.saturating_add(1).saturating_sub(position.unformed.0);
        updates.saturating_mul(self.config.batch).saturating_sub(position.ahead)
    }

    /// Orders that are missing for the batch at hand and the work ahead.
    fn wanted(&self, position: &LearnerPosition) -> u64 {
        let formed = position.unformed.0.saturating_sub(position.current.0);
        let at_hand = if formed == 0 { self.config.batch } else { 0 };
        // Batches of updates that come later are work ahead too: a resumed learner has them in its journal.
        let journaled = formed.saturating_sub(1).saturating_mul(self.config.batch);
        let limit = self.depth.orders().saturating_add(at_hand);
        limit.saturating_sub(position.ahead.saturating_add(journaled))
    }

    /// Milliseconds of an update, waiting included: where no update comes, any order is in time.
    fn period(&self, now: UnixMillis) -> Option<f64> {
        self.period_ms.map(|period_ms| period_ms.max(now.since(self.reached) as f64).max(1.0))
    }

    /// Milliseconds until the last batch that may take an order begun under `installed`; `None` while
    /// the time of an update is unknown.
    fn horizon(&self, now: UnixMillis, installed: PolicyVersion, position: &LearnerPosition) -> Option<f64> {
        let period_ms = self.period(now)?;
        let last = installed.0.saturating_add(self.config.budget);
        let left = last.saturating_sub(position.current.0) as f64;
        if position.unformed == position.current {
            // The learner waits: its version stands still until the batch is there.
            return Some((left + 1.0) * period_ms);
        }
        let passed = (now.since(self.reached) as f64).min(period_ms);
        Some((left * period_ms - passed).max(0.0))
    }

    /// Looks at all nodes only when they are twice as many as it kept the last time: where all hold orders,
    /// each lease would look at all of them.
    fn forget_idle_nodes(&mut self) {
        if self.nodes.len() >= self.forget_at {
            self.nodes.retain(|_, pace| pace.holding() > 0);
            self.forget_at = MAX_NODES.max(2 * self.nodes.len());
        }
    }
}

#[cfg(test)]
mod simulated_fleet;
#[cfg(test)]
mod tests;
