//! Who may pull from here.

use super::*;

const ALL: [(u32, u64); 1] = [(0, 0b1111)];

fn whole() -> Arc<Manifest> {
    snapshot(V1, 1, 4)
}

/// Gives all places to consumers from X on. Returns the next who wants one.
fn fill(fixture: &mut Fixture, places: usize) -> u8 {
    let newcomer = X + places as u8;
    for consumer in X..newcomer {
        assert_eq!(fixture.on(joined(consumer, V1)), [tell(consumer, V1, &ALL)]);
    }
    newcomer
}

#[test]
fn a_consumer_that_is_idle_gives_its_place_to_another() {
    let mut fixture = Fixture::holding(&whole());
    let newcomer = fill(&mut fixture, MAX_CONSUMERS);
    fixture.pass(1);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b1)), [serve(X, V1, 0, 0)]);
    fixture.pass(IDLE_MS - 2);
    assert_eq!(fixture.on(joined(newcomer, V1)), [refuse(newcomer, V1)]);
    fixture.pass(1);
    // X has been served since the others joined; and who was refused waits a little.
    let another = newcomer + 1;
    assert_eq!(fixture.on(joined(another, V1)), [refuse(Y, V1), tell(another, V1, &ALL)]);
}

#[test]
fn a_neighbour_takes_the_place_of_a_stranger() {
    let mut fixture = Fixture::holding(&whole());
    fill(&mut fixture, MAX_CONSUMERS);
    assert_eq!(fixture.on(named(&[(X, NeighbourRole::Mesh), (A, NeighbourRole::Mesh)])), NOTHING);
    assert_eq!(fixture.on(joined(A, V1)), [refuse(Y, V1), tell(A, V1, &ALL)]);
}

#[test]
fn the_source_has_more_places() {
    let mut fixture = Fixture::source(&whole());
    let newcomer = fill(&mut fixture, MAX_SOURCE_CONSUMERS);
    assert_eq!(fixture.on(joined(newcomer, V1)), [refuse(newcomer, V1)]);
    assert_eq!(fixture.machine.stats().consumers, MAX_SOURCE_CONSUMERS);
}

#[test]
fn who_joins_again_keeps_its_place_and_starts_anew() {
    let mut fixture = Fixture::holding(&whole());
    fill(&mut fixture, MAX_CONSUMERS);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b1)), [serve(X, V1, 0, 0)]);
    fixture.pass(REJOIN_MS);
    assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &ALL)]);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b1)), [serve(X, V1, 0, 0)]);
}

#[test]
fn one_that_does_not_serve_refuses_everybody() {
    let mut fixture = Fixture::new(DisseminationConfig { serves: false, ..config(DisseminationMode::Echo) });
    assert_eq!(fixture.complete(&whole()), [complete(V1)]);
    assert_eq!(fixture.on(joined(X, V1)), [refuse(X, V1)]);
    assert_eq!(fixture.on(joined(Y, V2)), [refuse(Y, V2)]);
}

#[test]
fn an_older_version_that_is_not_here_is_refused() {
    let mut fixture = Fixture::holding(&snapshot(V2, 1, 4));
    assert_eq!(fixture.on(joined(X, V1)), [refuse(X, V1)]);
    assert_eq!(fixture.on(joined(X, V2)), [tell(X, V2, &ALL)]);
}

#[test]
fn who_joins_for_a_version_that_is_to_come_waits_for_it() {
    let mut fixture = Fixture::holding(&whole());
    assert_eq!(fixture.on(joined(X, V2)), NOTHING);
    assert_eq!(fixture.complete(&snapshot(V2, 1, 4)), [complete(V2), tell(X, V2, &ALL)]);
}

#[test]
fn who_waits_for_a_version_that_is_passed_over_is_refused() {
    let mut fixture = Fixture::holding(&whole());
    assert_eq!(fixture.on(joined(X, V2)), NOTHING);
    assert_eq!(fixture.complete(&snapshot(V3, 1, 4)), [refuse(X, V2), complete(V3)]);
}
