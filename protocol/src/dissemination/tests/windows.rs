//! How much is asked of a neighbour at once.

use super::*;
use std::collections::VecDeque;

/// A parent that holds eight blocks, was asked for the first four, and delivered one of them
/// `millis` later; and what it is asked for then.
fn after_first(millis: u64) -> (Fixture, Vec<Output>) {
    let mut fixture = Fixture::receiving(DisseminationMode::Star, &snapshot(V1, 1, 8), &PARENT);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0xff)])), [request(A, V1, 0, 0b1111)]);
    assert_eq!(fixture.pass(millis), NOTHING);
    let said = fixture.on(stored(A, V1, 0, 0));
    (fixture, said)
}

/// A parent that holds twenty pieces of 64 blocks and delivers all that it is asked for
/// within a millisecond, until the window is as wide as it gets; and what it was asked for
/// then and has not delivered.
fn fast_parent() -> (Fixture, VecDeque<(u32, u32)>) {
    let mut fixture = Fixture::receiving(DisseminationMode::Star, &snapshot(V1, 20, 64), &PARENT);
    let everything: Vec<(u32, u64)> = (0..20).map(|piece| (piece, u64::MAX)).collect();
    let mut asked = all_of(&fixture.on(has(A, V1, &everything)));
    while asked.len() * 8 < MAX_WINDOW as usize * 7 {
        assert_eq!(fixture.pass(1), NOTHING);
        for (piece, block) in std::mem::take(&mut asked) {
            asked.extend(all_of(&fixture.on(stored(A, V1, piece, block))));
        }
    }
    (fixture, asked)
}

/// Every block that is asked for.
fn all_of(said: &[Output]) -> VecDeque<(u32, u32)> {
    let blocks = said.iter().map(|output| match output {
        Output::Request { piece, blocks, .. } => (piece.0, *blocks),
        other => panic!("{other:?}"),
    });
    blocks
        .flat_map(|(piece, blocks)| blocks.iter().map(move |block| (piece, block)).collect::<Vec<_>>())
        .collect()
}

#[test]
fn an_unknown_neighbour_is_asked_for_a_start_window() {
    let mut fixture = Fixture::receiving(DisseminationMode::Star, &snapshot(V1, 1, 8), &PARENT);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0xff)])), [request(A, V1, 0, (1 << START_WINDOW) - 1)]);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0xff)])), NOTHING);
}

#[test]
fn a_window_is_what_comes_within_the_latency_and_the_queue() {
    // 64 KiB in 100 ms: 4 blocks in 100 + 300 ms. In 50 ms: 7 blocks in 50 + 300 ms.
    assert_eq!(after_first(100).1, [request(A, V1, 0, 0b0001_0000)]);
    assert_eq!(after_first(50).1, [request(A, V1, 0, 0b1111_0000)]);
}

#[test]
fn a_slow_neighbour_is_asked_for_no_less_than_the_narrowest_window() {
    // 64 KiB in 5 s: not half a block in the longest latency and the queue.
    let (mut fixture, said) = after_first(5_000);
    assert_eq!(said, NOTHING);
    assert_eq!(fixture.on(stored(A, V1, 0, 1)), NOTHING);
    assert_eq!(fixture.machine.stats().under_way, u64::from(MIN_WINDOW));
    assert_eq!(fixture.on(stored(A, V1, 0, 2)), [request(A, V1, 0, 0b0001_0000)]);
}

#[test]
fn a_block_that_comes_at_once_widens_the_window_by_little() {
    // 64 KiB in 1 ms count as in 50: 7 blocks in 1 + 300 ms.
    assert_eq!(after_first(1).1, [request(A, V1, 0, 0b1111_0000)]);
}

#[test]
fn a_fast_neighbour_is_asked_for_no_more_than_the_widest_window() {
    let (fixture, asked) = fast_parent();
    assert!(asked.len() <= MAX_WINDOW as usize);
    assert_eq!(fixture.machine.stats().under_way, asked.len() as u64);
}

#[test]
fn a_request_waits_until_an_eighth_of_the_window_is_free() {
    let (mut fixture, mut asked) = fast_parent();
    let said = loop {
        let (piece, block) = asked.pop_front().unwrap();
        let said = fixture.on(stored(A, V1, piece, block));
        if said != NOTHING {
            break said;
        }
    };
    assert_eq!(asked.len(), MAX_WINDOW as usize * 7 / 8);
    assert_eq!(all_of(&said).len(), MAX_WINDOW as usize / 8);
}

#[test]
fn all_neighbours_together_are_asked_for_a_start_budget_before_any_rate_is_known() {
    let five: Vec<(u8, NeighbourRole)> = (1..=5).map(|peer| (peer, NeighbourRole::Mesh)).collect();
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 64), &five);
    for peer in 1..=4 {
        let blocks = blocks_of(&fixture.on(has(peer, V1, &[(0, u64::MAX)])));
        assert_eq!(blocks.count_ones(), START_WINDOW);
    }
    assert_eq!(fixture.on(has(5, V1, &[(0, u64::MAX)])), NOTHING);
    assert_eq!(fixture.machine.stats().under_way, 16);
}
