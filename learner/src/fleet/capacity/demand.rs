//! What the learner asks of the fleet: T_train, T_bcast and μ_min by what was measured.

use echo_protocol::run::staleness::Pipeline;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::time::UnixMillis;
use std::collections::VecDeque;

/// Updates whose median is T_train.
pub(super) const UPDATES: usize = 50;
/// Updates before which nothing is asked of the fleet: the paper's five (§5.1).
pub(super) const FIRST_UPDATES: usize = 5;
/// Publications whose median is T_bcast: a changed fleet shows after three.
pub(super) const BROADCASTS: usize = 5;
/// Publications whose arrival is still timed.
const MAX_OPEN: usize = 8;

/// Weight of the newest batch in the smoothed share of what is filtered out.
const FILTER_WEIGHT: f64 = 0.2;
/// After each long wait of the learner, so many times as much is aimed at: as much as the margin of a
/// release.
const STARVATION_STEP: f64 = 1.1;
/// At most so many times as much in all: a learner that still waits then is held up by something else.
const MAX_STARVATION: f64 = 2.0;
/// After each update, so much is left of what is added for starvation: half after 34 updates.
const STARVATION_KEPT: f64 = 0.98;

/// A publication on its way.
#[derive(Clone, Copy, Debug)]
struct Broadcast {
    version: PolicyVersion,
    at: UnixMillis,
    /// Active nodes that are still to install it, until it counts as spread.
    missing: usize,
}

/// The median durations of updates and broadcasts, in seconds, and what was seen not to be enough.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    updates: VecDeque<f64>,
    broadcasts: VecDeque<f64>,
    open: VecDeque<Broadcast>,
    /// Since when the learner waits for a batch.
    waits: Option<UnixMillis>,
    /// What is aimed at because the learner has waited, in times of γ μ_min: from 1 to [`MAX_STARVATION`].
    starvation_factor: f64,
    /// Groups that were filtered out since the run began, at the last batch.
    filtered: Option<u64>,
    /// Groups that are accepted for each that is trained on, smoothed.
    of_a_trained_one: f64,
}

impl Default for Demand {
    fn default() -> Self {
        let (updates, broadcasts, open) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self {
            updates,
            broadcasts,
            open,
            waits: None,
            starvation_factor: 1.0,
            filtered: None,
            of_a_trained_one: 1.0,
        }
    }
}

impl Demand {
    /// What an earlier process measured.
    pub(super) fn restore(&mut self, updates: &[f64], broadcasts: &[f64]) {
        self.updates = updates.iter().copied().filter(|s| s.is_finite()).take(UPDATES).collect();
        self.broadcasts = broadcasts.iter().copied().filter(|s| s.is_finite()).take(BROADCASTS).collect();
    }

    /// An update took so many seconds.
    pub(super) fn updated(&mut self, seconds: f64) {
        push(&mut self.updates, seconds, UPDATES);
        self.starvation_factor = 1.0 + STARVATION_KEPT * (self.starvation_factor - 1.0);
    }

    /// The learner waits for a batch.
    pub(super) fn waits(&mut self, now: UnixMillis) {
        self.waits.get_or_insert(now);
    }

    /// The batch of `groups` is there; so many were filtered out since the run began.
    pub(super) fn goes_on(&mut self, filtered: u64, groups: u64) {
        self.waits = None;
        if let Some(before) = self.filtered.replace(filtered) {
            let of_a_trained_one = 1.0 + filtered.saturating_sub(before) as f64 / groups.max(1) as f64;
            self.of_a_trained_one += FILTER_WEIGHT * (of_a_trained_one - self.of_a_trained_one);
        }
    }

    /// Whether the learner has waited for so long. The next such wait begins now then, and more is aimed at.
    pub(super) fn has_starved(&mut self, now: UnixMillis, ms: u64) -> bool {
        let has_starved = self.waits.is_some_and(|since| now.since(since) >= ms);
        if has_starved {
            self.waits = Some(now);
            self.starvation_factor = (self.starvation_factor * STARVATION_STEP).min(MAX_STARVATION);
        }
        has_starved
    }

    /// What is aimed at, in times of γ μ_min.
    pub(super) fn starvation_factor(&self) -> f64 {
        self.starvation_factor
    }

    /// Groups that are accepted for each that is trained on.
    pub(super) fn of_a_trained_one(&self) -> f64 {
        self.of_a_trained_one
    }

    /// A version goes out to `active` nodes, and is spread when the share 1/γ of them has it.
    pub(super) fn published(&mut self, now: UnixMillis, version: PolicyVersion, active: usize, gamma: f64) {
        let missing = (active as f64 / gamma).ceil() as usize;
        // Who comes later does not wait for it.
        if missing > 0 {
            self.open.push_back(Broadcast { version, at: now, missing });
        }
        while self.open.len() > MAX_OPEN {
            self.open.pop_front();
        }
    }

