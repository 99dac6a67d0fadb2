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

/// Keys that [`PacedKeys`] remembers. Lines of further ones are not due.
const MAX_KEYS: usize = 1024;

/// As [`Paced`], of lines about peers, of whom there are many.
#[derive(Debug)]
pub struct PacedKeys<K> {
    every: Duration,
    keys: Mutex<BTreeMap<K, Kind>>,
}

impl<K: Ord> PacedKeys<K> {
    /// One line of a key in `every`.
    #[must_use]
    pub const fn new(every: Duration) -> Self {
        Self { every, keys: Mutex::new(BTreeMap::new()) }
    }

    /// Counts a line. When it is due, returns for how many it stands, itself included.
    pub fn due(&self, key: K) -> Option<u64> {
        let (mut keys, now) = (self.keys.lock(), Instant::now());
        if let Some(kind) = keys.get_mut(&key) {
            if now.duration_since(kind.logged) < self.every {
                kind.silent += 1;
                return None;
            }
            kind.logged = now;
            return Some(std::mem::take(&mut kind.silent) + 1);
        }
        if keys.len() >= MAX_KEYS {
            keys.retain(|_, kind| now.duration_since(kind.logged) < self.every);
        }
        if keys.len() >= MAX_KEYS {
            return None;
        }
        keys.insert(key, Kind { logged: now, silent: 0 });
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_peer_has_one_line_and_a_crowd_has_no_more_than_are_remembered() {
        let paced = PacedKeys::new(Duration::from_secs(60));
        let said = (0..10_000u32).filter(|peer| paced.due(*peer).is_some()).count();
        assert_eq!((said, paced.due(7), paced.due(9_999)), (MAX_KEYS, None, None));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!((paced.due(7), paced.due(9_999)), (Some(2), Some(1)));
    }

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
