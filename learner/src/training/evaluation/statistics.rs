//! What the samples of an evaluation come to: avg@k and pass@k, each with a 95 % interval.
//!
//! Both are means over rows. avg@k of a row is the mean reward of its samples. pass@k is the chance
//! that of k samples, drawn without replacement from the n there are, at least one is right:
//! 1 − C(n−c, k) / C(n, k) with c right ones (Chen et al. 2021). It is unbiased, unlike
//! 1 − (1 − c/n)^k. Intervals are percentiles of means over rows that are drawn again with
//! replacement (bootstrap): they say what other rows of the kind would give, not what other samples
//! would. Where all rows come to the same, the interval is that one number.

use echo_protocol::wire::rng::Draws;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Drawn sets of rows behind an interval: its ends then waver by some 3 % of its width.
pub const RESAMPLES: usize = 2000;
/// Share of them on either side of an interval.
const TAIL: f64 = 0.025;
/// The same for ever, so that the same rows have the same interval.
const SEED: [u8; 32] = *b"echo bootstrap over rows, seed 1";

/// What one row came to.
#[derive(Clone, Debug, PartialEq)]
pub struct RowScore {
    /// The reward of each sample; at least one.
    pub rewards: Vec<f64>,
    /// How many samples are right.
    pub right: usize,
}

/// A mean over rows, and between what it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// What all rows come to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Rows that were answered.
    pub rows: usize,
    /// Samples of each.
    pub samples: usize,
    /// avg@k, with k as many as there are samples.
    pub avg: Estimate,
    /// pass@k by k.
    pub pass: BTreeMap<usize, Estimate>,
}

impl Figures {
    /// The figures of rows that all have as many samples; `None` where there is no row.
    #[must_use]
    pub fn of(rows: &[RowScore]) -> Option<Self> {
        let samples = rows.first()?.rewards.len();
        let ks: Vec<usize> = powers_of_two(samples).collect();
        let table: Vec<Vec<f64>> = rows
            .iter()
            .map(|row| {
                let avg = row.rewards.iter().sum::<f64>() / row.rewards.len().max(1) as f64;
                let pass = ks.iter().map(|k| pass_at_k(row.rewards.len(), row.right, *k));
                std::iter::once(avg).chain(pass).collect()
            })
            .collect();
        let mut estimates = bootstrap(&table).into_iter();
        let avg = estimates.next()?;
        Some(Self { rows: rows.len(), samples, avg, pass: ks.into_iter().zip(estimates).collect() })
    }

    /// Each figure with its name, as metrics and tables have them: `avg`, `avg_low`, `avg_high`, and the
    /// same of `pass@1` and so on.
    pub fn named(&self) -> impl Iterator<Item = (String, f64)> {
        let passes = self.pass.iter().map(|(k, pass)| (format!("pass@{k}"), *pass));
        std::iter::once(("avg".to_owned(), self.avg)).chain(passes).flat_map(|(name, estimate)| {
            let (low, high) = (format!("{name}_low"), format!("{name}_high"));
            [(name, estimate.value), (low, estimate.low), (high, estimate.high)]
        })
    }
}

/// 1, 2, 4, … up to `most`.
fn powers_of_two(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1_usize), |k| k.checked_mul(2)).take_while(move |k| *k <= most)
}

/// The chance that at least one of `k` samples is right, of `samples` of which `right` are. 1 where
/// fewer than `k` are wrong.
#[must_use]
pub fn pass_at_k(samples: usize, right: usize, k: usize) -> f64 {
    let wrong = samples.saturating_sub(right);
    if wrong < k {
        return 1.0;
    }
    // C(wrong, k) / C(samples, k), factor by factor: the numbers themselves overflow.
    let all_wrong: f64 = (wrong + 1..=samples).map(|i| 1.0 - k as f64 / i as f64).product();
    1.0 - all_wrong
}

