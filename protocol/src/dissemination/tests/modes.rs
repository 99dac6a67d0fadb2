//! What differs between the modes.

use super::*;

#[test]
fn a_chain_takes_the_lowest_blocks_first_and_only_from_its_parent() {
    let mut fixture = Fixture::node(DisseminationMode::Chain);
    fixture.announce(&snapshot(V1, 2, 8), &[]);
    assert_eq!(fixture.on(named(&CHAIN)), [open(A, V1), open(B, V1)]);
    for peer in [A, B, C] {
        assert_eq!(fixture.on(opened(peer)), NOTHING);
    }
    assert_eq!(fixture.on(has(B, V1, &[(0, 0xff), (1, 0xff)])), NOTHING);
    assert_eq!(fixture.on(has(C, V1, &[(0, 0xff), (1, 0xff)])), NOTHING);
    let said = fixture.on(has(A, V1, &[(1, 0xff), (0, 0b1111_1100)]));
    assert_eq!(said, [request(A, V1, 0, 0b0011_1100)]);
}

#[test]
fn the_standby_takes_over_from_a_lost_parent_and_gives_way_when_it_is_back() {
    let mut fixture = Fixture::receiving(DisseminationMode::Chain, &snapshot(V1, 2, 8), &CHAIN);
    let everything = [(0, 0xff), (1, 0xff)];
    assert_eq!(fixture.on(has(B, V1, &everything)), NOTHING);
    assert_eq!(fixture.on(has(A, V1, &everything)), [request(A, V1, 0, 0b0000_1111)]);

    assert_eq!(fixture.on(lost(A)), [request(B, V1, 0, 0b0000_1111)]);
    assert_eq!(fixture.pass(500), [open(A, V1), ask_neighbours(&[A])]);

    assert_eq!(fixture.on(opened(A)), NOTHING);
    assert_eq!(fixture.on(has(A, V1, &everything)), [request(A, V1, 0, 0b1111_0000)]);
    // It delivers what it was asked for, and is asked for none of the second piece.
    for block in 0..4 {
        assert_eq!(fixture.on(stored(B, V1, 0, block)), NOTHING);
    }
}

#[test]
fn a_star_asks_only_the_parent() {
    let mut fixture = Fixture::node(DisseminationMode::Star);
    fixture.announce(&snapshot(V1, 1, 8), &[]);
    assert_eq!(fixture.on(named(&CHAIN)), [open(A, V1)]);
    assert_eq!(fixture.on(opened(A)), NOTHING);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0xff)])), [request(A, V1, 0, 0b1111)]);
    assert_eq!(fixture.on(lost(A)), NOTHING);
    assert_eq!(fixture.pass(500), [open(A, V1), ask_neighbours(&[A])]);
}

#[test]
fn a_changed_mode_asks_others_and_lets_those_that_were_asked_deliver() {
    let list = [(A, NeighbourRole::Parent), (B, NeighbourRole::Mesh)];
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 8), &list);
    let first = blocks_of(&fixture.on(has(B, V1, &[(0, 0xff)])));
    fixture.machine.set_mode(DisseminationMode::Star);
    assert_eq!(fixture.on(stored(B, V1, 0, first.trailing_zeros())), NOTHING);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0xff)])), [request(A, V1, 0, 0xff & !first)]);
}
