//! How often others may have themselves dialled.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

/// Trials of one network within a [`MINUTE`]. A host has about four addresses to be tried, each twice; several may share a network.
pub(super) const MAX_TRIALS_PER_NETWORK: u32 = 32;
/// Networks whose trials are counted. Others have to wait for the next minute.
pub(super) const MAX_NETWORKS: usize = 4096;
/// After this counting begins anew.
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// The trials of a minute. Counted by network and not by peer, as an identity costs nothing.
#[derive(Debug, Default)]
pub(super) struct Quota {
    since: Option<Instant>,
    used: BTreeMap<IpAddr, u32>,
}

impl Quota {
    /// Takes one more trial for a network; false if it has had enough.
    pub(super) fn take(&mut self, now: Instant, network: IpAddr) -> bool {
        if self.since.is_none_or(|since| now.duration_since(since) >= MINUTE) {
            self.used.clear();
            self.since = Some(now);
        }
        if self.used.len() >= MAX_NETWORKS && !self.used.contains_key(&network) {
            return false;
        }
        let used = self.used.entry(network).or_default();
        let room = *used < MAX_TRIALS_PER_NETWORK;
        *used += u32::from(room);
        room
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
        assert_eq!((taken, quota.used.len()), (MAX_NETWORKS, MAX_NETWORKS));
        assert!(quota.take(begun, network(0)), "who is counted already goes on");
    }
}
