//! How often a peer may ask for leases.

use super::token_bucket::LeakyBucket;
use echo_protocol::wire::identity::PublicKey;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Questions for leases of one peer that are looked at each second, in the long run. A node asks
/// when its stock is half empty, and where there was not enough ten times a second: this is enough
/// for 256 groups a second, all that are taken of a peer, from a stock of eight orders.
const LEASES_PER_S: u32 = 64;
/// So much may come at once, in seconds of the above.
const BURST: Duration = Duration::from_secs(2);
/// Most peers whose pace is remembered, which each is for a burst's time at most: more than can be connected.
const MAX_REMEMBERED: usize = 1 << 14;

/// What peers have taken of their allowances.
#[derive(Debug, Default)]
pub(super) struct PeerAllowances(BTreeMap<PublicKey, LeakyBucket>);

impl PeerAllowances {
    /// Takes one question of `peer`; or says how long it has to wait, and has taken nothing.
    pub(super) fn take(&mut self, now: Instant, peer: PublicKey) -> Result<(), Duration> {
        if self.0.len() >= MAX_REMEMBERED && !self.0.contains_key(&peer) {
            self.0.retain(|_, taken| !taken.is_empty(now));
            if self.0.len() >= MAX_REMEMBERED {
                return Err(BURST);
            }
        }
        let taken = self.0.entry(peer).or_insert_with(|| LeakyBucket::new(now));
        let wait = taken.wait(now, BURST);
        if !wait.is_zero() {
            return Err(wait);
        }
        taken.fill(now, Duration::from_secs(1) / LEASES_PER_S);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u32) -> PublicKey {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        PublicKey::from_bytes(bytes)
    }

    #[test]
    fn a_burst_passes_and_then_questions_come_at_their_rate_whoever_else_asks() {
        let (mut pace, begun) = (PeerAllowances::default(), Instant::now());
        let taken = |pace: &mut PeerAllowances, now, who| {
            (0..10_000).filter(|_| pace.take(now, peer(who)).is_ok()).count()
        };
        let burst = LEASES_PER_S as usize * 2 + 1;
        assert_eq!(taken(&mut pace, begun, 0), burst);
        let wait = pace.take(begun, peer(0)).unwrap_err();
        assert!(wait <= Duration::from_secs(1) / LEASES_PER_S, "{wait:?}: what was not taken costs nothing");
        assert_eq!(taken(&mut pace, begun, 1), burst);
        assert!(pace.take(begun + wait, peer(0)).is_ok());
        let later = taken(&mut pace, begun + wait + Duration::from_secs(1), 0);
        assert!((LEASES_PER_S as usize - 1..=LEASES_PER_S as usize).contains(&later), "{later}");
    }

    #[test]
    fn an_honest_node_that_asks_as_often_as_it_is_told_to_never_waits() {
        let (mut pace, begun) = (PeerAllowances::default(), Instant::now());
        // Ten times a second, and once for every four of 200 groups a second.
        for (every_ms, times) in [(100, 600), (20, 3_000)] {
            for n in 0..times {
                assert_eq!(
                    pace.take(begun + Duration::from_millis(every_ms * n), peer(every_ms as u32)),
                    Ok(())
                );
            }
        }
    }

    #[test]
    fn who_has_not_asked_for_long_is_forgotten_for_others() {
        let (mut pace, begun) = (PeerAllowances::default(), Instant::now());
        let most = MAX_REMEMBERED as u32;
        assert!((0..most).all(|n| pace.take(begun, peer(n)).is_ok()));
        assert_eq!(pace.take(begun, peer(most)), Err(BURST));
        assert_eq!(pace.take(begun, peer(0)), Ok(()), "who is remembered is not in the way of itself");
        assert_eq!(pace.take(begun + BURST, peer(most)), Ok(()));
        assert_eq!(pace.0.len(), 1);
    }
}
