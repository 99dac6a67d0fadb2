//! What consumers get, and what they are refused.

use super::*;

fn serves(peer: u8, blocks: impl IntoIterator<Item = u32>) -> Vec<Output> {
    blocks.into_iter().map(|block| serve(peer, V1, 0, block)).collect()
}

/// The source of one piece of eight blocks, and those who pull from it.
fn source_of_eight(consumers: &[u8]) -> Fixture {
    let mut fixture = Fixture::source(&snapshot(V1, 1, 8));
    for consumer in consumers {
        assert_eq!(fixture.on(joined(*consumer, V1)), [tell(*consumer, V1, &[(0, 0xff)])]);
    }
    fixture
}

#[test]
fn few_blocks_are_on_their_way_to_one_consumer() {
    let mut fixture = source_of_eight(&[X, Y]);
    let most = MAX_SERVED as u32;
    assert_eq!(fixture.on(asked(X, V1, 0, 0b11_1111)), serves(X, 0..most));
    assert_eq!(fixture.on(sent(X, 0, 7)), NOTHING, "it was not on its way");
    assert_eq!(fixture.on(sent(X, 0, 1)), serves(X, [most]));
    assert_eq!(fixture.on(sent(X, 0, 1)), NOTHING, "it is no longer on its way");
    assert_eq!(fixture.on(asked(Y, V1, 0, 0b1)), serves(Y, [0]), "another has its own share");
    assert_eq!(fixture.on(sent(X, 0, 0)), serves(X, [most + 1]));
    assert_eq!(fixture.on(sent(X, 0, 2)), NOTHING, "nothing is left to serve");
}

#[test]
fn what_was_served_least_often_is_served_first() {
    let mut fixture = source_of_eight(&[X, Y, Z]);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b0011)), serves(X, [0, 1]));
    assert_eq!(fixture.on(asked(Y, V1, 0, 0b1111)), serves(Y, [2, 3, 0, 1]));
    assert_eq!(fixture.on(asked(Z, V1, 0, 0b1110)), serves(Z, [2, 3, 1]));
}

#[test]
fn a_block_is_served_once_however_often_it_is_asked_for() {
    let mut fixture = source_of_eight(&[X]);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b1_1111)), serves(X, [0, 1, 2, 3]));
    assert_eq!(fixture.on(asked(X, V1, 0, 0b1_1111)), NOTHING);
    assert_eq!(fixture.on(sent(X, 0, 0)), serves(X, [4]));
    assert_eq!(fixture.on(sent(X, 0, 1)), NOTHING);
}

#[test]
fn cancelled_blocks_are_not_served() {
    let mut fixture = source_of_eight(&[X]);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b0111_1111)), serves(X, [0, 1, 2, 3]));
    assert_eq!(fixture.on(cancelled(X, 0, 0b0011_0000)), NOTHING);
    assert_eq!(fixture.on(sent(X, 0, 0)), serves(X, [6]));
    assert_eq!(fixture.on(sent(X, 0, 1)), NOTHING);
}

#[test]
fn who_asks_for_a_block_that_is_not_here_is_refused() {
    let mut fixture = Fixture::node(DisseminationMode::Echo);
    fixture.announce(&snapshot(V1, 1, 4), &[(0, 0b0011)]);
    assert_eq!(fixture.on(joined(X, V1)), [tell(X, V1, &[(0, 0b0011)])]);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b0110)), [refuse(X, V1)]);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b0001)), NOTHING, "it has left");
}

#[test]
fn who_asks_for_too_much_at_once_is_refused() {
    let mut fixture = Fixture::holding(&snapshot(V1, 9, 64));
    fixture.on(joined(X, V1));
    assert_eq!(fixture.on(asked(X, V1, 0, u64::MAX)).len(), MAX_SERVED);
    for piece in 1..8 {
        assert_eq!(fixture.on(asked(X, V1, piece, u64::MAX)), NOTHING);
    }
    // Those on their way count no more.
    let room = (MAX_ASKED - (8 * 64 - MAX_SERVED)) as u32;
    let rest = BlockMask::all(room).0;
    assert_eq!(fixture.on(asked(X, V1, 8, rest)), NOTHING);
    assert_eq!(fixture.on(asked(X, V1, 8, rest)), NOTHING, "it asks for no more than before");
    assert_eq!(fixture.on(asked(X, V1, 8, 1 << room)), [refuse(X, V1)]);
}

#[test]
fn who_joined_for_one_version_gets_nothing_of_another() {
    let mut fixture = source_of_eight(&[X]);
    assert_eq!(fixture.on(published(&snapshot(V2, 1, 8))), NOTHING);
    assert_eq!(fixture.on(asked(X, V2, 0, 0b1)), NOTHING);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b1)), serves(X, [0]));
}

#[test]
fn nobody_is_served_after_leaving() {
    let mut fixture = source_of_eight(&[X]);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b1_1111)), serves(X, [0, 1, 2, 3]));
    assert_eq!(fixture.on(left(X)), NOTHING);
    assert_eq!(fixture.on(sent(X, 0, 0)), NOTHING);
    assert_eq!(fixture.on(asked(X, V1, 0, 0b1)), NOTHING);
}
