//! What is simulated: a learner and its nodes, given by a study or drawn from a seed.

use super::chance::Chance;
use super::market::{Buyer, Market};
use super::node::SceneNode;
use crate::broadcast::fluid_bound::{BoundNode, FluidBound};
use echo_learner::fleet::chains::chain_count;
use echo_protocol::dissemination::DisseminationMode;
use echo_protocol::dissemination::simulation::{self, SimulationSetup};
use echo_protocol::wire::rate::BytesPerSec;

/// Milliseconds of an hour.
pub(crate) const HOUR_MS: u64 = 3_600_000;
/// Up to so many nodes some seeds run the machine of dissemination for the time of a broadcast.
const MACHINE_NODES: usize = 32;
/// One seed in so many does: it costs as much as a hundred that do not.
const SEEDS_A_MACHINE: u64 = 16;
/// What that machine is given to spread. Its time over the bound hardly depends on the size.
const MACHINE_BYTES: u64 = 4 << 20;
/// How much longer than the fluid bound a broadcast takes where the machine does not say. It is assumed, not
/// measured: no rule depends on it.
const OVERHEAD: f64 = 1.3;
/// Groups that a drawn fleet is to make, so that thousands of seeds pass in minutes.
const GROUPS_A_SEED: f64 = 3_000.0;
/// Largest drawn batch: below the limit of the buffer, so that a batch's groups fit beside those that wait.
const MAX_BATCH: f64 = 12_288.0;
/// A run may take so many times as long as its updates alone, then it ends as it is.
const PATIENCE: u64 = 30;

/// How long a version takes to the nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spread {
    /// So many milliseconds to everybody.
    Even(u64),
    /// By the fluid bound of the nodes that are there, times `overhead`, and by each node's link and place.
    Links { bytes: u64, source_up: BytesPerSec, overhead: f64 },
}

/// When it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// After so many updates, or when they have taken far too long.
    Updates(u64),
    /// At this time, in milliseconds.
    Millis(u64),
}

/// Something that happens to one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) at_ms: u64,
    pub(crate) node: usize,
    pub(crate) kind: ChangeKind,
}

/// What happens to it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChangeKind {
    /// It is gone without a word.
    Leaves,
    /// It comes and has the newest policy at once, as a node that stood by.
    Comes,
    /// Its orders take so many times as long from the next one on.
    Slows(f64),
    /// What it and those behind it in its chain receive now is so many milliseconds late.
    Stalls(u64),
}

/// A learner and its nodes. The same scene gives the same course.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) seed: u64,
    /// S; κ; B in groups.
    pub(crate) budget: u64,
    pub(crate) period: u64,
    pub(crate) batch: usize,
    /// T_train, in milliseconds.
    pub(crate) update_ms: f64,
    /// Standard deviation of the logarithms of order times, and of update times.
    pub(crate) sigma: (f64, f64),
    pub(crate) nodes: Vec<SceneNode>,
    /// What decides who works; without it all nodes work that are there.
    pub(crate) market: Option<Market>,
    pub(crate) spread: Spread,
    /// N_ch: chains that versions are passed on in.
    pub(crate) chains: usize,
    /// The first and the longest pause of a node that got too little. Nodes ask ten times a second; among
    /// 100,000 of them nothing else would be simulated.
    pub(crate) ask_again_ms: (u64, u64),
    /// Whether a node begins nothing while it receives a policy, as the workers of ECHO-2 (§3.3).
    pub(crate) waits_for_policy: bool,
    /// Departures of a node in an hour. Who leaves comes back, after `away_ms` on average.
    pub(crate) departures_per_hour: f64,
    pub(crate) away_ms: f64,
    /// The learner is killed while it is at this version.
    pub(crate) crash_at: Option<u64>,
    pub(crate) changes: Vec<Change>,
    pub(crate) end: End,
}

impl Scene {
    /// Orders that all nodes together make in a millisecond, were all of them there.
    pub(crate) fn rate(&self) -> f64 {
        self.nodes.iter().map(|node| 1.0 / node.order_ms).sum()
    }

    /// When the simulation ends whatever has been reached.
    pub(crate) fn limit_ms(&self) -> u64 {
        match self.end {
            End::Millis(millis) => millis,
            End::Updates(updates) => (self.update_ms as u64 + 1).saturating_mul(updates + 1) * PATIENCE,
        }
    }

