//! Stored pieces that no longer match their names.

use super::*;

#[test]
fn a_piece_that_is_damaged_while_its_version_is_received_is_asked_for_and_no_longer_served() {
    let mut fixture = Fixture::node(DisseminationMode::Echo);
    fixture.announce(&snapshot(V1, 2, 4), &[(0, 0b1111)]);
    fixture.meet(&ONE);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0b1111)])), NOTHING);
    assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &[(0, 0b1111)])]);
    assert_eq!(fixture.on(damaged(V1, 0)), [request(A, V1, 0, 0b1111)]);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b1)), [refuse(X, V1)]);
}

#[test]
fn what_was_asked_before_the_damage_is_not_served_after_it() {
    let mut fixture = Fixture::holding(&snapshot(V1, 1, 8));
    fixture.on(joined(X, V1));
    assert_eq!(fixture.on(asked(X, V1, 0, 0xff)).len(), MAX_SERVED);
    assert_eq!(fixture.on(damaged(V1, 0)), [ask_neighbours(&[])]);
    assert_eq!(fixture.on(sent(X, 0, 0)), [refuse(X, V1)]);
}

#[test]
fn the_newest_version_is_received_again_where_it_is_damaged() {
    let mut fixture = Fixture::holding(&snapshot(V1, 2, 2));
    assert_eq!(fixture.on(named(&ONE)), NOTHING);
    assert_eq!(fixture.on(damaged(V1, 1)), [open(A, V1)]);
    assert_eq!(fixture.on(opened(A)), NOTHING);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0b11), (1, 0b11)])), [request(A, V1, 1, 0b11)]);
    assert_eq!(fixture.on(stored(A, V1, 1, 0)), NOTHING);
    assert_eq!(fixture.on(stored(A, V1, 1, 1)), [close(A), complete(V1)]);
}

#[test]
fn an_older_version_that_is_damaged_is_discarded() {
    let mut fixture = Fixture::holding(&snapshot(V1, 1, 1));
    assert_eq!(fixture.complete(&snapshot(V2, 1, 1)), [complete(V2)]);
    assert_eq!(fixture.on(damaged(V1, 0)), [discard(V1)]);
    assert_eq!(fixture.on(damaged(V1, 0)), NOTHING);
}

#[test]
fn a_chunk_that_was_built_from_a_delta_is_wanted_when_it_is_damaged() {
    let manifest = Arc::new(manifests::with_deltas(2, 2, 100));
    let mut fixture = Fixture::node(DisseminationMode::Star);
    // Of pieces 0 and 1, the chunks, pieces 2 and 3 are the deltas.
    assert_eq!(fixture.on(announced(&manifest, &[(2, 1), (3, 1)], &[2, 3])), [complete(V2)]);
    assert_eq!(fixture.on(named(&PARENT)), NOTHING);
    assert_eq!(fixture.on(gained(V2, 0)), NOTHING);
    assert_eq!(fixture.on(damaged(V2, 1)), NOTHING, "it is not here");
    assert_eq!(fixture.on(damaged(V2, 0)), [open(A, V2)]);
    assert_eq!(fixture.on(opened(A)), NOTHING);
    assert_eq!(fixture.on(has(A, V2, &[(0, 1), (1, 1), (2, 1), (3, 1)])), [request(A, V2, 0, 1)]);
}
