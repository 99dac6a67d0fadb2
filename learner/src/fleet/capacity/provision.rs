//! How many rented nodes of which class are wanted: what `[fleet] provision` is asked.

use super::{Capacity, NodeRole};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most nodes that are wanted of one class beyond those that are there, in one request.
const MOST_AT_ONCE: u64 = 64;

/// Nodes of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCount {
    /// Those that are there.
    pub present: u64,
    /// Those that are to be there.
    pub wanted: u64,
}

/// What the program of `[fleet] provision` reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProvisionRequest {
    /// μ_pool: rollouts a second of active nodes.
    pub pool: f64,
    /// μ_target.
    pub target: f64,
    /// By the names of `[fleet] prices`.
    pub nodes: BTreeMap<String, ClassCount>,
}

/// What is known of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    price: f64,
    present: u64,
    resting: u64,
    rate: f64,
}

impl Capacity {
    /// How many nodes of which class are wanted; `None` while the target is unknown. Classes are the names
    /// of prices above 0: nobody rents what costs nothing.
    pub fn provision(&self) -> Option<ProvisionRequest> {
        let target = self.target()?;
        let priced = self.config.prices.iter().filter(|(_, price)| *price > 0.0);
        let mut classes: BTreeMap<String, Class> =
            priced.map(|(name, price)| (name.to_owned(), Class { price, ..Class::default() })).collect();
        let mut brought = 0.0;
        for (node, worker) in self.workers.iter().filter(|(_, worker)| worker.available) {
            let rate = self.rate(worker);
            brought += rate;
            let name = self.config.prices.name_of(node, &worker.offer);
            if let Some(class) = name.and_then(|name| classes.get_mut(name)) {
                class.present += 1;
                class.resting += u64::from(worker.role == NodeRole::Resting);
                class.rate += rate;
            }
        }
        let missing = self.missing(&classes, target - brought);
        let nodes = classes.iter().map(|(name, class)| {
            let more = missing.as_ref().filter(|(of, _)| of == name).map_or(0, |(_, more)| *more);
            // Who rests is not needed. What is on standby stays.
            let wanted = if target > brought { class.present + more } else { class.present - class.resting };
            (name.clone(), ClassCount { present: class.present, wanted })
        });
        Some(ProvisionRequest { pool: self.pool(), target, nodes: nodes.collect() })
    }

    /// The class that brings `missing` rollouts a second at the lowest price, and how many nodes of it do.
    fn missing(&self, classes: &BTreeMap<String, Class>, missing: f64) -> Option<(String, u64)> {
        if missing <= 0.0 {
            return None;
        }
        // A class of which no node was ever here is tried with a single one.
        let rate =
            |class: &Class| if class.present > 0 { class.rate / class.present as f64 } else { self.usual };
        let cost = |class: &Class| class.price / rate(class).max(f64::MIN_POSITIVE);
        let (name, class) = classes.iter().min_by(|a, b| cost(a.1).total_cmp(&cost(b.1)))?;
        let rate = rate(class);
        let more = if class.present > 0 && rate > 0.0 { (missing / rate).ceil() as u64 } else { 1 };
        Some((name.clone(), more.clamp(1, MOST_AT_ONCE)))
    }
}
