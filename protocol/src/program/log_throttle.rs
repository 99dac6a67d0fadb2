//! Lines of a log that come far more often than anybody reads them: each update of a fast
//! run, each refused group.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Lines by their kind. Of each kind, one is due in so much time; the others are counted.
#[derive(Debug)]
pub struct Paced {
    every: Duration,
    kinds: Mutex<BTreeMap<&'static str, Kind>>,
}

#[derive(Debug)]
struct Kind {
    logged: Instant,
    /// Lines that were not due.
    silent: u64,
}

impl Paced {
    /// One line of a kind in `every`.
    #[must_use]
    pub const fn new(every: Duration) -> Self {
        Self { every, kinds: Mutex::new(BTreeMap::new()) }
    }

    /// Counts a line. When it is due, returns for how many it stands, itself included.
    pub fn due(&self, kind: &'static str) -> Option<u64> {
        let mut kinds = self.kinds.lock();
        let now = Instant::now();
        let Some(kind) = kinds.get_mut(kind) else {
            kinds.insert(kind, Kind { logged: now, silent: 0 });
            return Some(1);
        };
        if now.duration_since(kind.logged) < self.every {
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
    async fn many_lines_of_a_kind_have_one_that_counts_them() {
        let paced = Paced::new(Duration::from_secs(60));
        assert_eq!(paced.due("stale"), Some(1));
        for _ in 0..30 {
            assert_eq!(paced.due("stale"), None);
        }
        assert_eq!(paced.due("lease"), Some(1), "another kind");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(paced.due("stale"), Some(31));
        assert_eq!(paced.due("stale"), None);
    }
}
