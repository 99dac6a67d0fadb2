//! Neighbours that fail: what they were asked for is free at once, and they are tried again.

use super::*;
use crate::dissemination::neighbours::{OPEN_MS, STALL_MS};

/// Silence that is borne of one that has not delivered yet.
const FIRST_MS: u64 = 10_000;

#[test]
fn what_a_lost_neighbour_was_asked_for_is_asked_of_another_at_once() {
    for end in [lost(A), refused(A, V1)] {
        let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 4), &TWO);
        assert_eq!(fixture.on(has(A, V1, &[(0, 0b1111)])), [request(A, V1, 0, 0b1111)]);
        assert_eq!(fixture.on(has(B, V1, &[(0, 0b1111)])), NOTHING);
        assert_eq!(fixture.on(refused(A, V2)), NOTHING, "of another version");
        assert_eq!(fixture.on(end), [request(B, V1, 0, 0b1111)]);
    }
}

#[test]
fn one_that_never_delivered_is_lost_after_a_long_silence() {
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 4), &TWO);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0b1111)])), [request(A, V1, 0, 0b1111)]);
    assert_eq!(fixture.on(has(B, V1, &[(0, 0b1111)])), NOTHING);
    assert_eq!(fixture.pass(FIRST_MS - 1), NOTHING);
    assert_eq!(fixture.pass(1), [close(A), request(B, V1, 0, 0b1111), ask_neighbours(&[A])]);
}

#[test]
fn one_that_delivered_is_lost_after_the_stall_time() {
    let mut fixture = Fixture::receiving(DisseminationMode::Star, &snapshot(V1, 1, 8), &PARENT);
    fixture.on(has(A, V1, &[(0, 0xff)]));
    assert_eq!(fixture.pass(100), NOTHING);
    assert_eq!(fixture.on(stored(A, V1, 0, 0)), [request(A, V1, 0, 0b0001_0000)]);
    assert_eq!(fixture.pass(STALL_MS - 1), NOTHING);
    assert_eq!(fixture.pass(1), [close(A), ask_neighbours(&[A])]);
}

#[test]
fn silence_is_borne_twice_as_long_after_a_failure() {
    let mut fixture = Fixture::receiving(DisseminationMode::Star, &snapshot(V1, 1, 4), &PARENT);
    fixture.on(has(A, V1, &[(0, 0b1111)]));
    assert_eq!(fixture.pass(FIRST_MS), [close(A), ask_neighbours(&[A])]);
    assert_eq!(deeds(fixture.pass(500)), [open(A, V1)]);
    assert_eq!(fixture.on(opened(A)), NOTHING);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0b1111)])), [request(A, V1, 0, 0b1111)]);
    assert_eq!(fixture.pass(2 * FIRST_MS - 1), NOTHING);
    assert_eq!(fixture.pass(1), [close(A), ask_neighbours(&[A])]);
}

#[test]
fn a_stream_that_does_not_open_is_given_up_and_tried_again() {
    let mut fixture = Fixture::node(DisseminationMode::Echo);
    fixture.announce(&snapshot(V1, 1, 1), &[]);
    assert_eq!(fixture.on(named(&ONE)), [open(A, V1)]);
    assert_eq!(deeds(fixture.pass(OPEN_MS - 1)), NOTHING);
    assert_eq!(deeds(fixture.pass(1)), [close(A)]);
    assert_eq!(deeds(fixture.pass(500)), [open(A, V1)]);
}

#[test]
fn the_pause_before_the_next_attempt_doubles_up_to_half_a_minute() {
    let mut fixture = Fixture::node(DisseminationMode::Echo);
    fixture.announce(&snapshot(V1, 1, 1), &[]);
    assert_eq!(fixture.on(named(&ONE)), [open(A, V1)]);
    for pause in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
        assert_eq!(deeds(fixture.on(lost(A))), NOTHING);
        assert_eq!(deeds(fixture.pass(pause - 1)), NOTHING);
        assert_eq!(deeds(fixture.pass(1)), [open(A, V1)], "after {pause} ms");
    }
}

#[test]
fn one_that_delivers_again_is_as_good_as_new() {
    let mut fixture = Fixture::receiving(DisseminationMode::Star, &snapshot(V1, 1, 4), &PARENT);
    fixture.on(lost(A));
    assert_eq!(deeds(fixture.pass(500)), [open(A, V1)]);
    fixture.on(opened(A));
    assert_eq!(fixture.on(has(A, V1, &[(0, 0b1111)])), [request(A, V1, 0, 0b1111)]);
    fixture.on(stored(A, V1, 0, 0));
    fixture.on(lost(A));
    assert_eq!(deeds(fixture.pass(499)), NOTHING);
    assert_eq!(deeds(fixture.pass(1)), [open(A, V1)]);
}

#[test]
fn one_that_is_named_no_more_delivers_what_it_was_asked_for_and_is_closed() {
    let mut fixture = Fixture::receiving(DisseminationMode::Star, &snapshot(V1, 1, 8), &PARENT);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0xff)])), [request(A, V1, 0, 0b1111)]);
    assert_eq!(fixture.on(named(&[(B, NeighbourRole::Parent)])), [open(B, V1)]);
    for block in 0..3 {
        assert_eq!(fixture.on(stored(A, V1, 0, block)), NOTHING);
    }
    assert_eq!(fixture.on(stored(A, V1, 0, 3)), [close(A)]);
}
