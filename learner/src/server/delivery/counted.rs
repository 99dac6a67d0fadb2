//! Groups whose near misses are in their node's record already, and what was said of them.
//!
//! A group comes again where the learner could not decide: a disk was full, or judging failed. It is
//! looked at again then. What an honest node has by chance would count once for each time, and come
//! to a lie. Nor does a group that was refused pass when it comes again, as its order may be leased again.

use crate::reputation::Alarm;
use echo_protocol::wire::content_id::ContentId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};

/// Most groups that are remembered, the newest: as many as may wait to come again.
const MAX_COUNTED: usize = 4096;

/// The groups that were counted.
#[derive(Default)]
pub(in crate::server) struct Counted(Mutex<Groups>);

#[derive(Default)]
struct Groups {
    /// Each with the alarm that it raised.
    alarms: BTreeMap<ContentId, Option<Alarm>>,
    /// The oldest first.
    order: VecDeque<ContentId>,
}

impl Counted {
    /// The alarm that a group raises. `count` says so the first time, and is repeated after that.
    pub(super) fn once(&self, group: ContentId, count: impl FnOnce() -> Option<Alarm>) -> Option<Alarm> {
        // Held while it is counted, so that a copy at the same time hears the same.
        let mut groups = self.0.lock();
        let Groups { alarms, order } = &mut *groups;
        if let Some(alarm) = alarms.get(&group) {
            return *alarm;
        }
        let alarm = count();
        alarms.insert(group, alarm);
        order.push_back(group);
        if order.len() > MAX_COUNTED
            && let Some(oldest) = order.pop_front()
        {
            alarms.remove(&oldest);
        }
        alarm
    }
}
