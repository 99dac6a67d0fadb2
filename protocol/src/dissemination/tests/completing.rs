//! When a version is complete, what follows it, and what is kept.

use super::*;

fn receiving(neighbours: &[(u8, NeighbourRole)]) -> Fixture {
    Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 1), neighbours)
}

fn kept(fixture: &Fixture) -> Vec<PolicyVersion> {
    fixture.machine.kept().map(|manifest| manifest.version).collect()
}

#[test]
fn complete_is_said_once_when_the_last_wanted_block_is_stored() {
    let manifest = snapshot(V1, 1, 2);
    let block = BLOCK_BYTES as u64;
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &manifest, &ONE);
    assert_eq!(fixture.on(has(A, V1, &[(0, 0b11)])), [request(A, V1, 0, 0b11)]);
    assert_eq!(fixture.on(stored(A, V1, 0, 1)), NOTHING);
    assert_eq!(fixture.machine.progress(), Some((V1, block, 2 * block)));
    assert_eq!(fixture.machine.newest_complete(), None);

    assert_eq!(fixture.on(stored(A, V1, 0, 0)), [close(A), complete(V1)]);
    assert_eq!((fixture.machine.progress(), fixture.machine.newest_complete()), (None, Some(V1)));
    for again in [stored(A, V1, 0, 0), gained(V1, 0), wanted(V1, &[0])] {
        assert_eq!(fixture.on(again), NOTHING);
    }
    // Whoever asks for it anew is told that nothing is missing.
    assert_eq!(fixture.announce(&manifest, &[]), [complete(V1)]);
}

#[test]
fn a_version_that_is_on_the_disk_is_complete_at_once() {
    let mut fixture = Fixture::node(DisseminationMode::Echo);
    assert_eq!(fixture.complete(&snapshot(V1, 2, 4)), [complete(V1)]);
}

#[test]
fn a_newer_version_takes_the_place_of_the_one_being_received() {
    let mut fixture = receiving(&ONE);
    let said = fixture.announce(&snapshot(V2, 1, 1), &[]);
    assert_eq!(said, [close(A), discard(V1), open(A, V2)]);
    assert_eq!(kept(&fixture), [V2]);
}

#[test]
fn what_all_neighbours_refuse_is_told_and_tried_again() {
    let mut fixture = receiving(&TWO);
    assert_eq!(fixture.on(refused(A, V1)), NOTHING);
    assert_eq!(fixture.on(refused(B, V1)), [Output::Refused(V1)]);
    assert_eq!(deeds(fixture.pass(500)), [open(A, V1), open(B, V1)]);
}

#[test]
fn the_newest_complete_versions_are_kept_and_the_consumers_of_others_refused() {
    let mut fixture = Fixture::holding(&snapshot(V1, 1, 1));
    for version in [V2, V3] {
        assert_eq!(fixture.complete(&snapshot(version, 1, 1)), [complete(version)]);
    }
    assert_eq!(kept(&fixture), [V1, V2, V3]);
    assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &[(0, 0b1)])]);
    assert_eq!(fixture.complete(&snapshot(V4, 1, 1)), [complete(V4), refuse(X, V1), discard(V1)]);
    assert_eq!(kept(&fixture), [V2, V3, V4]);
    assert_eq!(kept(&fixture).len(), KEPT_VERSIONS);
}
