//! When the learner is asked for neighbours, and what it is told.

use super::*;

#[test]
fn without_neighbours_the_learner_is_asked_at_once_and_then_ever_more_rarely() {
    let mut fixture = Fixture::node(DisseminationMode::Echo);
    assert_eq!(fixture.announce(&snapshot(V1, 1, 1), &[]), [ask_neighbours(&[])]);
    for pause in [1_000, 2_000, 4_000, 8_000, 8_000] {
        assert_eq!(fixture.pass(pause - 1), NOTHING);
        assert_eq!(fixture.pass(1), [ask_neighbours(&[])], "after {pause} ms");
    }
}

#[test]
fn two_seconds_with_nothing_under_way_are_worth_a_question() {
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 1), &ONE);
    assert_eq!(fixture.pass(1_999), NOTHING);
    assert_eq!(fixture.pass(1), [ask_neighbours(&[])]);
}

#[test]
fn a_new_loss_is_told_half_a_second_after_the_last_question() {
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 1), &TWO);
    assert_eq!(fixture.on(lost(A)), NOTHING);
    assert_eq!(fixture.pass(499), NOTHING);
    assert_eq!(fixture.pass(1), [open(A, V1), ask_neighbours(&[A])]);
    assert_eq!(fixture.on(lost(B)), NOTHING);
    assert_eq!(fixture.pass(499), NOTHING);
    assert_eq!(fixture.pass(1), [open(B, V1), ask_neighbours(&[A, B])]);
}

#[test]
fn one_that_failed_is_told_also_after_it_is_named_no_more() {
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 1), &ONE);
    assert_eq!(fixture.on(lost(A)), NOTHING);
    assert_eq!(fixture.on(named(&[(B, NeighbourRole::Mesh)])), [open(B, V1)]);
    assert_eq!(fixture.pass(1_999), NOTHING);
    assert_eq!(fixture.pass(1), [ask_neighbours(&[A])]);
}

#[test]
fn one_that_has_everything_asks_nobody_for_anything() {
    let mut fixture = Fixture::holding(&snapshot(V1, 1, 1));
    assert_eq!(fixture.on(named(&TWO)), NOTHING);
    assert_eq!(fixture.on(lost(A)), NOTHING);
    assert_eq!(fixture.machine.poll_timeout(), None);
}
