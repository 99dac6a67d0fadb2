//! Nobody takes more than a few places at the control service, however much it asks.

use echo_protocol::wire::identity::PublicKey;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Requests of one peer that are worked on at once. A node has a heartbeat, a question for leases
/// and one for neighbours under way.
const AT_ONCE_OF_ONE: u32 = 4;

/// How many requests each peer has under way. Bounded by the places that all of them share.
#[derive(Clone, Default)]
pub(super) struct RequestCounts(Arc<Mutex<BTreeMap<PublicKey, u32>>>);

/// One request under way, until it is dropped.
pub(super) struct CountedRequest {
    turns: RequestCounts,
    peer: PublicKey,
}

impl RequestCounts {
    /// A turn for `peer`, unless it has as many as anybody may have.
    pub(super) fn take(&self, peer: PublicKey) -> Option<CountedRequest> {
        let mut under_way = self.0.lock();
        let count = under_way.entry(peer).or_default();
        if *count >= AT_ONCE_OF_ONE {
            return None;
        }
        *count += 1;
        Some(CountedRequest { turns: self.clone(), peer })
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        let mut under_way = self.turns.0.lock();
        if let Some(count) = under_way.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::identity::NodeKey;

    #[test]
    fn a_greedy_peer_leaves_places_to_others() {
        let [greedy, modest] = [1, 2].map(|n| NodeKey::from_secret([n; 32]).public());
        let turns = RequestCounts::default();
        let mut taken: Vec<CountedRequest> = std::iter::from_fn(|| turns.take(greedy)).collect();
        assert_eq!(taken.len(), AT_ONCE_OF_ONE as usize);
        assert!(turns.take(modest).is_some());
        taken.pop();
        assert!(turns.take(greedy).is_some());
        drop(taken);
        assert!(turns.0.lock().is_empty());
    }
}
