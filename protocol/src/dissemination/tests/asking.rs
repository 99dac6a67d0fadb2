//! Which blocks are asked of whom.

use super::*;

fn seeded(seed: u8) -> Fixture {
    Fixture::new(DisseminationConfig { seed: [seed; 32], ..config(DisseminationMode::Echo) })
}

#[test]
fn a_neighbour_is_asked_only_for_missing_blocks_that_it_holds() {
    let mut fixture = Fixture::node(DisseminationMode::Echo);
    fixture.announce(&snapshot(V1, 2, 4), &[(0, 0b0001)]);
    fixture.meet(&ONE);
    // No chunk has five blocks, and there are no more pieces.
    let claims = has(A, V1, &[(0, 0b1_0101), (2, 0b1), (u32::MAX, 0b1)]);
    assert_eq!(fixture.on(claims), [request(A, V1, 0, 0b0100)]);
    assert_eq!(fixture.on(has(A, V2, &[(1, 0b1111)])), NOTHING);
    assert_eq!(fixture.on(has(A, V1, &[(1, 0b0010)])), [request(A, V1, 1, 0b0010)]);
}

#[test]
fn a_block_is_asked_of_one_neighbour_only() {
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 6), &TWO);
    let first = blocks_of(&fixture.on(has(A, V1, &[(0, 0b11_1111)])));
    let rest = 0b11_1111 & !first;
    assert_eq!((first.count_ones(), rest.count_ones()), (START_WINDOW, 2));
    assert_eq!(fixture.on(has(B, V1, &[(0, 0b11_1111)])), [request(B, V1, 0, rest)]);
}

#[test]
fn the_piece_that_the_fewest_hold_is_asked_for_first() {
    for seed in 0..16 {
        let mut fixture = seeded(seed);
        fixture.announce(&snapshot(V1, 3, 4), &[]);
        fixture.meet(&TWO);
        fixture.on(has(B, V1, &[(0, 0b1111), (1, 0b1111)]));
        // One of the two pieces that B holds has been asked of it; the other is open, and so is the third.
        let all = has(A, V1, &[(0, 0b1111), (1, 0b1111), (2, 0b1111)]);
        assert_eq!(fixture.on(all), [request(A, V1, 2, 0b1111)], "seed {seed}");
    }
}

#[test]
fn of_a_piece_the_blocks_that_the_fewest_hold_are_asked_for_first() {
    let mut fixture = Fixture::receiving(DisseminationMode::Echo, &snapshot(V1, 1, 8), &TWO);
    let first = blocks_of(&fixture.on(has(B, V1, &[(0, 0b0011_1111)])));
    let rest = 0b0011_1111 & !first;
    let said = fixture.on(has(A, V1, &[(0, 0b1111_1111)]));
    assert_eq!(said, [request(A, V1, 0, 0b1100_0000), request(A, V1, 0, rest)]);
}

#[test]
fn peers_with_different_seeds_ask_for_different_blocks() {
    let first = |seed: u8| {
        let mut fixture = seeded(seed);
        fixture.announce(&snapshot(V1, 1, 64), &[]);
        fixture.meet(&ONE);
        blocks_of(&fixture.on(has(A, V1, &[(0, u64::MAX)])))
    };
    let drawn: BTreeSet<u64> = (0..16).map(first).collect();
    assert!(drawn.len() > 8, "of 16 peers only {} differ", drawn.len());
    assert_eq!(first(3), first(3));
}

#[test]
fn the_machine_itself_and_those_beyond_the_longest_list_are_no_neighbours() {
    let mut fixture = Fixture::node(DisseminationMode::Echo);
    fixture.announce(&snapshot(V1, 1, 1), &[]);
    let list: Vec<(u8, NeighbourRole)> = (ME..=30).map(|peer| (peer, NeighbourRole::Mesh)).collect();
    let opens: Vec<Output> = (1..=MAX_NEIGHBOURS as u8).map(|peer| open(peer, V1)).collect();
    assert_eq!(fixture.on(named(&list)), opens);
}
