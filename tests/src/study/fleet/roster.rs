//! Who works, by the learner's own capacity machine, and the rules that it has to keep.
//!
//! The rules are those of decision 72, computed here once more from what each node costs and brings. They
//! are checked at each look at the fleet:
//!
//! - Who stands by or rests gets no orders.
//! - No node changes its role twice within a minute, or within an update, faults excepted.
//! - After a fault the pool is at its target again, or nobody is left who asks and does not work.
//! - Where nothing else is amiss, nodes that cost more than the cheapest prefix and one node are exchanged
//!   in the time that it takes to be sure.
//! - Where nobody has come or gone for long, active nodes do not cost more than the cheapest prefix of a
//!   tenth more than is needed, and one node, for longer than that.

use super::market::{Market, NodeWord};
use super::node::{key, number};
use super::rule::Rule;
use anyhow::{Context as _, ensure};
use echo_learner::fleet::capacity::{
    Beat, Beats, Capacity, CapacityConfig, CapacityReport, CapacityState, NodeRole, Seat,
};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::time::UnixMillis;

/// No node changes twice within so many milliseconds, or within an update.
const PERIOD_MS: u64 = 60_000;
/// What is too dear has to last so long, in milliseconds, or an update.
const PATIENCE_MS: u64 = 30_000;
/// In a fleet that nobody has joined or left for so many of these times, a tenth of the nodes after the other
/// has been exchanged: no more than one in twelve is left.
const CALM: u64 = 24;
/// In such a fleet nodes are too dear for at most so many of these times: two pass before the first are
/// exchanged, and what a shorter broadcast sets free takes some more.
const LASTS: u64 = 8;
/// By so much of the target the pool may exceed it for good.
const MARGIN: f64 = 0.1;
/// Sums in another order differ in their last digits.
const ROUNDING: f64 = 1e-6;

/// What a node says at a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostWord {
    pub(super) beats: Beats,
    /// Orders that it has.
    pub(super) held: usize,
}

/// What came of choosing. Times are those of nodes that are there, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RoleTally {
    pub(crate) looks: u64,
    /// Looks at which nothing was amiss and nothing changed.
    pub(crate) steady_looks: u64,
    /// Changes of roles.
    pub(crate) changes: u64,
    /// Looks at which an active node was missing.
    pub(crate) faults: u64,
    /// Nodes on standby that began at such a look.
    pub(crate) stepped_in: u64,
    /// Times a node was told to rest.
    pub(crate) rests: u64,
    pub(crate) present_ms: u64,
    pub(crate) standby_ms: u64,
    pub(crate) resting_ms: u64,
    /// Over steady looks: what active nodes cost, and what the cheapest prefix and one node cost, in
    /// dollars an hour; and the largest share of the one in the other.
    pub(crate) cost: f64,
    pub(crate) allowed: f64,
    pub(crate) dearest: f64,
    /// Looks at a fleet that nobody had joined or left for long, and those at which nodes were too dear.
    pub(crate) calm_looks: u64,
    pub(crate) calm_dear_looks: u64,
    /// What the learner's ledger says, in dollars.
    pub(crate) paid: f64,
}

/// What is remembered of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Whether this process of the learner has heard it.
    is_seated: bool,
    role: NodeRole,
    /// When its role changed last.
    changed: Option<u64>,
    is_available: bool,
    held: usize,
}

/// The fleet at one look.
#[derive(Clone, Debug, Default)]
struct Sight {
    seats: Vec<Seat>,
    changed: Vec<(usize, NodeRole)>,
    /// Whether an active node was missing.
    fault: bool,
}

/// Capacity and what is remembered of it.
pub(super) struct Roster {
    capacity: Capacity,
    config: CapacityConfig,
    words: Vec<NodeWord>,
    /// What a restarted learner goes on from.
    saved: CapacityState,
    known: Vec<Known>,
    /// Whether an active node has gone since the last look.
    fault: bool,
    looked: u64,
    /// Since when nodes have cost too much, while nothing changed.
    dear_since: Option<u64>,
    /// The same in a calm fleet, and by a margin, whatever changed.
    calm_dear_since: Option<u64>,
    /// When somebody came or went last.
    stirred: u64,
    tally: RoleTally,
}

impl Roster {
    pub(super) fn new(market: &Market) -> Self {
        let Market { config, words, before } = market;
        let mut capacity = Capacity::new(config.clone(), UnixMillis(0));
        capacity.restore(before.clone());
        Self {
            capacity,
            config: config.clone(),
            words: words.clone(),
            saved: before.clone(),
            known: vec![Known::default(); words.len()],
            fault: false,
            looked: 0,
            dear_since: None,
            calm_dear_since: None,
            stirred: 0,
            tally: RoleTally::default(),
        }
    }

