//! Shares of responses, and how far to trust them.

use super::Verdict;
use crate::study::statistics;
use echo_policy::audit::{AuditFault, Evidence};

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) count: u64,
    pub(super) of: u64,
}

impl Rate {
    pub(super) fn share(self) -> f64 {
        self.count as f64 / self.of.max(1) as f64
    }

    /// What the true share is at least, with 95 % confidence.
    pub(super) fn at_least(self) -> f64 {
        1.0 - Self { count: self.of - self.count, of: self.of }.at_most()
    }

    /// What the true share is at most, with 95 % confidence.
    pub(super) fn at_most(self) -> f64 {
        statistics::binomial_upper_95(self.count, self.of)
    }
}

/// What the audit saw of an arm.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Responses with which something was wrong.
    pub(super) found: Rate,
    /// Of these, with tokens that were not drawn so, and with log-probabilities of another distribution.
    pub(super) by_tokens: u64,
    pub(super) by_logprobs: u64,
    /// The evidence of all responses together.
    pub(super) evidence: Evidence,
    /// Of each: the largest distance of u from a token's interval, the mean of |Δ log p|, and the largest.
    each: [Vec<f64>; 3],
}

impl Seen {
    pub(super) fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let mut seen = Self::default();
        for Verdict { evidence, fault } in verdicts {
            seen.found.of += 1;
            seen.found.count += u64::from(fault.is_some());
            match fault {
                Some(AuditFault::Tokens { .. } | AuditFault::Chosen { .. }) => seen.by_tokens += 1,
                Some(AuditFault::Logprobs { .. }) => seen.by_logprobs += 1,
                None => {}
            }
            let figures = [evidence.farthest(), evidence.mean(), f64::from(evidence.quantile(1.0))];
            seen.each.iter_mut().zip(figures).for_each(|(of_all, figure)| of_all.push(figure));
            seen.evidence.add(evidence);
        }
        seen
    }

    /// Limits that all but so large a share of these responses keep, each by itself: border, mean, max.
    pub(super) fn kept_but_for(&self, share: f64) -> [f64; 3] {
        self.each.clone().map(|mut figures| {
            figures.sort_by(f64::total_cmp);
            let above = (share * figures.len() as f64) as usize;
            figures.iter().nth_back(above).copied().unwrap_or(0.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_kept_by_all_but_a_share() {
        let each = [1.0, 2.0, 3.0].map(|by| (1..=100).map(|at| by * f64::from(at)).collect());
        let seen = Seen { each, ..Seen::default() };
        assert_eq!(seen.kept_but_for(0.0), [100.0, 200.0, 300.0]);
        assert_eq!(seen.kept_but_for(0.02), [98.0, 196.0, 294.0]);
        assert_eq!(Seen::default().kept_but_for(0.1), [0.0; 3]);
    }

    #[test]
    fn none_of_many_is_still_uncertain() {
        let none = Rate { count: 0, of: 3_000 };
        assert_eq!((none.share(), none.at_least()), (0.0, 0.0));
        // 1 − 0.05^(1/3000).
        assert!((none.at_most() - 9.98e-4).abs() < 1e-6, "{}", none.at_most());
        let all = Rate { count: 1_000, of: 1_000 };
        assert_eq!((all.share(), all.at_most()), (1.0, 1.0));
        assert!((all.at_least() - 0.997).abs() < 1e-4, "{}", all.at_least());
        assert_eq!(Rate::default().share(), 0.0);
    }
}
