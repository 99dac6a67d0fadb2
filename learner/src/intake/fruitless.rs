//! Who takes orders and brings nothing waits longer each time.
//!
//! Orders that come back go to others, so each costs the run a round. A node stops now and then, and now and
//! then its group comes too late; whoever does little else is asked to pause. An accepted group makes good
//! for one that was none. An order that the learner itself has leased to another node as well does not count.

use std::collections::BTreeMap;

use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;

/// Returns and refused groups that nobody waits for: a node that starts, and is stopped a few times.
const FREE: u32 = 4;
/// The first pause, in milliseconds. Each further one is twice as long.
const FIRST_PAUSE_MS: u64 = 500;
/// The longest pause, in milliseconds: a node that has changed is back at work within a minute.
const LONGEST_PAUSE_MS: u64 = 60_000;
/// Nodes that are remembered. Beyond, those whose pause is over are forgotten, and newcomers are not noted
/// while all others wait.
const MAX_REMEMBERED: usize = 1 << 14;

/// What nodes have taken and not brought.
#[derive(Debug, Default)]
pub struct Fruitless(BTreeMap<PublicKey, Tries>);

#[derive(Debug)]
struct Tries {
    in_vain: u32,
    until: UnixMillis,
}

impl Fruitless {
    /// Notes that orders of a node came to nothing.
    pub fn note(&mut self, now: UnixMillis, node: PublicKey) {
        if self.0.len() >= MAX_REMEMBERED && !self.0.contains_key(&node) {
            self.0.retain(|_, tries| tries.until > now);
            if self.0.len() >= MAX_REMEMBERED {
                return;
            }
        }
        let tries = self.0.entry(node).or_insert(Tries { in_vain: 0, until: now });
        tries.in_vain = tries.in_vain.saturating_add(1);
        if let Some(beyond) = tries.in_vain.checked_sub(FREE + 1) {
            let pause_ms = FIRST_PAUSE_MS.checked_shl(beyond).unwrap_or(LONGEST_PAUSE_MS);
            let is_long = beyond >= LONGEST_PAUSE_MS.ilog2();
            tries.until = now.plus(if is_long { LONGEST_PAUSE_MS } else { pause_ms.min(LONGEST_PAUSE_MS) });
        }
    }

    /// Notes that a group of a node was accepted.
    pub fn brought(&mut self, node: &PublicKey) {
        if let Some(tries) = self.0.get_mut(node) {
            tries.in_vain = tries.in_vain.saturating_sub(1);
            tries.until = UnixMillis(0);
            if tries.in_vain == 0 {
                self.0.remove(node);
            }
        }
    }

    /// Milliseconds until a node may have orders again; 0 if it may now.
    pub fn pause_ms(&self, now: UnixMillis, node: &PublicKey) -> u64 {
        self.0.get(node).filter(|tries| tries.until > now).map_or(0, |tries| tries.until.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(byte: u8) -> PublicKey {
        PublicKey::from_bytes([byte; 32])
    }

    #[test]
    fn who_brings_nothing_waits_longer_each_time_and_work_makes_good() {
        let mut fruitless = Fruitless::default();
        let now = UnixMillis(1_000);
        for _ in 0..FREE {
            fruitless.note(now, node(1));
            assert_eq!(fruitless.pause_ms(now, &node(1)), 0, "a node may stop a few times");
        }
        let pauses: Vec<u64> = (0..100)
            .map(|_| {
                fruitless.note(now, node(1));
                fruitless.pause_ms(now, &node(1))
            })
            .collect();
        assert_eq!(pauses[..3], [500, 1_000, 2_000]);
        assert!(pauses[10..].iter().all(|pause| *pause == LONGEST_PAUSE_MS));
        assert_eq!(fruitless.pause_ms(now, &node(2)), 0);
        assert_eq!(fruitless.pause_ms(now.plus(LONGEST_PAUSE_MS), &node(1)), 0);
        fruitless.brought(&node(1));
        assert_eq!(fruitless.pause_ms(now, &node(1)), 0);
        // Half of what it sends is refused, and it never waits.
        for _ in 0..1_000 {
            fruitless.note(now, node(3));
            fruitless.brought(&node(3));
        }
        assert_eq!(fruitless.pause_ms(now, &node(3)), 0);
    }
}
