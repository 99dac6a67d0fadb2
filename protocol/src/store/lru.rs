//! A cache with a limit.

use hashlink::LruCache;
use std::hash::Hash;

/// Keeps what was used last, up to a weight.
pub(super) struct Bounded<K, V> {
    entries: LruCache<K, (V, usize)>,
    weight: usize,
    limit: usize,
}

impl<K: Eq + Hash, V: Clone> Bounded<K, V> {
    /// A cache whose entries weigh at most `limit` together.
    pub(super) fn new(limit: usize) -> Self {
        Self { entries: LruCache::new_unbounded(), weight: 0, limit }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        self.entries.get(key).map(|(value, _)| value.clone())
    }

    /// Adds or replaces an entry, and forgets those used longest ago until the rest fits.
    pub(super) fn insert(&mut self, key: K, value: V, weight: usize) {
        let replaced = self.entries.insert(key, (value, weight));
        self.weight = self.weight + weight - replaced.map_or(0, |(_, weight)| weight);
        while self.weight > self.limit {
            let Some((_, (_, weight))) = self.entries.remove_lru() else { break };
            self.weight -= weight;
        }
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some((_, weight)) = self.entries.remove(key) {
            self.weight -= weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_what_was_used_longest_ago_and_stays_below_its_limit() {
        let mut cache = Bounded::new(10);
        (0..3).for_each(|key| cache.insert(key, key, 3));
        assert_eq!(cache.get(&0), Some(0));
        cache.insert(3, 3, 3);
        assert_eq!([0, 1, 2, 3].map(|key| cache.get(&key).is_some()), [true, false, true, true]);
        cache.insert(0, 7, 4);
        assert_eq!((cache.get(&0), cache.weight), (Some(7), 10));
        cache.remove(&0);
        cache.remove(&0);
        assert_eq!((cache.weight, cache.entries.len()), (6, 2));
        cache.insert(9, 9, 11);
        assert_eq!((cache.weight, cache.entries.len()), (0, 0), "too large to be kept at all");
    }
}
