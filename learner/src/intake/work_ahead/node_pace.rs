//! How fast a node is, by its own orders: from each lease to the group that comes back.

use std::collections::BTreeMap;

use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;

/// Orders that a node holds at most before its first one is back.
pub(super) const FIRST_ORDERS: u64 = 2;
/// Weight of the newest order in the smoothed numbers.
const WEIGHT: f64 = 0.25;
/// The same for an order that a node was given to try: what made it slow may be over.
const WEIGHT_OF_TRIAL: f64 = 0.75;
/// A node's stock may take this share of the time that its orders have. The rest is for the slower ones.
const STOCK_SHARE: f64 = 0.5;

/// An order that a node holds.
#[derive(Clone, Copy, Debug)]
struct HeldSince {
    lease: LeaseId,
    since: UnixMillis,
    /// What the node had installed.
    version: PolicyVersion,
    /// It was leased anew, and does not count.
    is_late: bool,
}

/// Order time, rate and orders of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodePace {
    /// From lease to return, smoothed, in milliseconds; `None` before the first.
    order_ms: Option<f64>,
    /// Orders that it held meanwhile, smoothed: divided by `order_ms`, its rate.
    held: f64,
    out: BTreeMap<OrderCounter, HeldSince>,
    /// When an order came back last, or it was given one to try.
    tried: UnixMillis,
    /// What its owner is told while it is too slow. Kept, so that the same words are said again.
    refused: Option<String>,
}

impl NodePace {
    /// Whether an order has shown its pace.
    pub(super) fn is_measured(&self) -> bool {
        self.order_ms.is_some()
    }

    /// Milliseconds from a lease to its return.
    pub(super) fn order_ms(&self) -> Option<f64> {
        self.order_ms
    }

    /// Orders that it holds, late ones included: they still keep it busy.
    pub(super) fn holding(&self) -> u64 {
        self.out.len() as u64
    }

    /// Orders that it may hold, if each has `horizon_ms` to come back.
    pub(super) fn allowed(&self, horizon_ms: Option<f64>) -> u64 {
        let (Some(order_ms), Some(horizon_ms)) = (self.order_ms, horizon_ms) else {
            return if self.is_measured() { u64::MAX } else { FIRST_ORDERS };
        };
        let (held, order_ms) = (self.held.max(1.0), order_ms.max(1.0));
        let allowed = if order_ms <= horizon_ms {
            // What it holds at once comes back in time, so at least that.
            (held * STOCK_SHARE * horizon_ms / order_ms).max(held.round())
        } else {
            held * horizon_ms / order_ms
        };
        allowed as u64
    }

    /// Why it gets no orders, where not even one at a time comes back within S updates.
    pub(super) fn too_slow(&mut self, budget: u64, period_ms: f64) -> Option<String> {
        // Whatever it held was worked on side by side or in turn: one alone takes no less than this.
        let alone_ms = self.order_ms? / self.held.max(1.0);
        let allowed_ms = budget as f64 * period_ms;
        if alone_ms <= allowed_ms {
            self.refused = None;
            return None;
        }
        // A node shows its owner the first 200 characters.
        let text = || {
            format!(
                "an order takes this node {:.1} s; with S = {budget} and an update every {:.1} s it may take {:.1} s. It gets one now \
                 and then to try; roles = [\"verifier\", \"relay\"] give it other work",
                alone_ms / 1e3,
                period_ms / 1e3,
                allowed_ms / 1e3
            )
        };
        Some(self.refused.get_or_insert_with(text).clone())
    }

    /// Whether it was found to be too slow when it asked last, and no order has come back since.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Whether a node that is too slow may try one order now: it holds none, and the last is so many order
    /// times ago. Notes that it does.
    pub(super) fn may_try(&mut self, now: UnixMillis, order_times: f64) -> bool {
        let pause_ms = self.order_ms.unwrap_or_default() * order_times;
        let may = self.out.is_empty() && now.since(self.tried) as f64 >= pause_ms;
        if may {
            self.tried = now;
        }
        may
    }

    /// Notes a lease. Returns the version that the same order was leased for before, if the node holds it.
    pub(super) fn lease(
        &mut self,
        now: UnixMillis,
        counter: OrderCounter,
        lease: LeaseId,
        version: PolicyVersion,
    ) -> Option<PolicyVersion> {
        let held = HeldSince { lease, since: now, version, is_late: false };
        self.out.insert(counter, held).map(|before| before.version)
    }

    /// Notes that an order came back; the version that it was leased for.
    pub(super) fn came_back(&mut self, now: UnixMillis, counter: OrderCounter) -> Option<PolicyVersion> {
        let held = self.out.len();
        let order = self.out.remove(&counter)?;
        let is_trial = self.refused.take().is_some() && held == 1;
        self.measure(now.since(order.since), held, if is_trial { WEIGHT_OF_TRIAL } else { WEIGHT });
        self.tried = now;
        Some(order.version)
    }

    /// Notes how long an order is out that has not come back.
    pub(super) fn waited_for(&mut self, now: UnixMillis, counter: OrderCounter) {
        let held = self.out.len();
        if let Some(age_ms) = self.age_ms(now, counter) {
            self.measure(age_ms, held, WEIGHT);
        }
    }

    /// Notes that it will not do an order; the version that it was leased for.
    pub(super) fn give_back(&mut self, counter: OrderCounter) -> Option<PolicyVersion> {
        self.out.remove(&counter).map(|order| order.version)
    }

    /// Notes that an order is leased anew, and returns the lease that it is out under; `None` if it was
    /// already.
    pub(super) fn late(&mut self, counter: OrderCounter) -> Option<LeaseId> {
        let order = self.out.get_mut(&counter).filter(|order| !order.is_late)?;
        order.is_late = true;
        Some(order.lease)
    }

    /// Milliseconds that an order is out.
    pub(super) fn age_ms(&self, now: UnixMillis, counter: OrderCounter) -> Option<u64> {
        self.out.get(&counter).map(|order| now.since(order.since))
    }

    /// Lets all its orders go, and returns them with the versions that they were leased for.
    pub(super) fn drop_all(&mut self) -> Vec<(PolicyVersion, OrderCounter)> {
        std::mem::take(&mut self.out).into_iter().map(|(counter, order)| (order.version, counter)).collect()
    }

    /// Lets orders go whose leases are over, and returns them likewise.
    pub(super) fn forget(&mut self, now: UnixMillis, lifetime_ms: u64) -> Vec<(PolicyVersion, OrderCounter)> {
        let over = self.out.extract_if(.., |_, order| now.since(order.since) >= lifetime_ms);
        over.map(|(counter, order)| (order.version, counter)).collect()
    }

    fn measure(&mut self, order_ms: u64, held: usize, weight: f64) {
        let (order_ms, held) = (order_ms as f64, held as f64);
        match &mut self.order_ms {
            None => (self.order_ms, self.held) = (Some(order_ms), held),
            Some(before) => {
                *before += weight * (order_ms - *before);
                self.held += weight * (held - self.held);
            }
        }
    }
}
