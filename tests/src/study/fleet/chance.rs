//! Draws of a seed, in the distributions that the simulation needs.

use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::rng::Draws;
use std::f64::consts::TAU;

/// A stream of draws.
pub(super) struct Chance(Draws);

impl Chance {
    /// The stream of a seed for one purpose.
    pub(super) fn new(seed: u64, purpose: &[u8]) -> Self {
        let of = [&seed.to_le_bytes()[..], purpose].concat();
        Self(Draws::new(*ContentId::of(&of).as_bytes()))
    }

    /// From `0..n`.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    /// In (0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Between two positive numbers, evenly in their logarithms.
    pub(super) fn between_logs(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// Log-normal with this mean.
    pub(super) fn log_normal(&mut self, mean: f64, sigma: f64) -> f64 {
        // Box and Muller.
        let normal = (-2.0 * self.unit().ln()).sqrt() * (TAU * self.unit()).cos();
        mean * (sigma * normal - sigma * sigma / 2.0).exp()
    }

    /// Exponential with this mean.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_their_means_and_a_seed_replays() {
        let mut chance = Chance::new(3, b"a");
        let mean = |draw: &mut dyn FnMut() -> f64| (0..20_000).map(|_| draw()).sum::<f64>() / 20_000.0;
        assert!((mean(&mut || chance.log_normal(100.0, 0.5)) - 100.0).abs() < 2.0);
        assert!((mean(&mut || chance.exponential(50.0)) - 50.0).abs() < 2.0);
        assert!((0..1_000).all(|_| (2.0..8.0).contains(&chance.between_logs(2.0, 8.0))));
        let first = |seed, purpose: &[u8]| Chance::new(seed, purpose).below(u64::MAX);
        assert_eq!(first(1, b"a"), first(1, b"a"));
        assert!(first(1, b"a") != first(2, b"a") && first(1, b"a") != first(1, b"b"));
    }
}
