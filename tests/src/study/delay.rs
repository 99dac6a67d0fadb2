//! How many updates lie between the policy that sampled a batch and the one that trains on it.

use std::f64::consts::TAU;
use std::fmt;

/// The shortest and the longest delay in seconds (GEPO appendix B): nearly all draws of a model lie
/// between them, and what lies outside is cut to the nearer one. 1800 s are 64 updates (§4.1).
const SHORTEST_S: f64 = 60.0;
const LONGEST_S: f64 = 1800.0;
/// The share of draws that need no cut. Of a model with two parameters half of the others lie on
/// either side; the exponential has one, which goes by the longest alone.
const WITHIN: f64 = 0.995;
/// The share of draws below the longest, where both ends are bounded; one minus it is the
/// share below the shortest.
const BELOW_LONGEST: f64 = (1.0 + WITHIN) / 2.0;
/// The standard normal's quantile of [`BELOW_LONGEST`].
const NORMAL_QUANTILE: f64 = 2.807_033_768_343_8;

/// The distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DelayModel {
    /// Every draw is the longest delay.
    #[default]
    Fixed,
    /// Log-normal: most delays are short, with a long tail.
    LogNormal,
    /// Weibull, with both parameters set by the shortest and the longest delay.
    Weibull,
    /// Exponential, whose one parameter goes by the longest delay.
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

impl DelayModel {
    /// The delay in seconds that two numbers in (0, 1) stand for.
    fn seconds(self, u: f64, v: f64) -> f64 {
        let seconds = match self {
            Self::Fixed => LONGEST_S,
            Self::LogNormal => {
                let (mean, deviation) = log_normal();
                let normal = (-2.0 * u.ln()).sqrt() * (TAU * v).cos();
                (mean + deviation * normal).exp()
            }
            Self::Weibull => {
                let (shape, scale) = weibull();
                scale * (-u.ln()).powf(1.0 / shape)
            }
            Self::Exponential => LONGEST_S * u.ln() / (1.0 - WITHIN).ln(),
        };
        seconds.clamp(SHORTEST_S, LONGEST_S)
    }
}

/// Mean and standard deviation of the logarithm of log-normal delays: both bounds are as many
/// deviations from the mean.
fn log_normal() -> (f64, f64) {
    let (low, high) = (SHORTEST_S.ln(), LONGEST_S.ln());
    ((low + high) / 2.0, (high - low) / (2.0 * NORMAL_QUANTILE))
}

/// Shape and scale of Weibull delays: the share above x is exp(-(x / scale)^shape), and known at both bounds.
fn weibull() -> (f64, f64) {
    let (low, high) = (-BELOW_LONGEST.ln(), -(1.0 - BELOW_LONGEST).ln());
    let shape = (high / low).ln() / (LONGEST_S / SHORTEST_S).ln();
    (shape, LONGEST_S / high.powf(1.0 / shape))
}

impl Delay {
    /// The delay of a batch, in updates: a function of seed and batch. The longest delay is all of
    /// them, others are in proportion.
    pub(super) fn of(&self, seed: u64, batch: u64) -> u64 {
        let seconds = self.model.seconds(uniform(seed, 2 * batch), uniform(seed, 2 * batch + 1));
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

    /// Draws of a model in seconds, in ascending order.
    fn draws(model: DelayModel) -> Vec<f64> {
        let mut draws: Vec<f64> =
            (0..40_000).map(|at| model.seconds(uniform(3, 2 * at), uniform(3, 2 * at + 1))).collect();
        draws.sort_unstable_by(f64::total_cmp);
        draws
    }

    #[test]
    fn parameters_follow_from_the_bounds() {
        let close =
            |(a, b): (f64, f64), (c, d): (f64, f64), by: f64| (a - c).abs() < by && (b - d).abs() < by;
        let (mean, deviation) = log_normal();
        assert!(close((mean, deviation), (5.795, 0.606), 1e-3), "{mean} {deviation}");
        let (shape, scale) = weibull();
        assert!(close((shape, scale / 100.0), (2.2876, 8.2296), 1e-3), "{shape} {scale}");
        // Back from the parameters to the bounds.
        let normal = |z: f64| (mean + deviation * z).exp();
        assert!(close((normal(-NORMAL_QUANTILE), normal(NORMAL_QUANTILE)), (60.0, 1800.0), 1e-6));
        let below = |x: f64| 1.0 - (-(x / scale).powf(shape)).exp();
        assert!(close((below(60.0), below(1800.0)), (0.0025, 0.9975), 1e-9));
    }

    #[test]
    fn all_but_half_a_percent_of_the_draws_lie_between_the_bounds() {
        let cut = |draws: &[f64]| {
            [SHORTEST_S, LONGEST_S].map(|bound| draws.iter().filter(|draw| **draw == bound).count())
        };
        for model in [DelayModel::LogNormal, DelayModel::Weibull] {
            let [short, long] = cut(&draws(model));
            assert!((60..140).contains(&short) && (60..140).contains(&long), "{model:?} {short} {long}");
        }
        // A share of 1 - 0.005^(1/30) = 16.2 % is shorter than the shortest.
        let [short, long] = cut(&draws(DelayModel::Exponential));
        assert!((6_100..6_850).contains(&short) && (140..260).contains(&long), "{short} {long}");
    }

    #[test]
    fn bounds_and_medians_are_those_of_the_models() {
        let medians = [
            (DelayModel::LogNormal, 328.6),
            (DelayModel::Weibull, 701.1),
            (DelayModel::Exponential, 235.5),
            (DelayModel::Fixed, 1800.0),
        ];
        for (model, median) in medians {
            let draws = draws(model);
            assert!(draws[0] >= SHORTEST_S && draws[draws.len() - 1] <= LONGEST_S, "{model:?}");
            let found = draws[draws.len() / 2];
            assert!((found / median - 1.0).abs() < 0.03, "{model:?} {found}");
        }
    }

    #[test]
    fn the_longest_delay_is_all_updates_and_the_shortest_a_thirtieth() {
        for model in [DelayModel::LogNormal, DelayModel::Weibull, DelayModel::Exponential] {
            let found: Vec<u64> = (0..10_000).map(|at| Delay { model, updates: 64 }.of(3, at)).collect();
            assert_eq!((found.iter().min(), found.iter().max()), (Some(&2), Some(&64)), "{model:?}");
            assert!((0..99).all(|at| Delay { model, updates: 0 }.of(3, at) == 0));
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