    /// A node is heard for the first time, or of another version.
    pub(super) fn heard(&mut self, now: UnixMillis, node: usize, installed: Option<u64>, has_work: bool) {
        let NodeWord { declared, offer } = self.words[node].clone();
        let installed = installed.map(PolicyVersion);
        self.capacity.heard(
            now,
            key(node),
            Beat { installed, declared, has_work, is_known: true, offer, ..Beat::default() },
        );
    }

    /// A node comes.
    pub(super) fn joins(&mut self, now: UnixMillis, node: usize) {
        self.heard(now, node, None, false);
        self.stirred = now.0;
        let role = self.capacity.role(&key(node));
        self.known[node] = Known { is_seated: true, role, is_available: true, ..Known::default() };
    }

    /// A node is gone.
    pub(super) fn gone(&mut self, now: UnixMillis, node: usize) {
        self.capacity.gone(&key(node));
        self.stirred = now.0;
        let Known { is_seated, role, .. } = std::mem::take(&mut self.known[node]);
        self.fault |= is_seated && role == NodeRole::Active;
    }

    /// A node asks: what it does, and for how many milliseconds it does not ask again.
    pub(super) fn asks(&mut self, now: UnixMillis, node: usize) -> (NodeRole, u64) {
        let role = self.capacity.asks(now, &key(node));
        let is_resting = role == NodeRole::Resting;
        self.tally.rests += u64::from(is_resting);
        let rest = || u64::try_from(self.capacity.rest().pause().as_millis()).unwrap_or(u64::MAX);
        (role, if is_resting { rest() } else { 0 })
    }

    pub(super) fn accepted(&mut self, node: usize) {
        self.capacity.accepted(&key(node), 1);
    }

    pub(super) fn waits(&mut self, now: UnixMillis) {
        self.capacity.waits(now);
    }

    pub(super) fn goes_on(&mut self, filtered: u64, groups: usize) {
        self.capacity.goes_on(filtered, groups as u64);
    }

    pub(super) fn updated(&mut self, now: UnixMillis, millis: u64) {
        self.capacity.updated(now, millis as f64 / 1e3);
    }

    /// A version goes out.
    pub(super) fn published(&mut self, now: UnixMillis, version: u64) {
        self.capacity.published(now, PolicyVersion(version));
    }

    /// A checkpoint is durable.
    pub(super) fn saves(&mut self) {
        self.saved = self.capacity.state();
    }

    /// The learner is started again. It has heard nobody yet.
    pub(super) fn crash(&mut self, now: UnixMillis) {
        self.capacity = Capacity::new(self.config.clone(), now);
        self.capacity.restore(self.saved.clone());
        (self.fault, self.looked, self.stirred) = (false, now.0, now.0);
        (self.dear_since, self.calm_dear_since) = (None, None);
        self.known.fill(Known::default());
    }

    /// After a restart, a node is heard that is there: with these orders, under this version.
    pub(super) fn found(&mut self, now: UnixMillis, node: usize, installed: Option<u64>, held: usize) {
        self.heard(now, node, installed, held > 0);
        let role = self.capacity.role(&key(node));
        self.known[node] = Known { is_seated: true, role, is_available: true, held, changed: None };
    }

    /// Hears all of those that are there, has it decided who works, and checks every rule. Returns whose
    /// role has changed.
    pub(super) fn look(
        &mut self,
        now: UnixMillis,
        present: usize,
        of: impl Fn(usize) -> Option<HostWord>,
    ) -> anyhow::Result<Vec<(usize, NodeRole)>> {
        self.capacity.heard_all(now, |node| of(number(node)).map(|word| word.beats));
        self.capacity.tick(now);
        let sight = self.see(now, present, of)?;
        let pool: f64 = sight.seats.iter().filter(|seat| works(seat)).map(|seat| seat.rate).sum();
        let target = self.capacity.target().filter(|_| self.capacity.chooses());
        if let (true, Some(target)) = (sight.fault, target) {
            mended(&sight, pool, target).context(Rule::Faults)?;
        }
        let is_quiet = sight.changed.is_empty() && !sight.fault;
        // Who is to work and does not know it yet is counted on, and brings nothing.
        let all_awake = !sight.seats.iter().any(|seat| seat.role == NodeRole::Active && seat.sleeps);
        let enough = target.filter(|target| all_awake && pool >= *target);
        match enough.filter(|_| is_quiet) {
            Some(target) => self.compare(now, &sight.seats, target).context(Rule::Cost)?,
            None => self.dear_since = None,
        }
        let is_calm = self.is_calm(now);
        match enough.filter(|_| is_calm) {
            Some(target) => self.compare_calm(now, &sight.seats, target).context(Rule::Cost)?,
            None => self.calm_dear_since = None,
        }
        self.looked = now.0;
        Ok(sight.changed)
    }