    /// The fleet of a seed: speeds, order times, links, prices, churn, S and κ are drawn. Without `hours`
    /// it ends after a few updates.
    ///
    /// # Errors
    /// The rule that the machine of dissemination broke, where it runs.
    pub(crate) fn drawn(seed: u64, nodes: usize, hours: Option<f64>) -> Result<Self, String> {
        let mut chance = Chance::new(seed, b"scene");
        let budget = 2 + chance.below(5);
        let period = 1 + chance.below(budget.saturating_sub(1).max(1));
        let order_ms = chance.between_logs(30e3, 600e3);
        // In half of the fleets one node in twenty is an old laptop.
        let slow_share = if chance.below(2) == 0 { 0.0 } else { 0.05 };
        let nodes: Vec<SceneNode> = (0..nodes)
            .map(|_| {
                let slower = if chance.unit() < slow_share { 20.0 } else { 1.0 };
                let rate = |bits: f64| BytesPerSec((bits / 8.0) as u64);
                SceneNode {
                    order_ms: order_ms * slower * chance.between_logs(0.4, 2.5),
                    up: rate(chance.between_logs(10e6, 200e6)),
                    down: rate(chance.between_logs(50e6, 500e6)),
                    dollars_per_hour: if chance.below(3) == 0 { 0.0 } else { chance.between_logs(0.1, 3.0) },
                    is_present: true,
                }
            })
            .collect();
        let update_ms = order_ms * chance.between_logs(0.4, 2.0);
        // From a pool that is too small by a fifth to one of twice what is needed.
        let pool = chance.between_logs(0.8, 2.0);
        let mut scene = Self {
            seed,
            budget,
            period,
            batch: 1,
            update_ms,
            sigma: (0.5, 0.05),
            nodes,
            market: None,
            spread: Spread::Even(0),
            chains: 1,
            ask_again_ms: ((order_ms / 16.0) as u64, order_ms as u64),
            waits_for_policy: false,
            departures_per_hour: chance.between_logs(0.02, 1.0),
            away_ms: chance.between_logs(20e3, 600e3),
            crash_at: None,
            changes: Vec::new(),
            end: End::Updates(0),
        };
        let batch = (scene.rate() * update_ms / pool).clamp(1.0, MAX_BATCH);
        scene.batch = batch as usize;
        let updates = ((GROUPS_A_SEED / batch) as u64).clamp(2 * scene.period, 24);
        scene.end = match hours {
            Some(hours) => End::Millis((hours * HOUR_MS as f64) as u64),
            None => End::Updates(updates),
        };
        scene.crash_at = (chance.below(4) == 0).then(|| chance.below(updates));
        let source_up = BytesPerSec(chance.between_logs(300e6 / 8.0, 1e9 / 8.0) as u64);
        scene.spread = scene.links(source_up, &mut chance)?;
        let uplinks = scene.nodes.iter().map(|node| node.up.0).sum::<u64>();
        scene.chains = chain_count(source_up, BytesPerSec(uplinks / scene.nodes.len().max(1) as u64));
        let buyer = scene.buyer();
        scene.market = Some(Market::drawn(&buyer, &mut scene.nodes));
        Ok(scene)
    }

    /// The learner as its nodes see it.
    fn buyer(&self) -> Buyer {
        let broadcast_s = match self.spread {
            Spread::Even(millis) => millis as f64 / 1e3,
            Spread::Links { bytes, source_up, overhead } => {
                overhead * bytes as f64 / self.capacity(source_up).max(1.0)
            }
        };
        let Self { seed, period, batch, update_ms, .. } = *self;
        Buyer { seed, period, batch, update_s: update_ms / 1e3, broadcast_s }
    }

    /// A broadcast that takes a share of the updates between two publications.
    fn links(&self, source_up: BytesPerSec, chance: &mut Chance) -> Result<Spread, String> {
        let share = chance.between_logs(0.02, 0.8);
        let bytes = 1e6_f64.max(share * self.update_ms / 1e3 * self.capacity(source_up)) as u64;
        let overhead = self.overhead(source_up)?;
        Ok(Spread::Links { bytes, source_up, overhead })
    }

    /// Bytes a second that reach each node when all uplinks work.
    fn capacity(&self, source_up: BytesPerSec) -> f64 {
        let uplinks = self.nodes.iter().map(|node| node.up.0 as f64).sum::<f64>() + source_up.0 as f64;
        (uplinks / self.nodes.len().max(1) as f64).min(source_up.0 as f64)
    }

    /// How many times the fluid bound a broadcast takes; by the machine itself in some small fleets.
    fn overhead(&self, source_up: BytesPerSec) -> Result<f64, String> {
        if self.nodes.len() > MACHINE_NODES || !self.seed.is_multiple_of(SEEDS_A_MACHINE) {
            return Ok(OVERHEAD);
        }
        let setup = SimulationSetup {
            seed: self.seed,
            mode: DisseminationMode::Echo,
            source_up: source_up.0,
            up: self.nodes.iter().map(|node| node.up.0).collect(),
            down: self.nodes.iter().map(|node| node.down.0).min().unwrap_or(1),
            bytes: MACHINE_BYTES,
            chunk_bytes: 256 << 10,
            latency_ms: 20,
            churn_percent: 0,
            mesh: 8,
        };
        let timing = simulation::broadcast(&setup)?;
        match timing.complete == timing.living && timing.millis >= timing.bound_millis {
            true => Ok(timing.ratio()),
            false => Err(format!("a broadcast was not complete, or faster than its bound: {timing:?}")),
        }
    }
}

/// Milliseconds in which a snapshot reaches these uplinks' nodes by the fluid bound, without downlinks.
pub(crate) fn bound_ms(bytes: u64, source_up: BytesPerSec, ups: impl Iterator<Item = BytesPerSec>) -> f64 {
    let node = |up| BoundNode { up, down: BytesPerSec(u64::MAX), away_s: 0.0 };
    FluidBound { bytes, source_up, nodes: ups.map(node).collect(), capacity_change: None }.seconds() * 1e3
}
