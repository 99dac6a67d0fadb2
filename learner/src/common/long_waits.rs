//! What is said of long waits, so that nobody has to guess what a quiet learner waits for.

use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A wait is reported after this, after twice this, after four times this ...
const FIRST: Duration = Duration::from_secs(30);

/// When a wait is reported next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportDue(Duration);

impl Default for ReportDue {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl ReportDue {
    /// Whether a wait is worth a word after it took `waited`. True once for each doubling.
    pub(crate) fn is_due(&mut self, waited: Duration) -> bool {
        let due = waited >= self.0;
        while waited >= self.0 {
            self.0 *= 2;
        }
        due
    }
}

/// Waits for `work`, and calls `say` whenever the wait is due to be reported, with the time that
/// it took so far.
pub(crate) async fn patiently<T>(work: impl Future<Output = T>, mut say: impl FnMut(Duration)) -> T {
    let (since, mut due, mut work) = (Instant::now(), ReportDue::default(), pin!(work));
    loop {
        if let Ok(done) = timeout_at(since + due.0, &mut work).await {
            return done;
        }
        let waited = since.elapsed();
        if due.is_due(waited) {
            say(waited);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    #[test]
    fn a_wait_is_due_after_half_a_minute_and_at_every_doubling() {
        let mut due = ReportDue::default();
        let said: Vec<u64> = (0..400).filter(|second| due.is_due(Duration::from_secs(*second))).collect();
        assert_eq!(said, [30, 60, 120, 240]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_reported_until_it_is_over_and_a_short_one_never() {
        let mut said = Vec::new();
        let work = async {
            sleep(Duration::from_secs(181)).await;
            "answer"
        };
        assert_eq!(patiently(work, |waited| said.push(waited.as_secs())).await, "answer");
        assert_eq!(said, [30, 60, 120]);
        patiently(sleep(Duration::from_secs(29)), |_| panic!("it was short")).await;
    }
}
