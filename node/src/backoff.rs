//! Pauses between attempts that go on for ever.

use std::time::Duration;

/// Doubles from a first pause up to a longest one.
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
        pause
    }

    /// An attempt succeeded: the next pause is the first again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_over_after_success() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(5));
        let pauses: Vec<_> = (0..5).map(|_| backoff.pause()).collect();
        assert_eq!(pauses, [1, 2, 4, 5, 5].map(seconds));
        backoff.reset();
        assert_eq!(backoff.pause(), seconds(1));
    }
}
