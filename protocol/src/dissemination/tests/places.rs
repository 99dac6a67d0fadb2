//! Who may pull from here.

use super::*;

const ALL: [(u32, u64); 1] = [(0, 0b1111)];

fn whole() -> Arc<Manifest> {
    snapshot(V1, 1, 4)
}

/// Gives all places to consumers from X on. Returns the next who wants one.
fn fill(bench: &mut Bench, places: usize) -> u8 {
    let newcomer = X + places as u8;
    for consumer in X..newcomer {
        assert_eq!(bench.on(joined(consumer, V1)), [tell(consumer, V1, &ALL)]);
    }
    newcomer
}

#[test]
fn a_consumer_that_is_idle_gives_its_place_to_another() {
    let mut bench = Bench::holding(&whole());
    let newcomer = fill(&mut bench, MAX_CONSUMERS);
    bench.pass(1);
    assert_eq!(bench.on(asked(X, V1, 0, 0b1)), [serve(X, V1, 0, 0)]);
    bench.pass(IDLE_MS - 2);
    assert_eq!(bench.on(joined(newcomer, V1)), [refuse(newcomer, V1)]);
    bench.pass(1);
    // X has been served since the others joined; and who was refused waits a little.
    let another = newcomer + 1;
    assert_eq!(bench.on(joined(another, V1)), [refuse(Y, V1), tell(another, V1, &ALL)]);
}

#[test]
fn a_neighbour_takes_the_place_of_a_stranger() {
    let mut bench = Bench::holding(&whole());
    fill(&mut bench, MAX_CONSUMERS);
    assert_eq!(bench.on(named(&[(X, NeighbourRole::Mesh), (A, NeighbourRole::Mesh)])), NOTHING);
    assert_eq!(bench.on(joined(A, V1)), [refuse(Y, V1), tell(A, V1, &ALL)]);
}

#[test]
fn the_source_has_more_places() {
    let mut bench = Bench::source(&whole());
    let newcomer = fill(&mut bench, MAX_SOURCE_CONSUMERS);
    assert_eq!(bench.on(joined(newcomer, V1)), [refuse(newcomer, V1)]);
    assert_eq!(bench.machine.stats().consumers, MAX_SOURCE_CONSUMERS);
}

#[test]
fn who_joins_again_keeps_its_place_and_starts_anew() {
    let mut bench = Bench::holding(&whole());
    fill(&mut bench, MAX_CONSUMERS);
    assert_eq!(bench.on(asked(X, V1, 0, 0b1)), [serve(X, V1, 0, 0)]);
    bench.pass(REJOIN_MS);
    assert_eq!(bench.on(joined(X, V1)), [tell(X, V1, &ALL)]);
    assert_eq!(bench.on(asked(X, V1, 0, 0b1)), [serve(X, V1, 0, 0)]);
}

#[test]
fn one_that_does_not_serve_refuses_everybody() {
    let mut bench = Bench::new(DisseminationConfig { serves: false, ..config(DisseminationMode::Echo) });
    assert_eq!(bench.complete(&whole()), [complete(V1)]);
    assert_eq!(bench.on(joined(X, V1)), [refuse(X, V1)]);
    assert_eq!(bench.on(joined(Y, V2)), [refuse(Y, V2)]);
}

#[test]
fn an_older_version_that_is_not_here_is_refused() {
    let mut bench = Bench::holding(&snapshot(V2, 1, 4));
    assert_eq!(bench.on(joined(X, V1)), [refuse(X, V1)]);
    assert_eq!(bench.on(joined(X, V2)), [tell(X, V2, &ALL)]);
}

#[test]
fn who_joins_for_a_version_that_is_to_come_waits_for_it() {
    let mut bench = Bench::holding(&whole());
    assert_eq!(bench.on(joined(X, V2)), NOTHING);
    assert_eq!(bench.complete(&snapshot(V2, 1, 4)), [complete(V2), tell(X, V2, &ALL)]);
}

#[test]
fn who_waits_for_a_version_that_is_passed_over_is_refused() {
    let mut bench = Bench::holding(&whole());
    assert_eq!(bench.on(joined(X, V2)), NOTHING);
    assert_eq!(bench.complete(&snapshot(V3, 1, 4)), [refuse(X, V2), complete(V3)]);
}
