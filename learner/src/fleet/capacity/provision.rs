//! How many rented nodes of which class are wanted: what `[fleet] provision` is asked.

use super::{Capacity, NodeRole};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most nodes that are wanted of one class beyond those that are there, in one request.
const MOST_AT_ONCE: u64 = 64;
/// Most nodes that are named as spare in one request.
const MOST_SPARE: usize = 256;

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
    /// μ_target; `None` before enough was measured.
    pub target: Option<f64>,
    /// By the names of `[fleet] prices`.
    pub nodes: BTreeMap<String, ClassCount>,
    /// Public keys of nodes of these classes that rest: those that may be stopped.
    pub spare: Vec<String>,
}

impl ProvisionRequest {
    /// Whether as many nodes of each class are there as are wanted.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.nodes.values().all(|class| class.present == class.wanted)
    }
}

/// What is known of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    price: f64,
    present: u64,
    resting: u64,
    rate: f64,
    /// Those that say themselves that they are of it, and have no record.
    strangers: u64,
}

impl Class {
    /// Whether so many may be there by the program's doing. A key costs nothing, and many that name a class
    /// would have machines rented that stand for them.
    fn is_plausible(&self) -> bool {
        self.strangers <= MOST_AT_ONCE.max(self.present - self.strangers)
    }
}

impl Capacity {
    /// How many nodes of which class are wanted; `None` while too little is known, and while
    /// [`Capacity::doubted_class`] names one. Classes are the names of prices above 0: nobody rents what
    /// costs nothing. A run without a node gets one of the lowest price: nothing can be measured before.
    pub fn provision(&self) -> Option<ProvisionRequest> {
        let (classes, spare, brought) = self.classes();
        // The number of nodes that are to be there includes those that are there.
        if !classes.values().all(Class::is_plausible) {
            return None;
        }
        let target = self.target();
        let missing = match target {
            Some(target) => self.missing(&classes, target - brought),
            None if self.workers.values().any(|worker| worker.available) => return None,
            None => first(&classes),
        };
        let is_short = target.is_none_or(|target| target > brought);
        let nodes = classes.iter().map(|(name, class)| {
            let more = missing.as_ref().filter(|(of, _)| of == name).map_or(0, |(_, more)| *more);
            // Who rests is not needed. What is on standby stays.
            let wanted = if is_short { class.present + more } else { class.present - class.resting };
            (name.clone(), ClassCount { present: class.present, wanted })
        });
        let nodes = nodes.collect();
        // What is there and rests comes back before anything else is rented.
        let spare = if is_short { Vec::new() } else { spare };
        Some(ProvisionRequest { pool: self.pool(), target, nodes, spare })
    }

    /// A class that more nodes without a record name than can be there by the program's doing, and how
    /// many do.
    pub fn doubted_class(&self) -> Option<(String, u64)> {
        let (classes, ..) = self.classes();
        let doubted = classes.into_iter().find(|(_, class)| !class.is_plausible());
        doubted.map(|(name, class)| (name, class.strangers))
    }

    /// That no node is wanted any more, as the run is over.
    pub fn all_released(&self) -> ProvisionRequest {
        let (classes, spare, _) = self.classes();
        let nodes = classes.into_iter();
        let nodes = nodes.map(|(name, class)| (name, ClassCount { present: class.present, wanted: 0 }));
        ProvisionRequest { pool: self.pool(), target: self.target(), nodes: nodes.collect(), spare }
    }

    /// What is known of each class, the keys of those nodes of them that rest, and what all nodes that are
    /// there would bring.
    fn classes(&self) -> (BTreeMap<String, Class>, Vec<String>, f64) {
        let priced = self.config.prices.iter().filter(|(_, price)| *price > 0.0);
        let mut classes: BTreeMap<String, Class> =
            priced.map(|(name, price)| (name.to_owned(), Class { price, ..Class::default() })).collect();
        let (mut brought, mut spare) = (0.0, Vec::new());
        for (node, worker) in self.workers.iter().filter(|(_, worker)| worker.available) {
            let prices = &self.config.prices;
            let class = prices.name_of(node, &worker.offer).and_then(|name| classes.get_mut(name));
            // A rented node has no record at first: who did not count on it would rent more until it has one.
            let rate = if class.is_some() { self.hoped(worker) } else { self.rate(worker) };
            brought += rate;
            if let Some(class) = class {
                class.present += 1;
                class.strangers += u64::from(!worker.is_known && prices.name_of_key(node).is_none());
                class.rate += rate;
                if worker.role == NodeRole::Resting {
                    class.resting += 1;
                    spare.push(node.to_string());
                }
            }
        }
        spare.truncate(MOST_SPARE);
        (classes, spare, brought)
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

/// One node of the lowest price.
fn first(classes: &BTreeMap<String, Class>) -> Option<(String, u64)> {
    let (name, _) = classes.iter().min_by(|a, b| a.1.price.total_cmp(&b.1.price))?;
    Some((name.clone(), 1))
}
