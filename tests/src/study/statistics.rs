//! Means over seeds, and how far to trust them.

/// Student's t for two-sided intervals of 95 %, by degrees of freedom from 1.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// A mean, and half of its 95 % interval (Student's t; infinite for a single value).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mean {
    pub(super) mean: f64,
    pub(super) ci95: f64,
}

impl Mean {
    /// Of at least one value.
    pub(super) fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return Self { mean, ci95: f64::INFINITY };
        }
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let t = T_95.get(values.len() - 2).copied().unwrap_or(1.96);
        Self { mean, ci95: t * (variance / count).sqrt() }
    }

    /// Whether this mean is above `other`, and the intervals do not touch.
    pub(super) fn is_clearly_above(&self, other: &Self) -> bool {
        self.mean - self.ci95 > other.mean + other.ci95
    }
}

/// A mean of values that come one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Average {
    sum: f64,
    count: u64,
}

impl Average {
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut average = Self::default();
        average.add(values);
        average
    }

    pub(super) fn add(&mut self, values: impl IntoIterator<Item = f64>) {
        for value in values {
            self.sum += value;
            self.count += 1;
        }
    }

    /// None where there was no value.
    pub(super) fn get(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// What the probability of an event is at most, with 95 % confidence, that was seen `count` times
/// in `of` trials (Clopper and Pearson, one-sided).
pub(crate) fn binomial_upper_95(count: u64, of: u64) -> f64 {
    if count >= of {
        return 1.0;
    }
    // The probability at which so few events, or fewer, would be seen once in twenty times.
    let (mut low, mut high) = (count as f64 / of as f64, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if at_most(count, of, middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

/// What the probability of such an event is at least, with the same confidence.
pub(crate) fn binomial_lower_95(count: u64, of: u64) -> f64 {
    1.0 - binomial_upper_95(of.saturating_sub(count), of)
}

/// The probability of at most `count` events of probability p in `of` trials.
fn at_most(count: u64, of: u64, p: f64) -> f64 {
    // ln of the binomial coefficient grows by one factor with each term.
    let (mut coefficient, mut sum) = (0.0, 0.0);
    for k in 0..=count {
        sum += (coefficient + k as f64 * p.ln() + (of - k) as f64 * (-p).ln_1p()).exp();
        coefficient += ((of - k) as f64 / (k + 1) as f64).ln();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_a_share_by_hand() {
        // 1 − 0.05^(1/10); and of 10 trials with 2 events 0.507 (tables of Clopper and Pearson).
        assert!((binomial_upper_95(0, 10) - 0.258_87).abs() < 1e-5);
        assert!((binomial_upper_95(2, 10) - 0.507).abs() < 1e-3);
        assert_eq!((binomial_upper_95(10, 10), binomial_upper_95(0, 0)), (1.0, 1.0));
        assert!((binomial_lower_95(10, 10) - 0.741_13).abs() < 1e-5);
        assert_eq!((binomial_lower_95(0, 10), binomial_lower_95(0, 0)), (0.0, 0.0));
    }

    #[test]
    fn an_average_of_nothing_is_none() {
        let mut average = Average::default();
        average.add(None);
        assert_eq!(average.get(), None);
        average.add([1.0, 2.0]);
        average.add(Some(6.0));
        assert_eq!(average.get(), Some(3.0));
        assert_eq!(Average::of([1.0, 2.0, 6.0]), average);
    }

    #[test]
    fn an_interval_by_hand() {
        // Values 1, 2, 3: deviation 1, t(2) = 4.303.
        let mean = Mean::of(&[1.0, 2.0, 3.0]);
        assert_eq!(mean.mean, 2.0);
        assert!((mean.ci95 - 4.303 / 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(Mean::of(&[5.0]), Mean { mean: 5.0, ci95: f64::INFINITY });
    }

    #[test]
    fn clearly_above_means_that_the_intervals_are_apart() {
        let mean = |mean, ci95| Mean { mean, ci95 };
        assert!(mean(0.65, 0.01).is_clearly_above(&mean(0.6, 0.03)));
        assert!(!mean(0.65, 0.03).is_clearly_above(&mean(0.6, 0.03)));
    }
}
