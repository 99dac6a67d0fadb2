//! What a run has cost: prices times hours.

use echo_protocol::wire::time::UnixMillis;

/// Milliseconds of an hour.
const HOUR_MS: f64 = 3_600_000.0;
/// The longest time between two looks that is paid for, in milliseconds: a machine that slept did not work.
const LONGEST_MS: u64 = 60_000;

/// Node-hours and dollars, over all processes of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ledger {
    looked: UnixMillis,
    learner_price: f64,
    /// Hours of nodes that were active or on standby.
    pub(super) node_hours: f64,
    /// Hours of the learner.
    pub(super) learner_hours: f64,
    /// Dollars of both.
    pub(super) usd: f64,
    /// Dollars when the last update ended.
    usd_at_update: f64,
    /// Dollars from the update before to the last one.
    pub(super) usd_of_update: f64,
}

impl Ledger {
    pub(super) fn new(now: UnixMillis, learner_price: f64) -> Self {
        Self {
            looked: now,
            learner_price,
            node_hours: 0.0,
            learner_hours: 0.0,
            usd: 0.0,
            usd_at_update: 0.0,
            usd_of_update: 0.0,
        }
    }

    pub(super) fn restore(&mut self, node_hours: f64, learner_hours: f64, usd: f64) {
        (self.node_hours, self.learner_hours, self.usd) = (node_hours, learner_hours, usd);
        self.usd_at_update = usd;
    }

    /// Counts the time since the last look, in which so many nodes cost so much.
    pub(super) fn accrue(&mut self, now: UnixMillis, nodes: usize, usd_per_hour: f64) {
        let hours = now.since(self.looked).min(LONGEST_MS) as f64 / HOUR_MS;
        self.looked = self.looked.max(now);
        self.node_hours += nodes as f64 * hours;
        self.learner_hours += hours;
        self.usd += (usd_per_hour + self.learner_price) * hours;
    }

    /// An update ended.
    pub(super) fn updated(&mut self) {
        self.usd_of_update = self.usd - self.usd_at_update;
        self.usd_at_update = self.usd;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_times_prices_are_dollars() {
        let mut ledger = Ledger::new(UnixMillis(0), 3.06);
        for minute in 1..=60 {
            ledger.accrue(UnixMillis(minute * 60_000), 2, 0.7);
            if minute % 30 == 0 {
                ledger.updated();
            }
        }
        assert!((ledger.usd - 3.76).abs() < 1e-9 && (ledger.node_hours - 2.0).abs() < 1e-9);
        assert!((ledger.usd_of_update - 1.88).abs() < 1e-9);
        // A machine that slept for a day pays a minute.
        ledger.accrue(UnixMillis(86_400_000), 0, 0.0);
        assert!((ledger.learner_hours - 1.0 - 1.0 / 60.0).abs() < 1e-9);
        // An older look counts nothing.
        ledger.accrue(UnixMillis(0), 9, 9.0);
        assert!((ledger.node_hours - 2.0).abs() < 1e-9);
    }
}
