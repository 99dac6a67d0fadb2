//! What is wanted of a version, and what comes from elsewhere than the neighbours.

use super::*;

/// Two chunks, pieces 0 and 1, and their deltas, pieces 2 and 3; one block each.
fn deltas() -> Arc<Manifest> {
    Arc::new(manifests::with_deltas(2, 2, 100))
}

const EVERYTHING: [(u32, u64); 4] = [(0, 1), (1, 1), (2, 1), (3, 1)];

/// A node that wants these pieces and has an open stream to its parent.
fn wanting(pieces: &[u32]) -> Fixture {
    let mut fixture = Fixture::node(DisseminationMode::Star);
    fixture.on(announced(&deltas(), &[], pieces));
    fixture.meet(&PARENT);
    fixture
}

#[test]
fn only_wanted_pieces_are_asked_for() {
    let mut fixture = wanting(&[1, 2]);
    assert_eq!(fixture.on(has(A, V2, &EVERYTHING)), [request(A, V2, 1, 1), request(A, V2, 2, 1)]);
    assert_eq!(fixture.on(stored(A, V2, 1, 0)), NOTHING);
    assert_eq!(fixture.on(stored(A, V2, 2, 0)), [close(A), complete(V2)]);
}

#[test]
fn a_changed_wish_asks_for_what_is_new_and_for_nothing_twice() {
    let mut fixture = wanting(&[2, 3]);
    assert_eq!(fixture.on(has(A, V2, &EVERYTHING)), [request(A, V2, 2, 1), request(A, V2, 3, 1)]);
    assert_eq!(fixture.on(wanted(V2, &[0, 3])), [request(A, V2, 0, 1)]);
    assert_eq!(fixture.on(wanted(V2, &[0, 3])), NOTHING);
    assert_eq!(fixture.on(stored(A, V2, 2, 0)), NOTHING);
    assert_eq!(fixture.on(stored(A, V2, 3, 0)), NOTHING);
    assert_eq!(fixture.on(stored(A, V2, 0, 0)), [close(A), complete(V2)]);
}

#[test]
fn a_wish_that_is_met_already_completes_the_version() {
    let mut fixture = wanting(&[0, 1]);
    fixture.on(has(A, V2, &EVERYTHING));
    assert_eq!(fixture.on(stored(A, V2, 0, 0)), NOTHING);
    assert_eq!(fixture.on(wanted(V2, &[0])), [close(A), complete(V2)]);
}

#[test]
fn a_wish_for_more_receives_a_complete_version_again() {
    let mut fixture = Fixture::node(DisseminationMode::Star);
    assert_eq!(fixture.on(announced(&deltas(), &[(0, 1)], &[0])), [complete(V2)]);
    assert_eq!(fixture.on(named(&PARENT)), NOTHING);
    assert_eq!(fixture.on(wanted(V2, &[0, 1])), [open(A, V2)]);
    assert_eq!(fixture.on(opened(A)), NOTHING);
    assert_eq!(fixture.on(has(A, V2, &EVERYTHING)), [request(A, V2, 1, 1)]);
}

#[test]
fn a_gained_piece_is_cancelled_where_it_was_asked_and_told_to_consumers() {
    let mut fixture = wanting(&[0, 1]);
    assert_eq!(fixture.on(joined(X, V2)), NOTHING);
    assert_eq!(fixture.on(has(A, V2, &EVERYTHING)), [request(A, V2, 0, 1), request(A, V2, 1, 1)]);
    assert_eq!(fixture.on(gained(V2, 1)), [cancel(A, V2, 1, 1), tell(X, V2, &[(1, 1)])]);
    assert_eq!(fixture.on(gained(V2, 1)), NOTHING);
    assert_eq!(
        fixture.on(gained(V2, 2)),
        [tell(X, V2, &[(2, 1)])],
        "it is not wanted here, but perhaps elsewhere"
    );
    assert_eq!(
        fixture.on(gained(V2, 0)),
        [cancel(A, V2, 0, 1), close(A), complete(V2), tell(X, V2, &[(0, 1)])]
    );
}
