//! What the source tells of while a version is new.

use super::*;
use crate::snapshot::manifest::DeltaEntry;

/// Has `consumer` ask for these blocks of the first piece, and get them.
fn take(fixture: &mut Fixture, consumer: u8, blocks: impl IntoIterator<Item = u32>) -> Vec<Output> {
    let mut said = Vec::new();
    for block in blocks {
        said.extend(fixture.on(asked(consumer, V1, 0, 1 << block)));
        said.extend(fixture.on(sent(consumer, 0, block)));
    }
    said.retain(|output| !matches!(output, Output::Serve { .. }));
    said
}

/// The bits of `count` blocks from `first`.
fn bits(first: u32, count: u32) -> u64 {
    ((1 << count) - 1) << first
}

#[test]
fn each_consumer_is_told_of_other_blocks_until_all_were_sent_and_then_of_all() {
    let mut fixture = Fixture::source(&snapshot(V1, 1, 22));
    assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &[(0, bits(0, 8))])]);
    assert_eq!(fixture.on(joined(Y, V1)), [tell(Y, V1, &[(0, bits(8, 8))])]);
    // As much again as was got, and half of that more; not one by one.
    assert_eq!(take(&mut fixture, X, 0..2), NOTHING);
    assert_eq!(take(&mut fixture, X, 2..3), [tell(X, V1, &[(0, bits(16, 4))])]);
    assert_eq!(take(&mut fixture, Y, 8..11), [tell(Y, V1, &[(0, bits(20, 2))])]);
    // Who comes when all is told of is told of all.
    assert_eq!(fixture.on(joined(Z, V1)), [tell(Z, V1, &[(0, bits(0, 22))])]);
    take(&mut fixture, X, (3..8).chain(16..20));
    assert_eq!(fixture.pass(150), NOTHING, "some is still to be sent");
    take(&mut fixture, Y, (11..16).chain(20..22));
    let (mine, yours) = (bits(0, 8) | bits(16, 4), bits(8, 8) | bits(20, 2));
    assert_eq!(fixture.pass(150), [tell(X, V1, &[(0, yours)]), tell(Y, V1, &[(0, mine)])]);
    assert_eq!(fixture.machine.poll_timeout(), None);
}

#[test]
fn what_a_consumer_is_told_of_is_asked_for_like_anything_else() {
    let mut fixture = Fixture::source(&snapshot(V1, 1, 22));
    fixture.on(joined(X, V1));
    assert_eq!(fixture.on(asked(X, V1, 0, 0b11)), [serve(X, V1, 0, 0), serve(X, V1, 0, 1)]);
    // It heard of this one from a neighbour.
    assert_eq!(fixture.on(asked(X, V1, 0, 1 << 20)), [serve(X, V1, 0, 20)]);
}

#[test]
fn who_asks_for_nothing_of_its_share_is_told_of_everything_and_the_others_go_on() {
    let mut fixture = Fixture::source(&snapshot(V1, 1, 64));
    fixture.on(joined(X, V1));
    fixture.on(joined(Y, V1));
    fixture.on(asked(Y, V1, 0, bits(8, 2)));
    assert_eq!(fixture.pass(400), NOTHING);
    assert_eq!(fixture.pass(300), [tell(X, V1, &[(0, !bits(0, 8))])]);
    assert_eq!(take(&mut fixture, Y, 10..11), [tell(Y, V1, &[(0, bits(16, 4))])]);
}

#[test]
fn one_that_is_slow_does_not_hold_up_the_others() {
    let mut fixture = Fixture::source(&snapshot(V1, 1, 16));
    fixture.on(joined(X, V1));
    fixture.on(joined(Y, V1));
    // X takes none of what it was sent; Y has all.
    fixture.on(asked(X, V1, 0, bits(0, 8)));
    take(&mut fixture, Y, 8..16);
    assert_eq!(fixture.pass(1_900), NOTHING);
    let told = [tell(X, V1, &[(0, bits(8, 8))]), tell(Y, V1, &[(0, bits(0, 8))])];
    assert_eq!(fixture.pass(200), told);
}

#[test]
fn one_that_is_fast_is_told_of_what_it_gets_in_a_second() {
    let manifest = snapshot(V1, 20, 64);
    let mut fixture = Fixture::source(&manifest);
    let mut told = fixture.on(joined(X, V1));
    let (mut got, mut most) = (0, 0);
    while let Some(output) = (!told.is_empty()).then(|| told.remove(0)) {
        let Output::Tell { news, .. } = output else { continue };
        for (piece, blocks) in news {
            // Two blocks a millisecond.
            for block in blocks.iter() {
                told.extend(fixture.on(asked(X, V1, piece.0, 1 << block)));
                told.extend(fixture.on(sent(X, piece.0, block)));
                got += 1;
                told.extend(fixture.pass(u64::from(got % 2 == 0)));
                let ahead = told.iter().map(|output| match output {
                    Output::Tell { news, .. } => news.iter().map(|(_, blocks)| blocks.len()).sum(),
                    _ => 0,
                });
                most = most.max(ahead.sum::<u32>());
            }
        }
    }
    assert_eq!(got, 20 * 64);
    assert!((150..=MAX_WINDOW).contains(&most), "{most} blocks ahead");
}

#[test]
fn who_passes_nothing_on_has_no_share() {
    let mut fixture = Fixture::source(&snapshot(V1, 1, 16));
    fixture.on(Input::Leaves(vec![key(X)]));
    assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &[(0, bits(0, 16))])]);
    assert_eq!(fixture.on(joined(Y, V1)), [tell(Y, V1, &[(0, bits(0, 8))])]);
}

#[test]
fn of_a_version_with_deltas_everything_is_told_at_once() {
    let manifest = Arc::unwrap_or_clone(snapshot(V2, 1, 64));
    let delta = DeltaEntry { base: manifest.chunks[0], id: ContentId::of(b"delta"), length: 1000 };
    let manifest = Arc::new(Manifest { base: Some(V1), deltas: vec![Some(delta)], ..manifest });
    let mut fixture = Fixture::source(&manifest);
    let joined = Input::Joined { peer: key(X), version: V2, manifest: manifest.id() };
    assert_eq!(fixture.on(joined), [tell(X, V2, &[(0, u64::MAX), (1, 1)])]);
}

#[test]
fn a_newer_version_ends_it() {
    let mut fixture = Fixture::source(&snapshot(V1, 1, 64));
    fixture.on(joined(X, V1));
    fixture.on(joined(Y, V2));
    let said = fixture.on(published(&snapshot(V2, 1, 4)));
    assert_eq!(said, [tell(X, V1, &[(0, !bits(0, 8))]), tell(Y, V2, &[(0, 0b1111)])]);
}

#[test]
fn chains_and_stars_are_told_of_everything_in_order() {
    for mode in [DisseminationMode::Chain, DisseminationMode::Star] {
        let mut fixture = Fixture::new(DisseminationConfig { source: true, ..config(mode) });
        fixture.on(published(&snapshot(V1, 1, 64)));
        assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &[(0, u64::MAX)])]);
    }
}
