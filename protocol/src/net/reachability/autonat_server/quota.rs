//! How often others may have themselves dialled.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::net::reachability::fixed_window::Allowance;

/// Trials of one network within a [`MINUTE`]. A host has about four addresses to be tried, each
/// twice; several may share a network.
pub(super) const MAX_TRIALS_PER_NETWORK: u32 = 32;
/// Networks whose trials are counted. Others have to wait until the minute of one of them is over.
pub(super) const MAX_NETWORKS: usize = 4096;
/// After this counting begins anew.
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// Trials by network, and not by peer, as an identity costs nothing.
#[derive(Debug, Default)]
pub(super) struct Quota {
    networks: BTreeMap<IpAddr, Allowance>,
}

impl Quota {
    /// Takes one more trial for a network; false if it has had enough.
    pub(super) fn take(&mut self, now: Instant, network: IpAddr) -> bool {
        if self.networks.len() >= MAX_NETWORKS && !self.networks.contains_key(&network) {
            self.networks.retain(|_, trials| !trials.is_over(now));
            if self.networks.len() >= MAX_NETWORKS {
                return false;
            }
        }
        let trials = || Allowance::new(MAX_TRIALS_PER_NETWORK, MINUTE);
        self.networks.entry(network).or_insert_with(trials).take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn network(n: usize) -> IpAddr {
        Ipv4Addr::from(u32::try_from(n).unwrap()).into()
    }

    #[test]
    fn one_network_takes_nothing_from_others_and_has_more_a_minute_later() {
        let (mut quota, begun) = (Quota::default(), Instant::now());
        let taken = (0..100).filter(|_| quota.take(begun, network(1))).count();
        assert_eq!(taken, MAX_TRIALS_PER_NETWORK as usize);
        assert!(quota.take(begun, network(2)));
        assert!(quota.take(begun + MINUTE, network(1)));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut quota, begun) = (Quota::default(), Instant::now());
        let taken = (0..2 * MAX_NETWORKS).filter(|n| quota.take(begun, network(*n))).count();
        assert_eq!((taken, quota.networks.len()), (MAX_NETWORKS, MAX_NETWORKS));
        assert!(quota.take(begun, network(0)), "who is counted already goes on");
        assert!(quota.take(begun + MINUTE, network(MAX_NETWORKS)));
        assert_eq!(quota.networks.len(), 1);
    }
}
