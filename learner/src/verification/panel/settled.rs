//! What the learner found lately, for reports that come late.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::PublicKey;

use super::MAX_SETTLED;

/// Groups on which reports are still awaited, the newest [`MAX_SETTLED`].
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Whether the group was sound, and who has not said it yet.
    groups: BTreeMap<ContentId, (bool, BTreeSet<PublicKey>)>,
    /// Their order; some may be complete and gone.
    order: VecDeque<ContentId>,
}

impl Settled {
    pub(super) fn remember(&mut self, group: ContentId, sound: bool, awaited: BTreeSet<PublicKey>) {
        if awaited.is_empty() || self.groups.insert(group, (sound, awaited)).is_some() {
            return;
        }
        self.order.push_back(group);
        while self.order.len() > MAX_SETTLED
            && let Some(oldest) = self.order.pop_front()
        {
            self.groups.remove(&oldest);
        }
    }

    /// Whether the group was sound, if a report of this verifier is still awaited; it is not any more then.
    pub(super) fn take(&mut self, group: &ContentId, key: &PublicKey) -> Option<bool> {
        let (sound, awaited) = self.groups.get_mut(group)?;
        let sound = *sound;
        awaited.remove(key).then_some(sound)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.groups.len().max(self.order.len())
    }
}
