//! Which nodes a warning names, so that none fills the log.

use crate::training::trainer::CLAIMED_WITHIN;
use echo_protocol::wire::identity::PublicKey;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// A node is named once in this time.
const NAMED_EVERY: Duration = Duration::from_secs(60 * 60);
/// Nodes that are remembered as named. Of more of them in an hour only the metric tells.
const MAX_NAMED: usize = 4096;

/// Nodes whose log-probabilities were not believed, and when each was named.
#[derive(Default)]
pub(super) struct Named(BTreeMap<PublicKey, Instant>);

impl Named {
    /// Warns of the nodes that `update` did not believe, with their tokens.
    pub(super) fn warn(&mut self, now: Instant, update: u64, bounded: &BTreeMap<PublicKey, u64>) {
        let due = self.due(now, bounded.keys());
        if !due.is_empty() {
            let nodes: Vec<String> =
                due.iter().map(|node| format!("{} ({} tokens)", node.short(), bounded[node])).collect();
            tracing::warn!(
                "update {update}: reported log-probabilities further than {CLAIMED_WITHIN} nats from the policy's own were bounded, of {}",
                nodes.join(", ")
            );
        }
    }

    /// Those of `nodes` that were not named for long; they are now.
    fn due<'a>(&mut self, now: Instant, nodes: impl Iterator<Item = &'a PublicKey>) -> Vec<PublicKey> {
        self.0.retain(|_, named| now.duration_since(*named) < NAMED_EVERY);
        let mut due = Vec::new();
        for node in nodes {
            if self.0.len() < MAX_NAMED && !self.0.contains_key(node) {
                self.0.insert(*node, now);
                due.push(*node);
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_once_an_hour_and_another_at_once() {
        let [first, second] = [1, 2].map(|byte| PublicKey::from_bytes([byte; 32]));
        let (mut named, begun) = (Named::default(), Instant::now());
        assert_eq!(named.due(begun, [first].iter()), [first]);
        assert_eq!(named.due(begun + NAMED_EVERY / 2, [first, second].iter()), [second]);
        assert_eq!(named.due(begun + NAMED_EVERY, [first, second].iter()), [first]);
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let nodes: Vec<PublicKey> = (0..MAX_NAMED as u16 + 5)
            .map(|n| {
                let mut bytes = [0; 32];
                bytes[..2].copy_from_slice(&n.to_le_bytes());
                PublicKey::from_bytes(bytes)
            })
            .collect();
        let mut named = Named::default();
        assert_eq!(named.due(Instant::now(), nodes.iter()).len(), MAX_NAMED);
    }
}
