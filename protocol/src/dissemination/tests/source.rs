//! The source: the same machine, which publishes and receives nothing.

use super::*;

#[test]
fn who_waits_for_a_version_is_told_everything_when_it_is_published() {
    let mut fixture = Fixture::source(&snapshot(V1, 1, 4));
    assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &[(0, 0b1111)])]);
    assert_eq!(fixture.on(joined(Y, V2)), NOTHING);
    let told = tell(Y, V2, &[(0, 0b1111)]);
    assert_eq!(fixture.on(published(&snapshot(V2, 1, 4))), [told]);
}

#[test]
fn the_source_receives_nothing() {
    let mut fixture = Fixture::source(&snapshot(V1, 1, 4));
    assert_eq!(fixture.announce(&snapshot(V2, 1, 4), &[]), NOTHING);
    assert_eq!(fixture.on(named(&TWO)), NOTHING);
    assert_eq!(fixture.machine.poll_timeout(), None);
    assert_eq!(fixture.machine.newest_complete(), Some(V1));
}

#[test]
fn the_source_keeps_the_newest_versions_and_refuses_the_consumers_of_others() {
    let mut fixture = Fixture::source(&snapshot(V1, 1, 1));
    assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &[(0, 1)])]);
    for version in [V2, V3] {
        assert_eq!(fixture.on(published(&snapshot(version, 1, 1))), NOTHING);
    }
    assert_eq!(fixture.on(published(&snapshot(V4, 1, 1))), [refuse(X, V1), discard(V1)]);
}

#[test]
fn what_is_damaged_at_the_source_is_neither_served_nor_asked_for() {
    let mut fixture = Fixture::source(&snapshot(V1, 2, 4));
    fixture.on(joined(X, V1));
    assert_eq!(fixture.on(damaged(V1, 0)), NOTHING);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b1)), [refuse(X, V1)]);
    fixture.pass(REJOIN_MS);
    assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &[(1, 0b1111)])]);
}
