//! When a node that got fewer orders than it wanted asks again.

use echo_protocol::wire::identity::PublicKey;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// The pause in small fleets, in milliseconds: an order that becomes free is taken at once.
pub(super) const SHORTEST_MS: u32 = 100;
/// The longest pause, in milliseconds: nodes wait no longer than that, whatever a learner says.
const LONGEST_MS: u32 = 10_000;
/// So many questions a second may come of all that got too little. Each takes a turn at the one writer of
/// leases, and locks the coordinator: 10,000 nodes that ask ten times a second would leave no time for
/// groups.
const ASKED_A_SECOND: u32 = 1_000;
/// Nodes that got too little are counted for so long: whoever goes on asking is counted each time.
const COUNTED_FOR: Duration = Duration::from_millis(LONGEST_MS as u64);
/// Nodes that are counted at most: for more of them the pause is no longer.
const MOST: usize = (LONGEST_MS / 1_000 * ASKED_A_SECOND) as usize;

/// The nodes that lately got fewer orders than they wanted.
#[derive(Debug)]
pub(super) struct ShortOfOrders {
    since: Instant,
    /// Those since then.
    nodes: BTreeSet<PublicKey>,
    /// How many there were in the time before.
    before: usize,
}

impl ShortOfOrders {
    /// Nobody has asked yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, nodes: BTreeSet::new(), before: 0 }
    }

    /// Notes that `node` got too little. Returns when it asks again, in milliseconds: the more nodes there
    /// are, the later.
    pub(super) fn retry_ms(&mut self, now: Instant, node: PublicKey) -> u32 {
        let passed = now.saturating_duration_since(self.since);
        if passed >= COUNTED_FOR {
            // Where nobody asked for as long again, nobody is waiting.
            self.before = if passed < 2 * COUNTED_FOR { self.nodes.len() } else { 0 };
            self.nodes.clear();
            self.since = now;
        }
        if self.nodes.len() < MOST {
            self.nodes.insert(node);
        }
        let count = u32::try_from(self.nodes.len().max(self.before)).unwrap_or(u32::MAX);
        (count.saturating_mul(1_000) / ASKED_A_SECOND).clamp(SHORTEST_MS, LONGEST_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u32) -> PublicKey {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        PublicKey::from_bytes(bytes)
    }

    #[test]
    fn small_fleets_ask_ten_times_a_second_and_large_ones_less_often() {
        let start = Instant::now();
        let mut short = ShortOfOrders::new(start);
        let mut pauses = (0..20_000).map(|number| short.retry_ms(start, node(number)));
        assert!(pauses.by_ref().take(100).all(|pause| pause == SHORTEST_MS));
        assert_eq!(pauses.by_ref().nth(4_899), Some(5_000));
        assert_eq!(pauses.last(), Some(LONGEST_MS));
        assert_eq!(short.nodes.len(), MOST);
        // Those of a moment ago count, and those of long ago do not.
        assert_eq!(short.retry_ms(start + COUNTED_FOR, node(1)), LONGEST_MS);
        assert_eq!(short.retry_ms(start + 3 * COUNTED_FOR, node(1)), SHORTEST_MS);
    }

    #[test]
    fn all_together_ask_a_thousand_times_a_second() {
        let start = Instant::now();
        let mut short = ShortOfOrders::new(start);
        let mut asks: BTreeSet<(u64, u32)> = (0..3_000).map(|number| (0, number)).collect();
        let mut asked = 0;
        while let Some((at, number)) = asks.pop_first()
            && at < 60_000
        {
            asked += u32::from(at >= 20_000);
            let pause = short.retry_ms(start + Duration::from_millis(at), node(number));
            asks.insert((at + u64::from(pause), number));
        }
        assert!((36_000..=44_000).contains(&asked), "{asked} in forty seconds");
    }
}
