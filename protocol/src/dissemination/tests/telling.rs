//! What consumers are told.

use super::*;

/// A node that has half of the first of two pieces and asked A for the other half.
fn halfway() -> Fixture {
    let mut fixture = Fixture::node(DisseminationMode::Echo);
    fixture.announce(&snapshot(V1, 2, 4), &[(0, 0b0011)]);
    fixture.meet(&ONE);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0b1111)])), [request(A, V1, 0, 0b1100)]);
    fixture
}

/// What the machine says to that, at once and within the time for which news are gathered.
fn soon(fixture: &mut Fixture, input: Input) -> Vec<Output> {
    let mut said = fixture.on(input);
    said.extend(fixture.pass(50));
    said
}

#[test]
fn a_consumer_is_told_everything_at_first_and_then_each_block_once() {
    let mut fixture = halfway();
    assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &[(0, 0b0011)])]);
    assert_eq!(soon(&mut fixture, stored(A, V1, 0, 2)), [tell(X, V1, &[(0, 0b0100)])]);
    assert_eq!(soon(&mut fixture, stored(A, V1, 0, 2)), NOTHING, "it was here");
    assert_eq!(fixture.on(joined(Y, V1)), [tell(Y, V1, &[(0, 0b0111)])]);
    let last = [(0, 0b1000)];
    assert_eq!(soon(&mut fixture, stored(A, V1, 0, 3)), [tell(X, V1, &last), tell(Y, V1, &last)]);
}

#[test]
fn news_are_gathered_until_nothing_else_is_left_to_do() {
    let mut fixture = halfway();
    fixture.on(joined(X, V1));
    fixture.machine.handle(fixture.now, stored(A, V1, 0, 2));
    assert_eq!(soon(&mut fixture, stored(A, V1, 0, 3)), [tell(X, V1, &[(0, 0b1100)])]);
}

#[test]
fn who_joins_before_anything_is_here_is_told_of_the_first_block() {
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 4), &ONE);
    assert_eq!(fixture.on(joined(X, V1)), NOTHING);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0b0010)])), [request(A, V1, 0, 0b0010)]);
    assert_eq!(soon(&mut fixture, stored(A, V1, 0, 1)), [tell(X, V1, &[(0, 0b0010)])]);
}

#[test]
fn only_the_consumers_of_a_version_are_told_of_it() {
    let mut fixture = Fixture::holding(&snapshot(V1, 1, 4));
    assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &[(0, 0b1111)])]);
    assert_eq!(fixture.on(joined(Y, V2)), NOTHING);
    assert_eq!(fixture.complete(&snapshot(V2, 1, 4)), [complete(V2), tell(Y, V2, &[(0, 0b1111)])]);
}

#[test]
fn who_left_is_told_nothing() {
    let mut fixture = halfway();
    fixture.on(joined(X, V1));
    assert_eq!(fixture.on(left(X)), NOTHING);
    assert_eq!(fixture.on(stored(A, V1, 0, 2)), NOTHING);
}
