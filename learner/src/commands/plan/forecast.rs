//! What a run asks of its fleet and what that costs, for each staleness budget: arithmetic alone.
//!
//! ```text
//! classes by ρ ─> one node more ─> T_bcast (fluid bound) ─> μ_min (eq. 2) ─> enough? ─> lag, cost
//!      ^───────────────────── not yet ─────────────────────────────┘
//! ```
//!
//! How long a broadcast takes depends on the nodes, and how many nodes are needed on the broadcast. So nodes
//! are added one by one, the cheapest first (eq. 3), until those that are there are enough.

use crate::fleet::chains::chain_count;
use echo_protocol::dissemination::DisseminationMode;
use echo_protocol::dissemination::fluid_bound::FluidBroadcast;
use echo_protocol::run::staleness::Pipeline;
use echo_protocol::wire::rate::BytesPerSec;
use serde::Serialize;
use std::cmp::Reverse;

/// S of the plan.
pub(super) const BUDGETS: std::ops::RangeInclusive<u64> = 1..=12;
/// Seconds of an hour and of a day.
const HOUR_S: f64 = 3_600.0;
const DAY_S: f64 = 86_400.0;
/// Bytes of a gigabyte.
const GB: f64 = 1e9;

/// Nodes of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NodeClass {
    pub(super) name: String,
    /// Nodes that can be had.
    pub(super) count: u64,
    /// c in dollars an hour.
    pub(super) price: f64,
    /// μ in rollouts a second.
    pub(super) rate: f64,
    /// Seconds of one order.
    pub(super) order_s: f64,
    /// Links in bytes a second.
    pub(super) up: BytesPerSec,
    pub(super) down: BytesPerSec,
}

/// What a plan is made from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlanInputs {
    /// T_train in seconds.
    pub(super) train_s: f64,
    /// R: trajectories of an update.
    pub(super) batch: f64,
    /// Updates of the run.
    pub(super) updates: u64,
    /// κ, where the run file sets it; otherwise S-1.
    pub(super) period: Option<u64>,
    pub(super) gamma: f64,
    /// The learner's machine in dollars an hour.
    pub(super) learner_price: f64,
    /// B0.
    pub(super) uplink: BytesPerSec,
    pub(super) mode: DisseminationMode,
    /// Bytes of a publication, and of one as deltas.
    pub(super) full_bytes: f64,
    pub(super) delta_bytes: f64,
    /// How many times the fluid bound a broadcast takes, and seconds from its end to the first order.
    pub(super) overhead: f64,
    pub(super) install_s: f64,
    /// Bytes of a trajectory on its way to the learner.
    pub(super) rollout_bytes: f64,
    pub(super) classes: Vec<NodeClass>,
}

/// What limits a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bottleneck {
    /// The learner's uplink.
    Source,
    /// The slowest downlink of those nodes that are waited for.
    Downlink,
    /// All uplinks together.
    Uplinks,
}

/// Why a budget is not safe.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "problem")]
pub(super) enum Obstacle {
    /// κ, which the run file sets, is longer than S+1.
    Period,
    /// A broadcast takes as long as the updates until the next one.
    Broadcast,
    /// All nodes together bring less than γ μ_min.
    Pool {
        /// Rollouts a second that are missing.
        missing: f64,
    },
    /// The lag by equation 7 is above S.
    Lag {
        /// That lag, in updates.
        lag: u64,
    },
}

/// Gigabytes a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Traffic {
    pub(super) learner_up_gb: f64,
    pub(super) learner_down_gb: f64,
    /// Of a node, on average.
    pub(super) node_up_gb: f64,
    pub(super) node_down_gb: f64,
}

/// Nodes of a class that work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Chosen {
    pub(super) class: String,
    pub(super) nodes: u64,
}

