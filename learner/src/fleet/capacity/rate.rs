//! μ of one node: accepted rollouts a second, while there was work.

/// In so much of a node's working time older work comes to count half, in milliseconds: short enough to see
/// within ten seconds that a node has become half as fast.
const HALF_LIFE_MS: f64 = 20_000.0;
/// For nodes whose groups come seldom, the half-life in times of their gaps: a mean over few groups is noise.
const GAPS_OF_HALF_LIFE: f64 = 8.0;
/// What a node says of itself counts as much as so many milliseconds of work.
const DECLARED_MS: f64 = 20_000.0;
/// The working time in which that comes to count nothing, in milliseconds.
const FADES_MS: f64 = 600_000.0;

/// How fast a node works, by what was accepted of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct WorkRate {
    /// Rollouts that were accepted, the older ones counting less.
    rollouts: f64,
    /// The working time in which they were made, the same way, in milliseconds.
    worked_ms: f64,
    /// All of its working time, in milliseconds.
    total_ms: f64,
    /// Working time since the last group, in milliseconds.
    since_group_ms: f64,
    /// The smoothed working time from one group to the next, in milliseconds; 0 before the second.
    gap_ms: f64,
    /// Rollouts a second that the node says.
    declared: f64,
}

impl WorkRate {
    /// A node of which an earlier process measured this rate.
    pub(super) fn measured(per_s: f64) -> Self {
        Self { rollouts: per_s * DECLARED_MS / 1e3, worked_ms: DECLARED_MS, ..Self::default() }
    }

    /// What the node says of itself. It fades as work comes in.
    pub(super) fn declares(&mut self, per_s: f64) {
        self.declared = per_s;
    }

    /// The node had work for so long.
    pub(super) fn works(&mut self, ms: f64) {
        let kept = 0.5_f64.powf(ms / HALF_LIFE_MS.max(GAPS_OF_HALF_LIFE * self.gap_ms));
        self.rollouts *= kept;
        self.worked_ms = self.worked_ms * kept + ms;
        self.total_ms += ms;
        self.since_group_ms += ms;
    }

    /// Rollouts of it were accepted.
    pub(super) fn accepted(&mut self, rollouts: f64) {
        self.rollouts += rollouts;
        let gap = std::mem::take(&mut self.since_group_ms);
        self.gap_ms = if self.gap_ms > 0.0 { self.gap_ms + 0.2 * (gap - self.gap_ms) } else { gap };
    }

    /// Whether work of it has come in.
    pub(super) fn is_measured(&self) -> bool {
        self.worked_ms >= DECLARED_MS && self.rollouts > 0.0
    }

    /// μ; `None` where nothing is known. What the node says counts at most `believed`.
    pub(super) fn per_s(&self, believed: f64) -> Option<f64> {
        let declared = self.declared.min(believed).max(0.0);
        let is_unknown = self.worked_ms < DECLARED_MS && self.rollouts <= 0.0;
        if is_unknown && declared <= 0.0 {
            return None;
        }
        let fresh = (1.0 - self.total_ms / FADES_MS).max(0.0);
        let weight = if declared > 0.0 { DECLARED_MS * fresh } else { 0.0 };
        let known_ms = self.worked_ms + weight;
        Some((1e3 * self.rollouts + declared * weight) / known_ms.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works for some seconds, with a group of four rollouts every `gap` seconds.
    fn work(rate: &mut WorkRate, seconds: u64, gap: u64) {
        for second in 1..=seconds {
            rate.works(1_000.0);
            if second % gap == 0 {
                rate.accepted(4.0);
            }
        }
    }

    #[test]
    fn the_rate_is_what_was_accepted_while_there_was_work() {
        let mut rate = WorkRate::default();
        assert_eq!(rate.per_s(f64::MAX), None);
        work(&mut rate, 60, 2);
        assert!((rate.per_s(f64::MAX).unwrap() - 2.0).abs() < 0.15 && rate.is_measured());
        // Without work there is no time that counts.
        let before = rate;
        assert_eq!(rate.per_s(f64::MAX), before.per_s(f64::MAX));
        // A node that becomes half as fast shows it within some twenty seconds.
        work(&mut rate, 20, 4);
        assert!(rate.per_s(f64::MAX).unwrap() < 1.6);
        // Seldom groups do not make the rate jump.
        let mut slow = WorkRate::default();
        work(&mut slow, 600, 60);
        let after = slow.per_s(f64::MAX).unwrap();
        work(&mut slow, 59, 60);
        assert!(slow.per_s(f64::MAX).unwrap() > 0.8 * after);
    }

    #[test]
    fn what_a_node_says_fades_and_is_believed_up_to_a_bound() {
        let mut liar = WorkRate::default();
        liar.declares(1e9);
        assert_eq!(liar.per_s(3.0), Some(3.0));
        work(&mut liar, 300, 1_000);
        assert!(liar.per_s(3.0).unwrap() < 1.6);
        assert_eq!(WorkRate::measured(2.5).per_s(0.0), Some(2.5));
    }
}
