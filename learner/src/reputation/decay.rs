//! Counts that fade.

use echo_protocol::wire::time::UnixMillis;
use serde::{Deserialize, Serialize};

/// A count of which half is left after each half-life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Fading {
    value: f64,
    /// When it had that value.
    at: UnixMillis,
}

impl Fading {
    /// What is left of it. A clock that goes back lets nothing fade.
    pub(super) fn at(&self, now: UnixMillis, half_life_ms: u64) -> f64 {
        self.value * (-(now.since(self.at) as f64) / half_life_ms.max(1) as f64).exp2()
    }

    /// Adds one, and returns what it is then.
    pub(super) fn add(&mut self, now: UnixMillis, half_life_ms: u64) -> f64 {
        *self = Self { value: self.at(now, half_life_ms) + 1.0, at: self.at.max(now) };
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_left_after_a_half_life_and_nothing_fades_backwards() {
        let mut count = Fading::default();
        let added = [(); 4].map(|()| count.add(UnixMillis(1_000), 500));
        assert_eq!(added, [1.0, 2.0, 3.0, 4.0]);
        let left = |now| count.at(UnixMillis(now), 500);
        assert_eq!((left(1_000), left(1_500), left(2_000), left(0)), (4.0, 2.0, 1.0, 4.0));
        assert_eq!(left(u64::MAX), 0.0);
    }
}