/// The mean of each column, with its interval.
fn bootstrap(table: &[Vec<f64>]) -> Vec<Estimate> {
    let columns = table.first().map_or(0, Vec::len);
    let mean_of = |rows: &mut dyn Iterator<Item = usize>| {
        let mut sums = vec![0.0; columns];
        for row in rows {
            sums.iter_mut().zip(&table[row]).for_each(|(sum, value)| *sum += value);
        }
        sums.into_iter().map(|sum| sum / table.len() as f64).collect::<Vec<f64>>()
    };
    let mut draws = Draws::new(SEED);
    let mut means = vec![Vec::with_capacity(RESAMPLES); columns];
    for _ in 0..RESAMPLES {
        let drawn = mean_of(&mut (0..table.len()).map(|_| draws.below(table.len() as u64) as usize));
        means.iter_mut().zip(drawn).for_each(|(column, mean)| column.push(mean));
    }
    let outside = (RESAMPLES as f64 * TAIL) as usize;
    let interval = |(value, mut drawn): (f64, Vec<f64>)| {
        drawn.sort_unstable_by(f64::total_cmp);
        // Sums of the same numbers in another order differ in their last bits.
        let (low, high) = (drawn[outside].min(value), drawn[RESAMPLES - 1 - outside].max(value));
        Estimate { value, low, high }
    };
    mean_of(&mut (0..table.len())).into_iter().zip(means).map(interval).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// pass@k by looking at every set of k samples.
    fn by_sets(verdicts: &[bool], k: usize) -> f64 {
        let sets = (0_u32..1 << verdicts.len()).filter(|set| set.count_ones() as usize == k);
        let passes = |set: &u32| (0..verdicts.len()).any(|at| (set >> at) & 1 == 1 && verdicts[at]);
        let sets: Vec<u32> = sets.collect();
        sets.iter().filter(|set| passes(set)).count() as f64 / sets.len() as f64
    }

    fn row(verdicts: &[bool]) -> RowScore {
        let rewards = verdicts.iter().map(|right| f64::from(u8::from(*right))).collect();
        RowScore { rewards, right: verdicts.iter().filter(|right| **right).count() }
    }

    proptest! {
        #[test]
        fn pass_at_k_is_what_all_sets_of_samples_say(verdicts in proptest::collection::vec(any::<bool>(), 1..12)) {
            let right = verdicts.iter().filter(|right| **right).count();
            for k in 1..=verdicts.len() {
                let (ours, theirs) = (pass_at_k(verdicts.len(), right, k), by_sets(&verdicts, k));
                prop_assert!((ours - theirs).abs() < 1e-12, "{verdicts:?} {k}: {ours} {theirs}");
            }
        }

        #[test]
        fn figures_of_random_verdicts_are_means_of_rows_within_their_intervals(
            rows in proptest::collection::vec(proptest::collection::vec(any::<bool>(), 8), 1..20)
        ) {
            let figures = Figures::of(&rows.iter().map(|verdicts| row(verdicts)).collect::<Vec<_>>()).unwrap();
            prop_assert_eq!((figures.rows, figures.samples), (rows.len(), 8));
            prop_assert_eq!(figures.pass.keys().copied().collect::<Vec<_>>(), [1, 2, 4, 8]);
            for (k, pass) in &figures.pass {
                let mean = rows.iter().map(|row| by_sets(row, *k)).sum::<f64>() / rows.len() as f64;
                prop_assert!((pass.value - mean).abs() < 1e-12);
            }
            prop_assert!((figures.avg.value - figures.pass[&1].value).abs() < 1e-12);
            for estimate in figures.pass.values().chain([&figures.avg]) {
                let Estimate { value, low, high } = *estimate;
                prop_assert!(0.0 <= low && low <= value && value <= high && high <= 1.0 + 1e-12);
            }
            let values: Vec<f64> = figures.pass.values().map(|pass| pass.value).collect();
            prop_assert!(values.is_sorted(), "more samples pass no less often: {:?}", values);
        }
    }

    #[test]
    fn pass_at_k_of_many_samples_does_not_overflow() {
        assert_eq!(pass_at_k(1024, 0, 1024), 0.0);
        assert_eq!(pass_at_k(1024, 1, 1024), 1.0);
        assert!((pass_at_k(1024, 1, 512) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn an_interval_is_as_wide_as_theory_says_and_always_the_same() {
        // 400 rows with one sample each, of which a quarter are right: the mean's deviation is 0.0217.
        let rows: Vec<RowScore> = (0..400).map(|index| row(&[index % 4 == 0])).collect();
        let Estimate { value, low, high } = Figures::of(&rows).unwrap().avg;
        let deviation = (0.25_f64 * 0.75 / 400.0).sqrt();
        assert_eq!(value, 0.25);
        assert!((value - low - 1.96 * deviation).abs() < 0.006, "{low}");
        assert!((high - value - 1.96 * deviation).abs() < 0.006, "{high}");
        assert_eq!(Figures::of(&rows), Figures::of(&rows));
        let fewer = Figures::of(&rows[..100]).unwrap().avg;
        assert!(fewer.high - fewer.low > 1.7 * (high - low), "a quarter of the rows: twice as wide");
    }

    #[test]
    fn rows_that_agree_have_no_width_and_no_row_has_no_figures() {
        let figures = Figures::of(&vec![row(&[true, false]); 30]).unwrap();
        assert_eq!(figures.avg, Estimate { value: 0.5, low: 0.5, high: 0.5 });
        assert_eq!(figures.pass[&2], Estimate { value: 1.0, low: 1.0, high: 1.0 });
        assert_eq!(Figures::of(&[]), None);
        let names: Vec<String> = figures.named().map(|(name, _)| name).collect();
        assert_eq!(names[..4], ["avg", "avg_low", "avg_high", "pass@1"].map(str::to_owned));
    }
}
