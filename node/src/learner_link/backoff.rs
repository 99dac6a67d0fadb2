//! Pauses between attempts that go on for ever.

use std::time::Duration;

/// Doubles from a first pause up to a longest one. Each is cut by a random part of up to a quarter: nodes
/// that lost the learner in one moment do not come back in one.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    next: Duration,
    most: Duration,
}

impl Backoff {
    /// Pauses from `first` up to `most`.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, next: first, most }
    }

    /// The pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (self.next * 2).min(self.most);
        pause.mul_f64(rand::random_range(0.75..=1.0))
    }

    /// An attempt succeeded: the next pause is the first again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_over_after_success() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(5));
        let about = |pause: Duration, whole: u64| pause <= seconds(whole) && pause >= seconds(whole) * 3 / 4;
        assert!([1, 2, 4, 5, 5].iter().all(|whole| about(backoff.pause(), *whole)));
        backoff.reset();
        assert!(about(backoff.pause(), 1));
        let drawn: BTreeSet<Duration> =
            (0..8).map(|_| Backoff::new(seconds(1), seconds(5)).pause()).collect();
        assert!(drawn.len() > 1, "no two nodes need the same");
    }
}
