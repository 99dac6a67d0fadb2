//! How long a fault is felt.
//!
//! A node is *affected* when, within [`NOTICE_S`] seconds after the fault, what it receives in a
//! window of [`WINDOW_S`] falls below [`FELT`] of its rate before the fault (the mean of up to
//! [`BEFORE_S`] seconds). It has *recovered* at the end of the first later window in which it
//! receives [`FULL`] of the lower of two rates again: its rate before, and what the fluid bound
//! leaves every node after the fault. A node that is complete needs nothing any more: it has
//! recovered at the latest then. The recovery time is that of the last affected node, from the
//! fault on; 0 if nobody felt it.

/// The window over which rates are taken, in seconds.
pub(super) const WINDOW_S: f64 = 0.5;
/// The rate before the fault is taken over at most this time.
pub(super) const BEFORE_S: f64 = 2.0;
/// A fault is felt within this time, or not at all.
pub(super) const NOTICE_S: f64 = 4.0;
/// Below this share of the rate before, a node is affected.
pub(super) const FELT: f64 = 0.75;
/// At this share of the rate that it can have, a node has recovered.
pub(super) const FULL: f64 = 0.9;

/// What one node received: seconds after publication and bytes until then, in order.
pub(super) struct DownloadCourse {
    /// Bytes received so far, by seconds after publication.
    pub(super) points: Vec<(f64, u64)>,
    /// When it was complete, if ever.
    pub(super) complete_s: Option<f64>,
}

/// What a fault came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Recovery {
    /// When the fault happened, in seconds after publication.
    pub(super) fault_s: f64,
    /// Nodes that felt it.
    pub(super) affected: usize,
    /// From the fault until the last of them received at full rate again; `None` if one never did.
    pub(super) recovery_s: Option<f64>,
}

impl Recovery {
    /// Whether everybody had recovered within `broadcast_s` seconds from the fault.
    pub(super) fn is_within(&self, broadcast_s: f64) -> bool {
        self.recovery_s.is_some_and(|seconds| seconds <= broadcast_s)
    }
}

/// The recovery of all `courses` from a fault at `fault_s`, where `sustainable` bytes a second are
/// possible for each after it.
pub(super) fn recovery(courses: &[DownloadCourse], fault_s: f64, sustainable: f64) -> Recovery {
    let affected: Vec<_> =
        courses.iter().filter_map(|course| course.recovery(fault_s, sustainable)).collect();
    let longest = affected.iter().copied().try_fold(0.0, |longest: f64, one| Some(longest.max(one?)));
    Recovery { fault_s, affected: affected.len(), recovery_s: longest }
}

impl DownloadCourse {
    /// `None` if the node did not feel the fault; else the seconds until it had recovered, if it did.
    fn recovery(&self, fault_s: f64, sustainable: f64) -> Option<Option<f64>> {
        let before = self.rate((fault_s - BEFORE_S).max(0.0), fault_s)?;
        let ends = self.points.iter().map(|(at, _)| *at).filter(|at| *at >= fault_s + WINDOW_S);
        let mut windows = ends
            .take_while(|end| self.complete_s.is_none_or(|complete| *end <= complete))
            .filter_map(|end| Some((end, self.rate(end - WINDOW_S, end)?)));
        let (felt, _) = windows.find(|(end, rate)| *end <= fault_s + NOTICE_S && *rate < FELT * before)?;
        let full = FULL * before.min(sustainable);
        let back = windows.find(|(_, rate)| *rate >= full).map(|(end, _)| end).or(self.complete_s);
        Some(back.map(|back| back.max(felt) - fault_s))
    }

    /// Bytes per second between two moments; `None` if there are no points around them.
    fn rate(&self, from: f64, to: f64) -> Option<f64> {
        let at = |time: f64| {
            let after = self.points.partition_point(|(at, _)| *at <= time);
            self.points.get(after.checked_sub(1)?)
        };
        let ((first, before), (last, after)) = (at(from)?, at(to)?);
        (last > first).then(|| (after - before) as f64 / (last - first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that receives at these rates, one for each tenth of a second.
    fn course(rates: impl IntoIterator<Item = u64>) -> DownloadCourse {
        let mut sum = 0;
        let mut points = vec![(0.0, 0)];
        for (step, rate) in rates.into_iter().enumerate() {
            sum += rate / 10;
            points.push(((step + 1) as f64 / 10.0, sum));
        }
        DownloadCourse { points, complete_s: None }
    }

    #[test]
    fn only_who_feels_it_counts_and_the_last_one_decides() {
        let steady = course([100; 100]);
        let dips =
            |tenths: usize| course((0..100).map(|t| if (30..30 + tenths).contains(&t) { 0 } else { 100 }));
        assert_eq!(recovery(&[course([100; 100])], 3.0, 100.0).affected, 0);
        let felt = recovery(&[steady, dips(10), dips(20)], 3.0, 100.0);
        assert_eq!(felt.affected, 2);
        let seconds = felt.recovery_s.unwrap();
        assert!((2.0..=2.6).contains(&seconds), "{seconds}");
    }

    #[test]
    fn full_rate_is_what_is_still_possible() {
        let halved = || course((0..100).map(|t| if t < 30 { 100 } else { 50 }));
        let never = recovery(&[halved()], 3.0, 100.0);
        assert!(never.recovery_s.is_none() && !never.is_within(1e9), "never again");
        let soon = recovery(&[halved()], 3.0, 50.0);
        assert!(soon.is_within(1.0) && !soon.is_within(0.1), "{soon:?}");
        let complete = DownloadCourse { complete_s: Some(8.0), ..halved() };
        assert_eq!(recovery(&[complete], 3.0, 100.0).recovery_s, Some(5.0));
    }
}
