//! Conformance checks against reference data produced elsewhere: the same files are read by the
//! tests and by the lab.

use serde::Serialize;

mod error;
pub mod models;
pub mod tokenizer;

pub use error::VectorError;

/// At most this many failure texts are kept in a [`VectorReport`]; further failures are only counted.
pub const MAX_REPORTED_FAILURES: usize = 64;

/// The outcome of running a set of reference vectors.
///
/// `cases = passed + failed + skipped` always holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VectorReport {
    /// Checks that were attempted or skipped.
    pub cases: u64,
    /// Checks that agreed with the reference.
    pub passed: u64,
    /// Checks that disagreed, or whose input could not be read.
    pub failed: u64,
    /// Checks that could not be made, for a reason that is not a fault.
    pub skipped: u64,
    /// Worst difference seen, as a fraction of its tolerance: 1.0 is exactly at the limit. Zero
    /// where cases are exact.
    pub worst: f64,
    /// One text per failure, at most [`MAX_REPORTED_FAILURES`].
    pub failures: Vec<String>,
}

impl VectorReport {
    /// Counts a check that agreed.
    pub fn pass(&mut self) {
        self.cases += 1;
        self.passed += 1;
    }

    /// Counts a check that disagreed; `text` names the file, the case and what differed.
    pub fn fail(&mut self, text: impl Into<String>) {
        self.cases += 1;
        self.failed += 1;
        if self.failures.len() < MAX_REPORTED_FAILURES {
            self.failures.push(text.into());
        }
    }

    /// Counts a check that could not be made.
    pub fn skip(&mut self) {
        self.cases += 1;
        self.skipped += 1;
    }

    /// Counts a numeric check: `difference` must not exceed `tolerance`. A difference that is
    /// not a number fails.
    ///
    /// `label` is only called when the check fails, and says which file and case it was.
    pub fn measure(&mut self, difference: f64, tolerance: f64, label: impl FnOnce() -> String) {
        let fraction = difference / tolerance;
        // JSON has no infinity or NaN: a broken value counts as the largest finite one.
        self.worst = self.worst.max(if fraction.is_finite() { fraction } else { f64::MAX });
        if fraction <= 1.0 {
            self.pass();
        } else {
            self.fail(format!("{}: difference {difference:.3e}, tolerance {tolerance:.1e}", label()));
        }
    }

    /// Adds the counts of another report to this one.
    pub fn merge(&mut self, other: VectorReport) {
        self.cases += other.cases;
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.worst = self.worst.max(other.worst);
        let room = MAX_REPORTED_FAILURES.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_a_nan_fails() {
        let mut report = VectorReport::default();
        report.measure(1.0, 2.0, || "a".into());
        report.measure(f64::NAN, 2.0, || "b".into());
        report.skip();
        let mut sum = VectorReport::default();
        sum.merge(report.clone());
        sum.merge(report);
        assert_eq!((sum.cases, sum.passed, sum.failed, sum.skipped), (6, 2, 2, 2));
        assert!(sum.failures[0].starts_with("b:"));
        assert!(sum.worst.is_finite());
    }
}