/// A budget with publications of one form.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Course {
    pub(super) nodes: Vec<Chosen>,
    /// T_bcast in seconds, to these nodes.
    pub(super) broadcast_s: f64,
    pub(super) bottleneck: Bottleneck,
    /// μ_min, γ μ_min and μ_pool in rollouts a second.
    pub(super) required: Option<f64>,
    pub(super) target: Option<f64>,
    pub(super) pool: f64,
    /// Δ_max by equations 7 and 12, in updates.
    pub(super) lag: Option<u64>,
    pub(super) lag_overlapping: Option<u64>,
    /// Dollars, the learner included.
    pub(super) usd_per_hour: f64,
    pub(super) usd_per_update: f64,
    pub(super) usd: f64,
    pub(super) traffic: Traffic,
    /// Classes whose orders cannot come back in time.
    pub(super) too_slow: Vec<String>,
    /// `None` where the budget is safe.
    pub(super) obstacle: Option<Obstacle>,
}

/// What one staleness budget comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Forecast {
    /// S and κ.
    pub(super) budget: u64,
    pub(super) period: u64,
    /// With publications as deltas, and in full.
    pub(super) deltas: Course,
    pub(super) full: Course,
}

impl PlanInputs {
    /// All budgets.
    pub(super) fn forecasts(&self) -> Vec<Forecast> {
        BUDGETS
            .map(|budget| {
                let period = self.period.unwrap_or(budget.saturating_sub(1).max(1));
                let course = |bytes| self.course(budget, period, bytes);
                let (deltas, full) = (course(self.delta_bytes), course(self.full_bytes));
                Forecast { budget, period, deltas, full }
            })
            .collect()
    }

    /// T_bcast to so many nodes of each class, and what limits it: the fluid bound of the share 1/γ, whose
    /// downlinks are the fastest, as everybody receives.
    fn broadcast(&self, counts: &[u64], bytes: f64) -> (f64, Bottleneck) {
        let nodes = counts.iter().sum::<u64>() as f64;
        let source = self.uplink.0 as f64;
        let each = || self.classes.iter().zip(counts).filter(|(_, count)| **count > 0);
        let ups: f64 = match self.mode {
            DisseminationMode::Star => 0.0,
            _ => each().map(|(class, count)| class.up.0 as f64 * *count as f64).sum(),
        };
        let mut downs: Vec<(BytesPerSec, u64)> = each().map(|(class, count)| (class.down, *count)).collect();
        downs.sort_by_key(|(down, _)| Reverse(*down));
        let (mut waited_for, mut slowest) = (nodes / self.gamma, source);
        for (down, count) in downs {
            if waited_for <= 0.0 {
                break;
            }
            (waited_for, slowest) = (waited_for - count as f64, down.0 as f64);
        }
        let fluid = FluidBroadcast { bytes, nodes, source_up: source, node_ups: ups };
        let terms = [
            (fluid.source_s(), Bottleneck::Source),
            (fluid.downlink_s(slowest), Bottleneck::Downlink),
            (fluid.uplinks_s(), Bottleneck::Uplinks),
        ];
        let first = terms[0];
        let (bound, bottleneck) =
            terms.into_iter().skip(1).fold(first, |most, term| if term.0 > most.0 { term } else { most });
        (bound * self.overhead + self.install_s, bottleneck)
    }

    fn pipeline(&self, broadcast_s: f64) -> Pipeline {
        Pipeline { train_s: self.train_s, broadcast_s, batch: self.batch }
    }

