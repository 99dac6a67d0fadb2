//! The heartbeats of a whole fleet at once, and everybody as they stand: for who drives many thousand
//! nodes in virtual time.

use super::{Capacity, LONGEST_BEAT_MS, NodeRole, Worker};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;

/// All heartbeats of a node since the last look, combined: they differ only in these fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beats {
    /// Whether orders were out with it.
    pub has_work: bool,
    /// Whether it went on to ask for orders.
    pub asks: bool,
    /// Whether it gets none because they would come back too late.
    pub too_slow: bool,
}

/// A node as it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seat {
    /// Its key.
    pub node: PublicKey,
    /// What it does for the run.
    pub role: NodeRole,
    /// Whether its heartbeats come.
    pub available: bool,
    /// Whether it was told to rest and has not asked since.
    pub sleeps: bool,
    /// c in dollars an hour.
    pub price: f64,
    /// μ in rollouts a second, as it counts.
    pub rate: f64,
}

impl Worker {
    /// Its heartbeats come, and if it has work it had so for the last `worked_ms`.
    pub(super) fn is_here(&mut self, now: UnixMillis, beats: Beats, worked_ms: u64) {
        let Beats { has_work, asks, too_slow } = beats;
        if has_work || asks {
            (self.asked, self.is_idle) = (now, false);
        }
        // In steps as long as heartbeats may be apart: older work fades in between.
        let mut left_ms = if has_work { worked_ms } else { 0 };
        while left_ms > 0 {
            let step = left_ms.min(LONGEST_BEAT_MS);
            self.rate.works(step as f64);
            left_ms -= step;
        }
        (self.seen, self.available, self.too_slow) = (now, true, too_slow);
    }
}

impl Capacity {
    /// Takes in what all nodes said since they were last heard, as one [`Capacity::heard`] after the other
    /// would. `said` has nothing of nodes that were silent. Versions and offers are those of before.
    pub fn heard_all(&mut self, now: UnixMillis, mut said: impl FnMut(&PublicKey) -> Option<Beats>) {
        for (node, worker) in &mut self.workers {
            let Some(beats) = said(node) else { continue };
            worker.is_here(now, beats, now.since(worker.seen));
        }
    }

    /// Everybody who was heard and is not gone, by key.
    pub fn seats(&self) -> impl Iterator<Item = Seat> {
        self.workers.iter().map(move |(node, worker)| Seat {
            node: *node,
            role: worker.role,
            available: worker.available,
            sleeps: worker.sleeps,
            price: worker.price,
            rate: self.rate(worker),
        })
    }

    /// T_train in seconds; `None` before enough updates.
    pub fn train_s(&self) -> Option<f64> {
        self.demand.train_s()
    }

    /// Whether the last look chose among nodes. Where there is nothing to choose, everybody works.
    pub fn chooses(&self) -> bool {
        self.governs && self.target().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::capacity::{Activation, Beat, CapacityConfig, Prices};

    fn capacity() -> Capacity {
        let config = CapacityConfig {
            activation: Activation::Cheapest,
            gamma: 1.1,
            batch: 8,
            period: Some(2),
            prices: Prices::default(),
            learner_price: 0.0,
        };
        Capacity::new(config, UnixMillis(0))
    }

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    #[test]
    fn heard_together_is_heard_one_by_one() {
        let (mut one_by_one, mut together) = (capacity(), capacity());
        let has_work = |n: u8| n < 3;
        for capacity in [&mut one_by_one, &mut together] {
            (0..4).for_each(|n| capacity.heard(UnixMillis(0), key(n), Beat::default()));
        }
        for second in (5..=60).step_by(5) {
            let now = UnixMillis(1_000 * second);
            for n in 0..4 {
                one_by_one.heard(now, key(n), Beat { has_work: has_work(n), ..Beat::default() });
            }
            // Every other time: what is taken in later is the same.
            if second % 10 == 0 {
                together.heard_all(now, |node| {
                    Some(Beats { has_work: has_work(node.as_bytes()[0]), ..Beats::default() })
                });
            }
            for capacity in [&mut one_by_one, &mut together] {
                if second % 10 == 0 {
                    capacity.accepted(&key(1), 4);
                }
                capacity.tick(now);
            }
        }
        let rates = |capacity: &Capacity| capacity.seats().map(|seat| seat.rate).collect::<Vec<f64>>();
        assert!(rates(&together)[1] > 0.0);
        let mut pairs = rates(&together).into_iter().zip(rates(&one_by_one));
        assert!(pairs.all(|(a, b)| (a - b).abs() < 1e-9), "{together:?} {one_by_one:?}");
    }

    #[test]
    fn who_says_nothing_is_missed() {
        let mut capacity = capacity();
        (0..2).for_each(|n| capacity.heard(UnixMillis(0), key(n), Beat::default()));
        capacity.heard_all(UnixMillis(4_000), |node| (*node == key(0)).then(Beats::default));
        capacity.tick(UnixMillis(4_000));
        let here: Vec<bool> = capacity.seats().map(|seat| seat.available).collect();
        assert_eq!((here, capacity.chooses()), (vec![true, false], false));
    }
}
