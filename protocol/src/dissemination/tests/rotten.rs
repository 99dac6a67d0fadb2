//! Peers that served rotten bytes.

use super::*;

#[test]
fn a_rotten_neighbour_is_cut_off_replaced_at_once_and_told_to_the_learner() {
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 4), &TWO);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0b1111)])), [request(A, V1, 0, 0b1111)]);
    assert_eq!(fixture.on(has(B, V1, &[(0, 0b1111)])), NOTHING);
    assert_eq!(fixture.on(rotten(A)), [cut_off(A), request(B, V1, 0, 0b1111)]);
    assert_eq!(fixture.pass(499), NOTHING);
    assert_eq!(fixture.pass(1), [ask_neighbours(&[A])]);
}

#[test]
fn a_rotten_peer_is_never_asked_again_and_the_learner_hears_of_it_whenever_it_names_it() {
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 8), &TWO);
    fixture.on(has(B, V1, &[(0, 0xff)]));
    assert_eq!(fixture.on(rotten(A)), [cut_off(A)]);
    assert_eq!(fixture.pass(500), [ask_neighbours(&[A])]);

    assert_eq!(fixture.on(named(&TWO)), NOTHING);
    assert_eq!(fixture.on(opened(A)), NOTHING);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0xff)])), NOTHING);
    assert_eq!(fixture.on(lost(B)), NOTHING, "what B was asked for is asked of nobody");
    assert_eq!(fixture.pass(499), NOTHING);
    assert_eq!(fixture.pass(1), [open(B, V1), ask_neighbours(&[A, B])]);
}

#[test]
fn a_rotten_peer_is_never_served_again() {
    let mut fixture = Fixture::source(&snapshot(V1, 1, 8));
    fixture.on(joined(X, V1));
    assert_eq!(fixture.on(asked(X, V1, 0, 0b1)), [serve(X, V1, 0, 0)]);
    assert_eq!(fixture.on(rotten(X)), [cut_off(X)]);
    assert_eq!(fixture.on(sent(X, 0, 0)), NOTHING);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b10)), NOTHING);
    assert_eq!(fixture.on(joined(X, V1)), [refuse(X, V1)]);
}
