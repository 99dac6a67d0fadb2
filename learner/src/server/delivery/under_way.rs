//! Groups that are judged now: each of them once, however often it is sent meanwhile.

use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::order::OrderCounter;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The orders for which a group of a node is judged. Bounded by the judges, and by the groups
/// that wait for verifiers.
#[derive(Clone, Default)]
pub(in crate::server) struct UnderWay(Arc<Mutex<BTreeSet<(PublicKey, OrderCounter)>>>);

/// One of them, until it is dropped.
pub(super) struct GroupUnderWay {
    all: UnderWay,
    group: (PublicKey, OrderCounter),
}

impl UnderWay {
    /// Begins to judge a group of `node`, unless one for the same order is judged already.
    pub(super) fn begin(&self, node: PublicKey, counter: OrderCounter) -> Option<GroupUnderWay> {
        let group = (node, counter);
        self.0.lock().insert(group).then(|| GroupUnderWay { all: self.clone(), group })
    }
}

impl Drop for GroupUnderWay {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.group);
    }
}
