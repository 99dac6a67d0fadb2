//! When a version is complete, what follows it, and what is kept.

use super::*;

/// Receives the only group of version 1 from A, and returns what is said to that.
fn finish(bench: &mut Bench) -> Vec<Output> {
    assert_eq!(bench.on(has(A, V1, &[(0, 0b1)])), [request(A, V1, 0, 0b1)]);
    bench.on(stored(A, V1, 0, 0))
}

fn receiving(neighbours: &[(u8, Role)]) -> Bench {
    Bench::receiving(Mode::Echo, &snapshot(V1, 1, 1), neighbours)
}

fn kept(bench: &Bench) -> Vec<PolicyVersion> {
    bench.relay.kept().map(|manifest| manifest.version).collect()
}

#[test]
fn complete_is_said_once_when_the_last_wanted_group_is_stored() {
    let manifest = snapshot(V1, 1, 2);
    let group = GROUP_BYTES as u64;
    let mut bench = Bench::receiving(Mode::Echo, &manifest, &ONE);
    assert_eq!(bench.on(has(A, V1, &[(0, 0b11)])), [request(A, V1, 0, 0b11)]);
    assert_eq!(bench.on(stored(A, V1, 0, 1)), NOTHING);
    assert_eq!(bench.relay.progress(), Some((V1, group, 2 * group)));
    assert_eq!(bench.relay.newest_complete(), None);

    assert_eq!(bench.on(stored(A, V1, 0, 0)), [close(A), complete(V1)]);
    assert_eq!((bench.relay.progress(), bench.relay.newest_complete()), (None, Some(V1)));
    for again in [stored(A, V1, 0, 0), gained(V1, 0), wanted(V1, &[0])] {
        assert_eq!(bench.on(again), NOTHING);
    }
    assert_eq!(bench.announce(&manifest, &[]), NOTHING);
}

#[test]
fn a_version_that_is_on_the_disk_is_complete_at_once() {
    let mut bench = Bench::node(Mode::Echo);
    assert_eq!(bench.complete(&snapshot(V1, 2, 4)), [complete(V1)]);
}

#[test]
fn a_newer_version_begins_when_the_one_being_received_is_complete() {
    let mut bench = receiving(&ONE);
    assert_eq!(bench.announce(&snapshot(V2, 1, 1), &[]), NOTHING);
    assert_eq!(finish(&mut bench), [close(A), complete(V1), open(A, V2)]);
}

#[test]
fn of_several_newer_versions_the_newest_is_next() {
    let mut bench = receiving(&ONE);
    for version in [V2, V4, V3] {
        assert_eq!(bench.announce(&snapshot(version, 1, 1), &[]), NOTHING);
    }
    assert_eq!(finish(&mut bench), [close(A), complete(V1), open(A, V4)]);
}

#[test]
fn what_all_neighbours_refuse_is_given_up_for_the_newer_version() {
    let mut bench = receiving(&TWO);
    bench.announce(&snapshot(V2, 1, 1), &[]);
    assert_eq!(bench.on(refused(A, V1)), NOTHING);
    assert_eq!(bench.on(refused(B, V1)), [discard(V1)]);
    assert_eq!(kept(&bench), [V2]);
    assert_eq!(deeds(bench.pass(500)), [open(A, V2), open(B, V2)]);
}

#[test]
fn what_all_neighbours_refuse_is_tried_again_while_there_is_nothing_newer() {
    let mut bench = receiving(&TWO);
    assert_eq!(bench.on(refused(A, V1)), NOTHING);
    assert_eq!(bench.on(refused(B, V1)), NOTHING);
    assert_eq!(deeds(bench.pass(500)), [open(A, V1), open(B, V1)]);
}

#[test]
fn the_newest_complete_versions_are_kept_and_the_consumers_of_others_refused() {
    let mut bench = Bench::holding(&snapshot(V1, 1, 1));
    for version in [V2, V3] {
        assert_eq!(bench.complete(&snapshot(version, 1, 1)), [complete(version)]);
    }
    assert_eq!(kept(&bench), [V1, V2, V3]);
    assert_eq!(bench.on(joined(X, V1)), [tell(X, V1, &[(0, 0b1)])]);
    assert_eq!(bench.complete(&snapshot(V4, 1, 1)), [complete(V4), refuse(X, V1), discard(V1)]);
    assert_eq!(kept(&bench), [V2, V3, V4]);
    assert_eq!(kept(&bench).len(), KEPT_VERSIONS);
}