    /// An active node has `installed` now, and had `before`.
    pub(super) fn installed(
        &mut self,
        now: UnixMillis,
        before: Option<PolicyVersion>,
        installed: PolicyVersion,
    ) {
        for broadcast in &mut self.open {
            let is_new = before.is_none_or(|before| before < broadcast.version);
            if is_new && installed >= broadcast.version {
                broadcast.missing = broadcast.missing.saturating_sub(1);
                if broadcast.missing == 0 {
                    push(&mut self.broadcasts, now.since(broadcast.at) as f64 / 1e3, BROADCASTS);
                }
            }
        }
        self.open.retain(|broadcast| broadcast.missing > 0);
    }

    /// T_train in seconds; `None` before enough updates.
    pub(super) fn train_s(&self) -> Option<f64> {
        if self.updates.len() < FIRST_UPDATES { None } else { median(&self.updates) }
    }

    /// T_bcast in seconds; `None` before a publication was spread.
    pub(super) fn broadcast_s(&self) -> Option<f64> {
        median(&self.broadcasts)
    }

    /// The quantities that decide what the fleet has to bring, for an update of `batch` trajectories.
    pub(super) fn pipeline(&self, batch: f64) -> Option<Pipeline> {
        Some(Pipeline { train_s: self.train_s()?, broadcast_s: self.broadcast_s()?, batch })
    }

    /// The durations that a later process begins with.
    pub(super) fn kept(&self) -> (Vec<f64>, Vec<f64>) {
        (self.updates.iter().copied().collect(), self.broadcasts.iter().copied().collect())
    }
}

fn push(durations: &mut VecDeque<f64>, seconds: f64, most: usize) {
    durations.push_back(seconds);
    while durations.len() > most {
        durations.pop_front();
    }
}

fn median(durations: &VecDeque<f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = durations.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(version: u64) -> PolicyVersion {
        PolicyVersion(version)
    }

    #[test]
    fn a_broadcast_takes_until_the_share_has_it() {
        let mut demand = Demand::default();
        demand.published(UnixMillis(1_000), v(4), 10, 1.1);
        for node in 0..9 {
            assert_eq!(demand.broadcast_s(), None);
            demand.installed(UnixMillis(2_000 + 100 * node), Some(v(2)), v(4));
        }
        // ⌈10 / 1.1⌉ is ten: one more.
        assert_eq!(demand.broadcast_s(), None);
        demand.installed(UnixMillis(3_000), None, v(4));
        assert_eq!(demand.broadcast_s(), Some(2.0));
        // Who skips a version has it too, and the same version counts once.
        demand.published(UnixMillis(5_000), v(6), 2, 1.0);
        demand.published(UnixMillis(6_000), v(8), 2, 1.0);
        demand.installed(UnixMillis(7_000), Some(v(4)), v(8));
        demand.installed(UnixMillis(7_000), Some(v(8)), v(8));
        demand.installed(UnixMillis(9_000), Some(v(4)), v(8));
        assert_eq!(demand.kept().1, [2.0, 4.0, 3.0]);
        demand.published(UnixMillis(9_000), v(9), 0, 1.1);
        assert!(demand.open.is_empty());
    }

    #[test]
    fn what_is_filtered_out_is_asked_for_as_well_and_long_waits_ask_for_more() {
        let mut demand = Demand::default();
        assert_eq!((demand.of_a_trained_one(), demand.starvation_factor()), (1.0, 1.0));
        // What an earlier process counted says nothing.
        demand.goes_on(500, 8);
        assert_eq!(demand.of_a_trained_one(), 1.0);
        for batch in 1..=40 {
            demand.goes_on(500 + 12 * batch, 8);
        }
        assert!((demand.of_a_trained_one() - 2.5).abs() < 1e-3, "{}", demand.of_a_trained_one());

        assert!(!demand.has_starved(UnixMillis(99_000), 10_000), "it does not wait");
        demand.waits(UnixMillis(100_000));
        demand.waits(UnixMillis(109_000));
        assert!(!demand.has_starved(UnixMillis(109_999), 10_000));
        assert!(demand.has_starved(UnixMillis(110_000), 10_000));
        assert!(!demand.has_starved(UnixMillis(111_000), 10_000), "once for each such wait");
        assert!((demand.starvation_factor() - 1.1).abs() < 1e-9);
        for wait in 0..20 {
            demand.has_starved(UnixMillis(200_000 + 10_000 * wait), 10_000);
        }
        assert_eq!(demand.starvation_factor(), 2.0);
        demand.goes_on(1_000, 8);
        assert!(!demand.has_starved(UnixMillis(900_000), 10_000));
        (0..300).for_each(|_| demand.updated(1.0));
        assert!(demand.starvation_factor() < 1.01, "a wait of long ago says nothing");
    }

    #[test]
    fn an_update_takes_the_median_and_five_are_needed() {
        let mut demand = Demand::default();
        for seconds in [60.0, 2.0, 2.1, 1.9] {
            demand.updated(seconds);
        }
        assert_eq!((demand.train_s(), demand.pipeline(64.0)), (None, None));
        demand.updated(2.0);
        assert_eq!(demand.train_s(), Some(2.0));
        let mut later = Demand::default();
        later.restore(&demand.kept().0, &[0.5]);
        let pipeline = later.pipeline(64.0).unwrap();
        assert_eq!((pipeline.train_s, pipeline.broadcast_s, pipeline.batch), (2.0, 0.5, 64.0));
    }
}
