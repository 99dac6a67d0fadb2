//! How many updates lie between the policy that sampled a batch and the one that trains on it.

use std::f64::consts::TAU;
use std::fmt;

/// The longest delay in seconds that its model is scaled to: 99.5 % of all draws are below it (GEPO §4.1: 1800 s are 64 updates).
const LONGEST_S: f64 = 1800.0;
/// The share of draws that are below the longest delay.
const WITHIN: f64 = 0.995;
/// The standard normal's quantile of [`WITHIN`].
const NORMAL_QUANTILE: f64 = 2.575_829_303_548_9;
/// Spread of the log-normal delays, in the logarithm.
const LOG_NORMAL_SIGMA: f64 = 1.0;
/// Shape of the Weibull delays: above 1, so that short delays are rare.
const WEIBULL_SHAPE: f64 = 1.5;

/// The distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DelayModel {
    /// Always the longest.
    #[default]
    Fixed,
    /// Log-normal.
    LogNormal,
    /// Weibull.
    Weibull,
    /// Exponential.
    Exponential,
}

/// Delays of up to so many updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Where they come from.
    pub model: DelayModel,
    /// The longest, in updates; longer draws count as this.
    pub updates: u64,
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = match self.model {
            _ if self.updates == 0 => return f.write_str("no delay"),
            DelayModel::Fixed => "delay",
            DelayModel::LogNormal => "log-normal delay up to",
            DelayModel::Weibull => "Weibull delay up to",
            DelayModel::Exponential => "exponential delay up to",
        };
        write!(f, "{model} {}", self.updates)
    }
}

impl Delay {
    /// The delay of a batch, in updates: a function of seed and batch.
    pub(super) fn of(&self, seed: u64, batch: u64) -> u64 {
        let (u, v) = (uniform(seed, 2 * batch), uniform(seed, 2 * batch + 1));
        let seconds = match self.model {
            DelayModel::Fixed => LONGEST_S,
            DelayModel::LogNormal => {
                let normal = (-2.0 * u.ln()).sqrt() * (TAU * v).cos();
                LONGEST_S * (LOG_NORMAL_SIGMA * (normal - NORMAL_QUANTILE)).exp()
            }
            DelayModel::Weibull => LONGEST_S * (u.ln() / (1.0 - WITHIN).ln()).powf(1.0 / WEIBULL_SHAPE),
            DelayModel::Exponential => LONGEST_S * u.ln() / (1.0 - WITHIN).ln(),
        };
        ((seconds / LONGEST_S * self.updates as f64) as u64).min(self.updates)
    }
}

/// A number in (0, 1) that depends on both arguments (splitmix64).
fn uniform(seed: u64, index: u64) -> f64 {
    let mut z =
        seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + 0.5 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_half_a_percent_of_the_draws_are_below_the_longest() {
        for model in [DelayModel::LogNormal, DelayModel::Weibull, DelayModel::Exponential] {
            let delay = Delay { model, updates: 1_000_000 };
            let draws: Vec<u64> = (0..40_000).map(|batch| delay.of(3, batch)).collect();
            let cut = draws.iter().filter(|d| **d == delay.updates).count();
            assert!((150..250).contains(&cut), "{model:?} {cut}");
            assert!(draws.iter().any(|d| *d < delay.updates / 20), "{model:?}");
        }
    }

    #[test]
    fn fixed_delays_are_fixed_and_draws_are_repeatable() {
        assert!((0..9).all(|batch| Delay { model: DelayModel::Fixed, updates: 64 }.of(1, batch) == 64));
        let delay = Delay { model: DelayModel::Weibull, updates: 64 };
        assert_eq!(delay.of(1, 5), delay.of(1, 5));
        assert!((0..64).any(|batch| delay.of(1, batch) != delay.of(2, batch)));
    }
}