    /// The classes by ρ; of equals, the fastest first.
    fn by_cost(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.classes.len()).collect();
        let cost =
            |class: &NodeClass| if class.rate > 0.0 { class.price / class.rate } else { f64::INFINITY };
        order.sort_by(|a, b| {
            let (a, b) = (&self.classes[*a], &self.classes[*b]);
            cost(a).total_cmp(&cost(b)).then(b.rate.total_cmp(&a.rate))
        });
        order
    }

    /// The cheapest nodes that are enough for S = `budget` and κ = `period`, with so many bytes to publish.
    fn course(&self, budget: u64, period: u64, bytes: f64) -> Course {
        let mut counts = vec![0; self.classes.len()];
        let (mut pool, mut too_slow, mut is_enough) = (0.0, Vec::new(), false);
        let in_time_s = budget as f64 * self.train_s;
        'classes: for index in self.by_cost() {
            let class = &self.classes[index];
            for _ in 0..class.count {
                counts[index] += 1;
                let (broadcast_s, _) = self.broadcast(&counts, bytes);
                if class.order_s + broadcast_s > in_time_s {
                    counts[index] -= 1;
                    if counts[index] == 0 {
                        too_slow.push(class.name.clone());
                    }
                    break;
                }
                pool += class.rate;
                let required = self.pipeline(broadcast_s).required_rate(period);
                is_enough = required.is_some_and(|required| pool >= self.gamma * required);
                if is_enough {
                    break 'classes;
                }
            }
        }
        self.weighed(budget, period, bytes, Choice { counts, pool, too_slow, is_enough })
    }

    fn weighed(&self, budget: u64, period: u64, bytes: f64, choice: Choice) -> Course {
        let Choice { counts, pool, too_slow, is_enough } = choice;
        let (broadcast_s, bottleneck) = self.broadcast(&counts, bytes);
        let pipeline = self.pipeline(broadcast_s);
        let required = pipeline.required_rate(period);
        let target = required.map(|required| self.gamma * required);
        let lag = pipeline.worst_lag(period, pool);
        let obstacle = match (required, lag) {
            _ if period > budget + 1 => Some(Obstacle::Period),
            (None, _) => Some(Obstacle::Broadcast),
            (Some(required), _) if !is_enough => {
                Some(Obstacle::Pool { missing: self.gamma * required - pool })
            }
            (_, Some(lag)) if lag > budget => Some(Obstacle::Lag { lag }),
            _ => None,
        };
        let chosen = self.classes.iter().zip(&counts).filter(|(_, count)| **count > 0);
        let nodes_usd: f64 = chosen.clone().map(|(class, count)| class.price * *count as f64).sum();
        let usd_per_hour = nodes_usd + self.learner_price;
        let usd_per_update = usd_per_hour * self.train_s / HOUR_S;
        Course {
            nodes: chosen.map(|(class, nodes)| Chosen { class: class.name.clone(), nodes: *nodes }).collect(),
            broadcast_s,
            bottleneck,
            required,
            target,
            pool,
            lag,
            lag_overlapping: pipeline.worst_lag_overlapping(period),
            usd_per_hour,
            usd_per_update,
            usd: usd_per_update * self.updates as f64,
            traffic: self.traffic(&counts, period, bytes),
            too_slow,
            obstacle,
        }
    }

    /// What goes over the links in a day in which the learner never waits.
    fn traffic(&self, counts: &[u64], period: u64, bytes: f64) -> Traffic {
        let nodes = counts.iter().sum::<u64>();
        if nodes == 0 || self.train_s <= 0.0 {
            return Traffic::default();
        }
        let ups = self.classes.iter().zip(counts).map(|(class, count)| class.up.0.saturating_mul(*count));
        let up = BytesPerSec(ups.fold(0, u64::saturating_add) / nodes);
        let copies = match self.mode {
            DisseminationMode::Star => nodes,
            _ => nodes.min(chain_count(self.uplink, up) as u64),
        };
        let publications = DAY_S / (period as f64 * self.train_s) * bytes / GB;
        let rollouts = DAY_S / self.train_s * self.batch * self.rollout_bytes / GB;
        Traffic {
            learner_up_gb: copies as f64 * publications,
            learner_down_gb: rollouts,
            node_up_gb: ((nodes - copies) as f64 * publications + rollouts) / nodes as f64,
            node_down_gb: publications,
        }
    }
}

/// The nodes that were added.
struct Choice {
    counts: Vec<u64>,
    pool: f64,
    too_slow: Vec<String>,
    is_enough: bool,
}

/// The cheapest budget that is safe with deltas; of equals, the smallest: its batches are the freshest.
pub(super) fn cheapest(forecasts: &[Forecast]) -> Option<&Forecast> {
    let safe = forecasts.iter().filter(|forecast| forecast.deltas.obstacle.is_none());
    let mut best: Option<&Forecast> = None;
    for next in safe {
        let usd = |forecast: &Forecast| forecast.deltas.usd_per_update;
        // Sums of the same prices may differ in their last digits.
        if best.is_none_or(|best| usd(next) < usd(best) * (1.0 - 1e-9)) {
            best = Some(next);
        }
    }
    best
}

#[cfg(test)]
mod tests;
