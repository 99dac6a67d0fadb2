//! What capacity shows: in rows of metrics and in the summary.

use super::{Capacity, NodeRole};
use serde::{Deserialize, Serialize};

/// The fleet's capacity and what the run has cost. `Option`s are `None` before anything was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityReport {
    /// μ_pool: rollouts a second of active nodes.
    pub pool: f64,
    /// μ_min: rollouts a second that the learner needs.
    pub required: Option<f64>,
    /// μ_target = γ μ_min; more after the learner has waited for long.
    pub target: Option<f64>,
    /// T_train: median seconds of an update.
    pub train_s: Option<f64>,
    /// T_bcast: median seconds until the share 1/γ of active nodes has a publication.
    pub broadcast_s: Option<f64>,
    /// Active nodes that are there.
    pub active: u64,
    /// Nodes on standby that are there.
    pub standby: u64,
    /// Resting nodes that are there.
    pub resting: u64,
    /// What nodes cost that are active or on standby, in dollars an hour: those with a record once there are
    /// any.
    pub usd_per_hour: f64,
    /// Dollars of the last update, learner included.
    pub usd_of_update: f64,
    /// Dollars so far, learner included.
    pub usd: f64,
    /// Hours of nodes that were active or on standby.
    pub node_hours: f64,
}

impl Capacity {
    /// How things stand.
    pub fn report(&self) -> CapacityReport {
        let here = || self.workers.values().filter(|worker| worker.available);
        let count = |role: NodeRole| here().filter(|worker| worker.role == role).count() as u64;
        CapacityReport {
            pool: self.pool(),
            required: self.required(),
            target: self.target(),
            train_s: self.demand.train_s(),
            broadcast_s: self.demand.broadcast_s(),
            active: count(NodeRole::Active),
            standby: count(NodeRole::Standby),
            resting: count(NodeRole::Resting),
            usd_per_hour: self.paid().map(|worker| worker.price).sum(),
            usd_of_update: self.ledger.usd_of_update,
            usd: self.ledger.usd,
            node_hours: self.ledger.node_hours,
        }
    }
}