    /// What has become of everybody since the last look.
    fn see(
        &mut self,
        now: UnixMillis,
        present: usize,
        of: impl Fn(usize) -> Option<HostWord>,
    ) -> anyhow::Result<Sight> {
        let elapsed = now.since(UnixMillis(self.looked));
        let mut sight = Sight { fault: std::mem::take(&mut self.fault), ..Sight::default() };
        let (mut seated, mut stepped_in) = (0, 0);
        for seat in self.capacity.seats() {
            let node = number(&seat.node);
            let word = of(node);
            let known = &mut self.known[node];
            seated += usize::from(word.is_some());
            if known.is_available && !seat.available {
                self.stirred = now.0;
                sight.fault |= known.role == NodeRole::Active;
            }
            let held = word.map_or(0, |word| word.held);
            ensure_idle(node, known, held).context(Rule::Roles)?;
            if seat.role != known.role {
                stepped_in += u64::from(known.role == NodeRole::Standby && seat.role == NodeRole::Active);
                sight.changed.push((node, seat.role));
            }
            (known.is_available, known.held) = (seat.available, held);
            if word.is_some() {
                self.tally.present_ms += elapsed;
                self.tally.standby_ms += elapsed * u64::from(seat.role == NodeRole::Standby);
                self.tally.resting_ms += elapsed * u64::from(seat.role == NodeRole::Resting);
            }
            sight.seats.push(seat);
        }
        let all_seated = (seated == present).then_some(());
        all_seated
            .with_context(|| format!("of {present} nodes capacity knows {seated}"))
            .context(Rule::Roles)?;
        self.note_changes(now, &sight).context(Rule::Flapping)?;
        self.tally.looks += 1;
        self.tally.faults += u64::from(sight.fault);
        self.tally.stepped_in += if sight.fault { stepped_in } else { 0 };
        Ok(sight)
    }

    /// Notes new roles, and that they are not taken on too soon.
    fn note_changes(&mut self, now: UnixMillis, sight: &Sight) -> anyhow::Result<()> {
        let (chooses, period_ms) = (self.capacity.chooses(), self.at_least_an_update(PERIOD_MS));
        for &(node, role) in &sight.changed {
            let known = &mut self.known[node];
            let steps_in = sight.fault && role == NodeRole::Active;
            let too_soon = known.changed.filter(|at| now.0 - at < period_ms && chooses && !steps_in);
            ensure!(
                too_soon.is_none(),
                "node {node} becomes {role:?}, and became {:?} less than {period_ms} ms ago",
                known.role
            );
            (known.role, known.changed) = (role, Some(now.0));
        }
        self.tally.changes += sight.changed.len() as u64;
        Ok(())
    }

    /// Compares what works with the cheapest that would be enough.
    fn compare(&mut self, now: UnixMillis, seats: &[Seat], target: f64) -> anyhow::Result<()> {
        let (cost, allowed) = costs(seats, target);
        self.tally.steady_looks += 1;
        self.tally.cost += cost;
        self.tally.allowed += allowed;
        if allowed > 0.0 {
            self.tally.dearest = self.tally.dearest.max(cost / allowed);
        }
        if cost <= allowed * (1.0 + ROUNDING) {
            self.dear_since = None;
            return Ok(());
        }
        // Two comparisons, of nodes none of which has just changed.
        let patience_ms = self.at_least_an_update(PATIENCE_MS);
        let gap_ms = now.since(UnixMillis(self.looked));
        let longest_ms = self.at_least_an_update(PERIOD_MS) + 2 * patience_ms + 3 * gap_ms;
        let since = *self.dear_since.get_or_insert(now.0);
        ensure!(
            now.0 - since <= longest_ms,
            "for {} ms active nodes have cost {cost:.3} $ an hour, the cheapest prefix and one node {allowed:.3} $",
            now.0 - since
        );
        Ok(())
    }

    fn is_calm(&self, now: UnixMillis) -> bool {
        now.0 - self.stirred >= CALM * self.at_least_an_update(PATIENCE_MS)
    }

    /// Compares what works in a calm fleet with the cheapest that would bring a tenth more than is needed.
    fn compare_calm(&mut self, now: UnixMillis, seats: &[Seat], target: f64) -> anyhow::Result<()> {
        let (cost, allowed) = costs(seats, target * (1.0 + MARGIN));
        self.tally.calm_looks += 1;
        if cost <= allowed * (1.0 + ROUNDING) {
            self.calm_dear_since = None;
            return Ok(());
        }
        self.tally.calm_dear_looks += 1;
        let gap_ms = now.since(UnixMillis(self.looked));
        let longest_ms = LASTS * self.at_least_an_update(PATIENCE_MS) + 3 * gap_ms;
        let since = *self.calm_dear_since.get_or_insert(now.0);
        ensure!(
            now.0 - since <= longest_ms,
            "in a calm fleet active nodes have cost {cost:.3} $ an hour for {} ms, with {allowed:.3} $ for a tenth more",
            now.0 - since
        );
        Ok(())
    }

