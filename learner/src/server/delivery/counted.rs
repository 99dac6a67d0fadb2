//! Groups whose near misses are in their node's record already.
//!
//! A group comes again where the learner could not decide: a disk was full, or judging failed. It is
//! looked at again then. What an honest node has by chance would count once for each time, and come
//! to a lie.

use echo_protocol::wire::content_id::ContentId;
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};

/// Most groups that are remembered, the newest: as many as may wait to come again.
const MAX_COUNTED: usize = 4096;

/// The groups, and their order.
#[derive(Default)]
pub(in crate::server) struct Counted(Mutex<(BTreeSet<ContentId>, VecDeque<ContentId>)>);

impl Counted {
    /// Notes a group. False if it was noted before.
    pub(super) fn note(&self, group: ContentId) -> bool {
        let mut counted = self.0.lock();
        let (groups, order) = &mut *counted;
        if !groups.insert(group) {
            return false;
        }
        order.push_back(group);
        if order.len() > MAX_COUNTED
            && let Some(oldest) = order.pop_front()
        {
            groups.remove(&oldest);
        }
        true
    }
}
