//! Counting within a window of time.

use std::time::Duration;

use tokio::time::Instant;

/// So many times within a window of time, which begins with the first.
#[derive(Debug)]
pub(in crate::net) struct Allowance {
    limit: u32,
    window: Duration,
    /// How many were taken since when.
    taken: Option<(Instant, u32)>,
}

impl Allowance {
    pub(in crate::net) fn new(limit: u32, window: Duration) -> Self {
        Self { limit, window, taken: None }
    }

    /// Takes one; false if there were enough.
    pub(in crate::net) fn take(&mut self, now: Instant) -> bool {
        let (since, taken) = self.taken.filter(|_| !self.is_over(now)).unwrap_or((now, 0));
        self.taken = Some((since, (taken + 1).min(self.limit)));
        taken < self.limit
    }

    /// Whether no window is open: the next one taken begins to count anew.
    pub(in crate::net) fn is_over(&self, now: Instant) -> bool {
        self.taken.is_none_or(|(since, _)| now - since >= self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_in_a_window_and_as_many_in_the_next() {
        let window = Duration::from_secs(60);
        let (mut allowance, begun) = (Allowance::new(6, window), Instant::now());
        assert!(allowance.is_over(begun));
        let taken = |allowance: &mut Allowance, now| (0..100).filter(|_| allowance.take(now)).count();
        assert_eq!(taken(&mut allowance, begun), 6);
        assert!(!allowance.take(begun + window / 2) && !allowance.is_over(begun + window / 2));
        assert!(allowance.is_over(begun + window));
        assert_eq!(taken(&mut allowance, begun + window), 6);
    }
}