    fn at_least_an_update(&self, millis: u64) -> u64 {
        self.capacity.train_s().map_or(millis, |seconds| millis.max((seconds * 1e3) as u64))
    }

    /// What came of it, at the end.
    pub(super) fn tally(&self) -> RoleTally {
        let CapacityReport { usd, .. } = self.capacity.report();
        RoleTally { paid: usd, ..self.tally.clone() }
    }
}

fn works(seat: &Seat) -> bool {
    seat.available && seat.role == NodeRole::Active && !seat.sleeps
}

/// Who did not work since the last look was given nothing.
fn ensure_idle(node: usize, known: &Known, held: usize) -> anyhow::Result<()> {
    let is_idle = known.role == NodeRole::Active || held <= known.held;
    ensure!(is_idle, "node {node} is {:?} and has {held} orders after {}", known.role, known.held);
    Ok(())
}

/// Whether all that could begin at once does, where too little is left.
fn mended(sight: &Sight, pool: f64, target: f64) -> anyhow::Result<()> {
    let could =
        |seat: &&Seat| seat.available && seat.role != NodeRole::Active && !seat.sleeps && seat.rate > 0.0;
    let idle = sight.seats.iter().filter(could).count();
    let is_mended = pool >= target * (1.0 - ROUNDING) || idle == 0;
    ensure!(is_mended, "after a fault, {pool} of {target} rollouts/s are there, and {idle} nodes do nothing");
    Ok(())
}

/// Dollars an hour of active nodes, and of the cheapest prefix that brings `target` and the dearest active
/// node.
fn costs(seats: &[Seat], target: f64) -> (f64, f64) {
    let mut here: Vec<&Seat> = seats.iter().filter(|seat| seat.available).collect();
    let cost_of_rate = |seat: &Seat| if seat.rate > 0.0 { seat.price / seat.rate } else { f64::INFINITY };
    let rests = |seat: &Seat| seat.role != NodeRole::Active;
    here.sort_unstable_by(|a, b| {
        let order = cost_of_rate(a).total_cmp(&cost_of_rate(b)).then(rests(a).cmp(&rests(b)));
        order.then(b.rate.total_cmp(&a.rate)).then(a.node.cmp(&b.node))
    });
    let active = || here.iter().filter(|seat| seat.role == NodeRole::Active).map(|seat| seat.price);
    let (mut brought, mut prefix) = (0.0, 0.0);
    for seat in &here {
        if brought >= target {
            break;
        }
        (brought, prefix) = (brought + seat.rate, prefix + seat.price);
    }
    (active().sum(), prefix + active().fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(node: usize, role: NodeRole, price: f64, rate: f64) -> Seat {
        Seat { node: key(node), role, available: true, sleeps: false, price, rate }
    }

    #[test]
    fn the_cheapest_that_are_enough_and_one_node_are_allowed() {
        let seats = [
            seat(0, NodeRole::Active, 3.0, 1.0),
            seat(1, NodeRole::Resting, 0.5, 1.0),
            seat(2, NodeRole::Active, 0.0, 1.0),
            seat(3, NodeRole::Standby, 1.0, 1.0),
            Seat { available: false, ..seat(4, NodeRole::Active, 9.0, 9.0) },
        ];
        // The free one and the half dollar bring two.
        assert_eq!(costs(&seats, 2.0), (3.0, 0.5 + 3.0));
        assert_eq!(costs(&seats, 2.5), (3.0, 1.5 + 3.0));
        assert_eq!(costs(&seats, 99.0), (3.0, 4.5 + 3.0));
    }

    #[test]
    fn broken_rules_are_noticed() {
        let known = |role| Known { role, held: 1, ..Known::default() };
        assert!(ensure_idle(3, &known(NodeRole::Standby), 2).is_err(), "it got an order");
        ensure_idle(3, &known(NodeRole::Standby), 1).unwrap();
        ensure_idle(3, &known(NodeRole::Active), 2).unwrap();

        let seats = vec![seat(0, NodeRole::Active, 1.0, 1.0), seat(1, NodeRole::Standby, 1.0, 1.0)];
        let sight = Sight { seats, changed: Vec::new(), fault: true };
        assert!(mended(&sight, 1.0, 1.5).is_err(), "one stands by");
        mended(&sight, 1.5, 1.5).unwrap();
        let asleep = Sight { seats: vec![Seat { sleeps: true, ..sight.seats[1] }], ..sight };
        mended(&asleep, 1.0, 1.5).unwrap();
    }
}
