//! How often a peer may ask: for leases, for manifests, for anything.

use super::token_bucket::LeakyBucket;
use echo_protocol::wire::identity::PublicKey;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Questions for leases of one peer that are looked at each second, in the long run. A node asks
/// when its stock is half empty, and where there was not enough ten times a second: this is enough
/// for 256 groups a second, all that are taken of a peer, from a stock of eight orders.
const LEASES_PER_S: u32 = 64;
/// Manifests of one peer each second. A node wants one of each version, and the fastest runs make 20.
const MANIFESTS_PER_S: u32 = 32;
/// Manifests each second of all keys together that have no record. Sixty free keys would ask for 1,920. A
/// newcomer wants one when it comes, and later only those that gossip did not bring; where it is refused one
/// it asks again after a second. So 1,000 that come at once have theirs within some seven seconds.
const STRANGERS_MANIFESTS_PER_S: u32 = 4 * MANIFESTS_PER_S;
/// Control requests of any kind of one peer each second: those above, and a heartbeat or two.
const REQUESTS_PER_S: u32 = LEASES_PER_S + MANIFESTS_PER_S + 16;
/// So much may come at once, in seconds of the above.
const BURST: Duration = Duration::from_secs(2);
/// Most peers whose pace is remembered, which each is for a burst's time at most: more than can be connected.
const MAX_REMEMBERED: usize = 1 << 14;

/// What peers have taken of their allowances.
#[derive(Debug)]
pub(super) struct PeerAllowances {
    per_s: u32,
    peers: BTreeMap<PublicKey, LeakyBucket>,
}

impl PeerAllowances {
    /// For questions for leases.
    pub(super) fn leases() -> Self {
        Self::of(LEASES_PER_S)
    }

    /// For all control requests together.
    pub(super) fn requests() -> Self {
        Self::of(REQUESTS_PER_S)
    }

    fn of(per_s: u32) -> Self {
        Self { per_s, peers: BTreeMap::new() }
    }

    /// Takes one question of `peer`; or says how long it has to wait, and has taken nothing.
    pub(super) fn take(&mut self, now: Instant, peer: PublicKey) -> Result<(), Duration> {
        if self.peers.len() >= MAX_REMEMBERED && !self.peers.contains_key(&peer) {
            self.peers.retain(|_, taken| !taken.is_empty(now));
            if self.peers.len() >= MAX_REMEMBERED {
                return Err(BURST);
            }
        }
        let taken = self.peers.entry(peer).or_insert_with(|| LeakyBucket::new(now));
        let wait = taken.wait(now, BURST);
        if !wait.is_zero() {
            return Err(wait);
        }
        taken.fill(now, Duration::from_secs(1) / self.per_s);
        Ok(())
    }
}

/// What peers have taken of their allowances for manifests, and all that have no record together.
#[derive(Debug)]
pub(super) struct ManifestAllowances {
    peers: PeerAllowances,
    strangers: Option<LeakyBucket>,
}

impl ManifestAllowances {
    pub(super) fn new() -> Self {
        Self { peers: PeerAllowances::of(MANIFESTS_PER_S), strangers: None }
    }

    /// Takes one manifest for `peer`, which has a record or not; or says how long it has to wait, and has
    /// taken nothing.
    pub(super) fn take(&mut self, now: Instant, peer: PublicKey, is_known: bool) -> Result<(), Duration> {
        if is_known {
            return self.peers.take(now, peer);
        }
        let strangers = self.strangers.get_or_insert_with(|| LeakyBucket::new(now));
        let wait = strangers.wait(now, BURST);
        if !wait.is_zero() {
            return Err(wait);
        }
        self.peers.take(now, peer)?;
        strangers.fill(now, Duration::from_secs(1) / STRANGERS_MANIFESTS_PER_S);
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
        let (mut pace, begun) = (PeerAllowances::leases(), Instant::now());
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
    fn every_kind_of_request_has_its_rate_and_all_of_them_fit_together() {
        let begun = Instant::now();
        for (mut pace, per_s) in [
            (PeerAllowances::leases(), LEASES_PER_S),
            (PeerAllowances::of(MANIFESTS_PER_S), MANIFESTS_PER_S),
            (PeerAllowances::requests(), REQUESTS_PER_S),
        ] {
            let taken = (0..100_000).filter(|_| pace.take(begun, peer(0)).is_ok()).count();
            assert_eq!(taken, 2 * per_s as usize + 1);
        }
        const { assert!(REQUESTS_PER_S > LEASES_PER_S + MANIFESTS_PER_S) };
    }

    #[test]
    fn an_honest_node_that_asks_as_often_as_it_is_told_to_never_waits() {
        let (mut pace, begun) = (PeerAllowances::leases(), Instant::now());
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
        let (mut pace, begun) = (PeerAllowances::leases(), Instant::now());
        let most = MAX_REMEMBERED as u32;
        assert!((0..most).all(|n| pace.take(begun, peer(n)).is_ok()));
        assert_eq!(pace.take(begun, peer(most)), Err(BURST));
        assert_eq!(pace.take(begun, peer(0)), Ok(()), "who is remembered is not in the way of itself");
        assert_eq!(pace.take(begun + BURST, peer(most)), Ok(()));
        assert_eq!(pace.peers.len(), 1);
    }

    #[test]
    fn free_keys_have_manifests_at_one_rate_however_many_they_are() {
        let (mut pace, begun) = (ManifestAllowances::new(), Instant::now());
        let asked = |pace: &mut ManifestAllowances, now| {
            (0..60 * MANIFESTS_PER_S).filter(|n| pace.take(now, peer(n % 60), false).is_ok()).count()
        };
        let burst = STRANGERS_MANIFESTS_PER_S as usize * 2 + 1;
        assert_eq!(asked(&mut pace, begun), burst);
        let wait = pace.take(begun, peer(100), false).unwrap_err();
        assert!(wait <= Duration::from_secs(1) / STRANGERS_MANIFESTS_PER_S, "{wait:?}");
        // They are in nobody's way who has a record, and that one is in no way of theirs.
        let of_known = (0..100_000).filter(|_| pace.take(begun, peer(100), true).is_ok()).count();
        assert_eq!(of_known, 2 * MANIFESTS_PER_S as usize + 1);
        let later = asked(&mut pace, begun + wait + Duration::from_secs(1));
        let per_s = STRANGERS_MANIFESTS_PER_S as usize;
        assert!((per_s - 1..=per_s + 1).contains(&later), "{later}");
    }
}
