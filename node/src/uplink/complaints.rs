//! What the log says of groups that come to nothing. A second process of this identity is refused dozens of
//! them a second.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Complaints of one kind have one line in this time.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Complaints by their kind.
#[derive(Debug, Default)]
pub struct Complaints(Mutex<BTreeMap<&'static str, Kind>>);

#[derive(Debug)]
struct Kind {
    logged: Instant,
    /// Complaints that have no line.
    silent: u64,
}

impl Complaints {
    /// Counts a complaint. When it is to be logged, returns for how many it stands.
    pub(super) fn due(&self, kind: &'static str) -> Option<u64> {
        // Counts are sound whatever happened to the thread that held them.
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let Some(kind) = kinds.get_mut(kind) else {
            kinds.insert(kind, Kind { logged: now, silent: 0 });
            return Some(1);
        };
        if now.duration_since(kind.logged) < LOG_EVERY {
            kind.silent += 1;
            return None;
        }
        kind.logged = now;
        Some(std::mem::take(&mut kind.silent) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_complaints_of_a_kind_have_one_line_that_counts_them() {
        let complaints = Complaints::default();
        assert_eq!(complaints.due("stale"), Some(1));
        for _ in 0..30 {
            assert_eq!(complaints.due("stale"), None);
        }
        assert_eq!(complaints.due("lease"), Some(1), "another kind");
        tokio::time::advance(LOG_EVERY).await;
        assert_eq!(complaints.due("stale"), Some(31));
        assert_eq!(complaints.due("stale"), None);
    }
}
