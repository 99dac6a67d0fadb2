//! What a fleet has to bring, and how old its work can be at worst: ECHO-2 §3.3 and appendix B.

/// The measured quantities that decide both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipeline {
    /// T_train: seconds of one update.
    pub train_s: f64,
    /// T_bcast: seconds from a publication until it is installed.
    pub broadcast_s: f64,
    /// R: trajectories of one update.
    pub batch: f64,
}

impl Pipeline {
    /// μ_min(κ), equation 2: trajectories a second at which a learner that publishes every `period`
    /// updates never waits. `None` when a publication takes as long as the updates until the next
    /// one: then no rate is enough.
    pub fn required_rate(&self, period: u64) -> Option<f64> {
        let updates = period as f64;
        let left = updates * self.train_s - self.broadcast_s;
        (left > 0.0).then(|| updates * self.batch / left)
    }

    /// Whether generation and dissemination fit into `period` updates at `rate` trajectories a
    /// second: the overlap condition, equation 1.
    pub fn overlaps(&self, period: u64, rate: f64) -> bool {
        self.required_rate(period).is_some_and(|required| rate >= required)
    }

    /// Δ_max, equation 7: the largest lag in updates at `rate` trajectories a second, were nothing
    /// generated under a new snapshot before everybody has it. `None` for a rate of 0, and for
    /// times that are not numbers.
    pub fn worst_lag(&self, period: u64, rate: f64) -> Option<u64> {
        let waits = updates((self.broadcast_s + self.batch / rate) / self.train_s)?;
        Some(period.saturating_add(waits).saturating_sub(1))
    }

    /// The bound on the same lag wherever the overlap condition holds, equation 12: it needs no rate.
    pub fn worst_lag_overlapping(&self, period: u64) -> Option<u64> {
        let shared = 1.0 - 1.0 / (period as f64);
        Some(period.saturating_add(updates(shared * self.broadcast_s / self.train_s)?))
    }
}

/// Whole updates that a time of so many updates needs.
fn updates(time: f64) -> Option<u64> {
    (time.is_finite() && time >= 0.0).then(|| time.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Qwen3-8B with S = 3 (§5.4, table 2): an update takes 1631.2 s, and a broadcast 1437 s to
    /// nine workers. The bounds at the required rate do not depend on R.
    const PAPER: Pipeline = Pipeline { train_s: 1631.2, broadcast_s: 1437.0, batch: 512.0 };

    #[test]
    fn the_papers_run_has_a_lag_of_at_most_its_budget() {
        assert_eq!(PAPER.worst_lag_overlapping(2), Some(3));
        let required = PAPER.required_rate(2).unwrap();
        assert!((required - 2.0 * 512.0 / (2.0 * 1631.2 - 1437.0)).abs() < 1e-12);
        // Equation 7 agrees wherever the overlap condition holds, and gives more where it does not.
        assert!(PAPER.overlaps(2, required) && !PAPER.overlaps(2, 0.99 * required));
        assert_eq!(PAPER.worst_lag(2, required), Some(3));
        assert_eq!(PAPER.worst_lag(2, required / 4.0), Some(5));
    }

    #[test]
    fn a_budget_alone_is_enough_when_a_broadcast_takes_less_than_an_update() {
        // Appendix B.4: κ = S-1 then keeps the lag within S.
        for budget in 2..12u64 {
            for share in [0.01, 0.5, 0.99] {
                let pipeline = Pipeline { train_s: 10.0, broadcast_s: 10.0 * share, batch: 64.0 };
                // A little more than required: sums of rounded numbers may exceed a whole number.
                let rate = 1.001 * pipeline.required_rate(budget - 1).unwrap();
                assert!(pipeline.worst_lag(budget - 1, rate).unwrap() <= budget);
                assert!(pipeline.worst_lag(budget - 1, rate) <= pipeline.worst_lag_overlapping(budget - 1));
            }
        }
    }

    #[test]
    fn what_never_fits_has_no_rate() {
        let slow = Pipeline { broadcast_s: 2.0 * PAPER.train_s, ..PAPER };
        assert_eq!(slow.required_rate(2), None);
        assert!(!slow.overlaps(2, f64::INFINITY) && slow.required_rate(3).is_some());
        assert_eq!(slow.worst_lag(2, 0.0), None);
        assert_eq!(Pipeline { train_s: 0.0, ..PAPER }.worst_lag(2, 1.0), None);
    }
}
