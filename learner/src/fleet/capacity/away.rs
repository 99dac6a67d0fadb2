//! What was measured of nodes that have gone: the newest, should they come back.

use echo_protocol::wire::identity::PublicKey;
use std::collections::BTreeMap;

/// Nodes that have gone and whose rate is remembered.
pub(super) const MAX_AWAY: usize = 1 << 14;

/// The rates of nodes that have gone, by key. At the limit, the one that went first is forgotten.
#[derive(Clone, Debug, Default)]
pub(super) struct Away {
    /// Rollouts a second, and the place in `by_age`.
    rates: BTreeMap<PublicKey, (u64, f64)>,
    by_age: BTreeMap<u64, PublicKey>,
    next: u64,
}

impl Away {
    /// A node has gone that brought so many rollouts a second.
    pub(super) fn gone(&mut self, node: PublicKey, per_s: f64) {
        self.back(&node);
        self.rates.insert(node, (self.next, per_s));
        self.by_age.insert(self.next, node);
        self.next += 1;
        if self.by_age.len() > MAX_AWAY
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.rates.remove(&oldest);
        }
    }

    /// A node is back: what it brought, if that is remembered.
    pub(super) fn back(&mut self, node: &PublicKey) -> Option<f64> {
        let (age, per_s) = self.rates.remove(node)?;
        self.by_age.remove(&age);
        Some(per_s)
    }

    /// All that are remembered, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (PublicKey, f64)> {
        let nodes = self.by_age.values().rev();
        nodes.filter_map(move |node| Some((*node, self.rates.get(node)?.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> PublicKey {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        PublicKey::from_bytes(bytes)
    }

    #[test]
    fn the_newest_are_remembered() {
        let mut away = Away::default();
        let most = MAX_AWAY as u64;
        (0..most).for_each(|n| away.gone(key(n), n as f64));
        // The first goes again, and is the newest now.
        away.gone(key(0), 0.5);
        away.gone(key(most), 2.0);
        assert_eq!((away.rates.len(), away.by_age.len()), (MAX_AWAY, MAX_AWAY));
        assert_eq!((away.back(&key(1)), away.back(&key(0))), (None, Some(0.5)));
        let newest: Vec<(PublicKey, f64)> = away.newest_first().take(2).collect();
        assert_eq!(newest, [(key(most), 2.0), (key(most - 1), (most - 1) as f64)]);
        assert_eq!(away.back(&key(0)), None, "it was taken");
    }
}
