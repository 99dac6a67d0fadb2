//! How much of one peer is taken in, so that no flood of one delays the others.
//!
//! Every peer has a limit of its own: what it sends is paced by groups and by bytes, and at most a
//! part of all judges works for it at once. What a peer sends faster waits on its own machine, for
//! nothing more of it is read meanwhile. Limits outlast streams: a new stream brings no new
//! allowance.

use super::token_bucket::LeakyBucket;
use echo_protocol::wire::identity::PublicKey;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Groups of one peer that are taken in each second, in the long run.
const GROUPS_PER_S: u64 = 256;
/// Bytes of one peer that are taken in each second, in the long run.
const BYTES_PER_S: u64 = 32 << 20;
/// So much may come at once, in seconds of the above: a node that was cut off brings what
/// it has finished meanwhile.
const BURST: Duration = Duration::from_secs(2);
/// Bytes of frames that are judged at once, over all peers. Decoded, a group may take eight times its frame
/// (a token of one byte is four, in a list that grows by doubling), and judges are two for each core. Honest
/// groups have some hundred kilobytes, and never come near it.
const JUDGED_BYTES: usize = 32 << 20;
/// One peer has at most this part of the judges at once, but one at least.
const PART_OF_JUDGES: usize = 4;
/// Most peers whose pace is remembered: as many as can be connected, and those that have just left.
const MAX_PEERS: usize = 1 << 14;

/// Lets groups of all peers in, at their pace.
pub(super) struct RateLimit {
    judges: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    /// Judges that one peer may have.
    own: usize,
    peers: Mutex<BTreeMap<PublicKey, Arc<PeerRateLimit>>>,
}

/// Lets groups of one peer in, at its pace.
pub(super) struct PeerRateLimit {
    judges: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    own: Arc<Semaphore>,
    pace: Mutex<Pace>,
}

/// A judge, until it is dropped.
pub(super) struct JudgePermit {
    _judge: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl RateLimit {
    /// A rate limit with so many judges.
    pub(super) fn new(judges: usize) -> Self {
        let own = (judges / PART_OF_JUDGES).max(1);
        let bytes = Arc::new(Semaphore::new(JUDGED_BYTES));
        Self { judges: Arc::new(Semaphore::new(judges)), bytes, own, peers: Mutex::default() }
    }

    /// The limit of `peer`; `None` where more peers come than can be told apart.
    pub(super) fn of(&self, peer: PublicKey) -> Option<Arc<PeerRateLimit>> {
        let mut peers = self.peers.lock();
        if peers.len() >= MAX_PEERS && !peers.contains_key(&peer) {
            let now = Instant::now();
            peers.retain(|_, peer| Arc::strong_count(peer) > 1 || peer.is_busy(now, self.own));
            if peers.len() >= MAX_PEERS {
                return None;
            }
        }
        let new = || PeerRateLimit {
            judges: self.judges.clone(),
            bytes: self.bytes.clone(),
            own: Arc::new(Semaphore::new(self.own)),
            pace: Mutex::new(Pace::new(Instant::now())),
        };
        Some(peers.entry(peer).or_insert_with(|| Arc::new(new())).clone())
    }
}

impl PeerRateLimit {
    /// Waits until a group of `bytes` may be judged. `None` only when the rate limit is gone.
    pub(super) async fn enter(&self, bytes: usize) -> Option<JudgePermit> {
        self.keep_pace(bytes).await;
        self.place(bytes).await
    }

    /// Waits until a group of `bytes` may be taken in.
    pub(super) async fn keep_pace(&self, bytes: usize) {
        let wait = self.pace.lock().take(Instant::now(), bytes as u64);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Waits until a group that has been here, and left to wait for others, may be judged on.
    pub(super) async fn enter_again(&self) -> Option<JudgePermit> {
        self.place(0).await
    }

    async fn place(&self, bytes: usize) -> Option<JudgePermit> {
        let own = self.own.clone().acquire_owned().await.ok()?;
        let judge = self.judges.clone().acquire_owned().await.ok()?;
        let bytes = self.bytes.clone().acquire_many_owned(bytes.min(JUDGED_BYTES) as u32).await.ok()?;
        Some(JudgePermit { _judge: judge, _bytes: bytes, _own: own })
    }

    fn is_busy(&self, now: Instant, own: usize) -> bool {
        self.own.available_permits() < own || self.pace.lock().is_busy(now)
    }
}

/// What a peer has taken of its allowances.
#[derive(Debug)]
struct Pace {
    groups: LeakyBucket,
    bytes: LeakyBucket,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { groups: LeakyBucket::new(now), bytes: LeakyBucket::new(now) }
    }

