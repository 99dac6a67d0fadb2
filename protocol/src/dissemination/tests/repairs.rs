//! Repairs: a block that a slower neighbour was asked for is asked of a faster one.

use super::*;

/// All but the last three of 64 blocks.
const BUT_THREE: u64 = (1 << 61) - 1;
/// The last block of a whole piece, as a set.
const LAST: u64 = 1 << 63;

/// A receiver that has these of 64 blocks. A was asked for block 62 at the start and is silent; B
/// delivered block 61 in `millis`, has nothing left to do, and holds block 62 as well. Block 63
/// is held by nobody.
fn rivals(have: u64, millis: u64) -> Fixture {
    let mut fixture = Fixture::node(DisseminationMode::Echo);
    fixture.announce(&snapshot(V1, 1, 64), &[(0, have)]);
    fixture.meet(&TWO);
    assert_eq!(fixture.on(has(A, V1, &[(0, 1 << 62)])), [request(A, V1, 0, 1 << 62)]);
    assert_eq!(fixture.on(has(B, V1, &[(0, 1 << 61)])), [request(B, V1, 0, 1 << 61)]);
    assert_eq!(fixture.pass(millis), NOTHING);
    assert_eq!(fixture.on(stored(B, V1, 0, 61)), NOTHING);
    assert_eq!(fixture.on(has(B, V1, &[(0, 1 << 62)])), NOTHING);
    fixture
}

/// Block 62 is taken from A and asked of B so many milliseconds after the start, and not before.
fn assert_repaired_at(fixture: &mut Fixture, millis: u64) {
    assert_eq!(fixture.pass(START.plus(millis - 1).since(fixture.now)), NOTHING);
    assert_eq!(fixture.pass(1), [cancel(A, V1, 0, 1 << 62), request(B, V1, 0, 1 << 62)]);
    assert_eq!(fixture.machine.stats().repairs, 1);
}

// B would deliver another block 200 ms after it is asked: 100 ms of latency, and 100 ms for 64
// KiB at its rate.

#[test]
fn a_neighbour_that_is_ten_times_as_late_is_relieved() {
    assert_repaired_at(&mut rivals(0, 100), 2_000);
}

#[test]
fn near_the_end_three_times_as_late_is_enough() {
    assert_repaired_at(&mut rivals(BUT_THREE, 100), 600);
}

#[test]
fn with_nothing_left_to_ask_of_anybody_half_as_late_again_is_enough() {
    // B would deliver in 800 ms.
    assert_repaired_at(&mut rivals(BUT_THREE | LAST, 400), 1_200);
}

#[test]
fn what_is_on_its_way_is_not_repaired_however_fast_the_helper_is() {
    // B would deliver in 51 ms. Attempts are 20 ms apart; the last one before is too early.
    assert_repaired_at(&mut rivals(BUT_THREE | LAST, 1), 361);
}

#[test]
fn after_duplicates_only_the_silent_are_relieved() {
    let mut fixture = rivals(BUT_THREE | LAST, 100);
    assert_eq!(fixture.on(stored(B, V1, 0, 61)), NOTHING);
    let stats = fixture.machine.stats();
    assert_eq!((stats.blocks, stats.duplicates), (1, 1));
    assert_repaired_at(&mut fixture, 1_000);
}

/// A was asked for blocks 0 to 3 at the start and is silent; B is as in [`rivals`] and holds these
/// of them. What is said after 4 s: ten times what all four would take at B's rate.
fn repairs_of(held: u64) -> Vec<Output> {
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 64), &TWO);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0b1111)])), [request(A, V1, 0, 0b1111)]);
    assert_eq!(fixture.on(has(B, V1, &[(0, 1 << 61)])), [request(B, V1, 0, 1 << 61)]);
    assert_eq!(fixture.pass(100), NOTHING);
    assert_eq!(fixture.on(stored(B, V1, 0, 61)), NOTHING);
    assert_eq!(fixture.on(has(B, V1, &[(0, held)])), NOTHING);
    assert_eq!(fixture.pass(3_899), NOTHING);
    fixture.pass(1)
}

fn repaired(blocks: impl IntoIterator<Item = u32>) -> Vec<Output> {
    let both = |block: u32| [cancel(A, V1, 0, 1 << block), request(B, V1, 0, 1 << block)];
    blocks.into_iter().flat_map(both).collect()
}

#[test]
fn the_newest_is_repaired_first_until_the_helper_has_enough_to_do() {
    assert_eq!(repairs_of(0b1111), repaired([3, 2, 1]));
}

#[test]
fn only_what_the_helper_holds_is_repaired() {
    assert_eq!(repairs_of(0b0011), repaired([1, 0]));
}

#[test]
fn a_block_that_the_slow_one_delivers_after_all_is_cancelled_at_the_helper() {
    let mut fixture = rivals(0, 100);
    assert_repaired_at(&mut fixture, 2_000);
    assert_eq!(fixture.on(stored(A, V1, 0, 62)), [cancel(B, V1, 0, 1 << 62)]);
    // It was under way already, and counts.
    assert_eq!(fixture.on(stored(B, V1, 0, 62)), NOTHING);
    let stats = fixture.machine.stats();
    assert_eq!((stats.blocks, stats.duplicates, stats.under_way), (2, 1, 0));
}
