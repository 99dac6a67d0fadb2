//! Near misses of all newcomers of a network together.
//!
//! A fresh key has no near misses, and each may hide some before they are an alarm. So what the keys
//! without a record come to is counted for their network too: whoever changes keys within it gains
//! nothing. The bets are those of one key ([`NearMisses`]), and honest newcomers win them as seldom at
//! each look, however many they are. Beside a cheat, an honest newcomer may be refused, so that is held
//! against nobody.

use std::collections::BTreeMap;

use echo_policy::audit::NearMisses;

use super::{MAX_NETWORKS, NetworkPrefix};

/// Whose near misses are more than chance explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Those of the key, over its record.
    Key,
    /// Those of its network's newcomers, of which it is one. The key's own may be chance.
    Network,
}

/// What networks' newcomers come to. A network without an entry has nothing. It is not kept over a
/// restart, at which a cheat begins anew once.
#[derive(Clone, Debug, Default)]
pub(super) struct Newcomers(BTreeMap<NetworkPrefix, NearMisses>);

impl Newcomers {
    /// Adds the near misses of a group. True if there are more now than chance explains.
    pub(super) fn add(&mut self, network: NetworkPrefix, near_misses: NearMisses) -> bool {
        let all = self.0.get(&network).copied().unwrap_or_default().then(near_misses);
        if all.suspicion() <= 0.0 {
            // The next look begins as if there had been none.
            self.0.remove(&network);
            return false;
        }
        self.0.insert(network, all);
        if self.0.len() > MAX_NETWORKS {
            let least = self.0.iter().min_by(|(_, a), (_, b)| a.suspicion().total_cmp(&b.suspicion()));
            if let Some(network) = least.map(|(network, _)| *network) {
                self.0.remove(&network);
            }
        }
        all.is_alarm()
    }

    /// Forgets what a network's newcomers came to.
    pub(super) fn forget(&mut self, network: &NetworkPrefix) {
        self.0.remove(network);
    }
}