    /// Takes one group; how long it has to wait.
    fn take(&mut self, now: Instant, bytes: u64) -> Duration {
        self.groups.fill(now, Duration::from_micros(1_000_000 / GROUPS_PER_S));
        self.bytes.fill(now, Duration::from_micros(bytes.saturating_mul(1_000_000) / BYTES_PER_S));
        self.groups.wait(now, BURST).max(self.bytes.wait(now, BURST))
    }

    fn is_busy(&self, now: Instant) -> bool {
        !self.groups.is_empty(now) || !self.bytes.is_empty(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::identity::NodeKey;

    fn key(seed: u8) -> PublicKey {
        NodeKey::from_secret([seed; 32]).public()
    }

    #[test]
    fn a_burst_passes_and_then_groups_and_bytes_come_at_their_rate() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        let at_once = (0..10_000).take_while(|_| pace.take(begun, 100).is_zero()).count() as u64;
        assert_eq!(at_once, GROUPS_PER_S * BURST.as_secs());
        let second = begun + Duration::from_secs(1);
        let later = (0..10_000).take_while(|_| pace.take(second, 100).is_zero()).count() as u64;
        assert!((GROUPS_PER_S - 2..=GROUPS_PER_S).contains(&later), "{later}");
        let mut heavy = Pace::new(begun);
        let at_once = (0..1000).take_while(|_| heavy.take(begun, 8 << 20).is_zero()).count();
        assert_eq!(at_once, 8, "64 MiB");
        assert!(heavy.take(begun, 8 << 20) > Duration::from_millis(200));
        assert!(!heavy.is_busy(begun + Duration::from_secs(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn large_frames_are_judged_a_few_at_a_time() {
        let rate_limit = RateLimit::new(64);
        let peers: Vec<_> = (0..4).map(|seed| rate_limit.of(key(seed)).unwrap()).collect();
        let first = peers[0].enter(JUDGED_BYTES / 2).await.unwrap();
        let second = peers[1].enter(JUDGED_BYTES / 2).await.unwrap();
        let soon = Duration::from_secs(60);
        assert!(tokio::time::timeout(soon, peers[2].enter(1 << 20)).await.is_err(), "there is no room");
        assert!(tokio::time::timeout(soon, peers[3].enter_again()).await.is_ok(), "it is decoded already");
        drop((first, second));
        assert!(tokio::time::timeout(soon, peers[2].enter(2 * JUDGED_BYTES)).await.is_ok());
    }

    /// Mean time from arrival to verdict of `peers` honest peers, each of which has a group every
    /// 200 ms that takes 10 ms to judge.
    async fn mean_delay(flooded: bool) -> Duration {
        let judging = Duration::from_millis(10);
        let rate_limit = Arc::new(RateLimit::new(8));
        let flood = rate_limit.of(key(0)).unwrap();
        // As a stream does: the next group is read when the one before has its judge.
        let flooding = tokio::spawn(async move {
            while flooded && let Some(place) = flood.enter(1 << 10).await {
                tokio::spawn(async move {
                    tokio::time::sleep(judging).await;
                    drop(place);
                });
            }
        });
        let peers: Vec<_> = (1..=20u8)
            .map(|seed| {
                let limit = rate_limit.of(key(seed)).unwrap();
                tokio::spawn(async move {
                    let mut spent = Duration::ZERO;
                    tokio::time::sleep(Duration::from_millis(9 * u64::from(seed))).await;
                    for _ in 0..50 {
                        let arrived = Instant::now();
                        let place = limit.enter(1 << 10).await.unwrap();
                        tokio::time::sleep(judging).await;
                        drop(place);
                        spent += arrived.elapsed();
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                    spent / 50
                })
            })
            .collect();
        let mut sum = Duration::ZERO;
        for peer in peers {
            sum += peer.await.unwrap();
        }
        flooding.abort();
        sum / 20
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_one_peer_delays_the_others_by_less_than_a_tenth() {
        let (calm, flooded) = (mean_delay(false).await, mean_delay(true).await);
        assert!(flooded <= calm * 11 / 10, "{flooded:?} instead of {calm:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_stream_brings_no_new_allowance() {
        let rate_limit = RateLimit::new(4);
        let begun = Instant::now();
        for _ in 0..GROUPS_PER_S * 4 {
            drop(rate_limit.of(key(1)).unwrap().enter(10).await.unwrap());
        }
        assert!(begun.elapsed() > Duration::from_millis(1_900), "{:?}", begun.elapsed());
        let held = rate_limit.of(key(1)).unwrap().enter(10).await.unwrap();
        let limit = rate_limit.of(key(1)).unwrap();
        let second = tokio::time::timeout(Duration::from_secs(5), limit.enter(10)).await;
        assert!(second.is_err(), "one of four judges is all that a peer gets");
        drop(held);
    }
}
