use super::*;
use proptest::prelude::*;

use crate::tasks::holdem::stakes::MAX_SEATS;

const FOLD: Action = Action::Fold;
const CALL: Action = Action::Call;

fn to(chips: u64) -> Action {
    Action::RaiseTo(chips)
}

fn cards(text: &str) -> Vec<Card> {
    Card::parse_run(text).unwrap().into_iter().flatten().collect()
}

/// Hands in the order of the seats, then the board.
fn deal(holes: &[&str], board: &str) -> Deal {
    let hole = |text: &&str| <[Card; 2]>::try_from(cards(text)).ok();
    Deal { holes: holes.iter().map(hole).collect(), board: cards(board).try_into().unwrap() }
}

/// A deal where nothing depends on the cards.
fn any_deal(seats: usize) -> Deal {
    let deck: Vec<Card> = Card::all().collect();
    let holes = (0..seats).map(|seat| Some([deck[2 * seat], deck[2 * seat + 1]])).collect();
    Deal { holes, board: deck[47..].try_into().unwrap() }
}

fn table(stacks: &[u64], small: u64, big: u64) -> Table {
    let stakes = Stakes::blinds(stacks.len(), small, big, 0);
    Table::new(&stakes, stacks, any_deal(stacks.len())).unwrap()
}

fn play(table: &mut Table, actions: &[Action]) {
    for &action in actions {
        table.act(action).unwrap();
    }
}

/// Actor, cost of a call, and raise range.
fn turn(table: &Table) -> (usize, u64, Option<(u64, u64)>) {
    let legal = table.legal().unwrap();
    (legal.actor, legal.call, legal.raise_to.map(std::ops::RangeInclusive::into_inner))
}

fn stacks(table: &Table) -> Vec<u64> {
    table.stacks().collect()
}

#[test]
fn a_round_goes_from_the_left_of_the_big_blind_to_its_option() {
    let mut table = table(&[1000, 1000, 1000], 5, 10);
    assert_eq!(turn(&table), (2, 10, Some((20, 1000))));
    table.act(CALL).unwrap();
    assert_eq!(turn(&table), (0, 5, Some((20, 1000))));
    table.act(CALL).unwrap();
    assert_eq!(turn(&table), (1, 0, Some((20, 1000))));
    assert_eq!(table.act(FOLD), Err(Illegal::FreeFold { seat: 1 }));
    table.act(CALL).unwrap();
    assert_eq!((table.street(), table.board().count(), table.pot()), (Street::Flop, 3, 30));
    assert_eq!(turn(&table), (0, 0, Some((10, 990))));
}

#[test]
fn with_two_seats_the_button_posts_small_and_acts_first_before_the_flop() {
    let mut table = table(&[100, 100], 5, 10);
    assert_eq!(table.bets().collect::<Vec<_>>(), [10, 5]);
    assert_eq!(turn(&table), (1, 5, Some((20, 100))));
    play(&mut table, &[CALL, CALL]);
    assert_eq!(turn(&table).0, 0);
}

#[test]
fn a_raise_adds_at_least_the_last_one() {
    let mut table = table(&[1000, 1000, 1000], 5, 10);
    assert_eq!(table.act(to(19)), Err(Illegal::RaiseSize { seat: 2, to: 19, least: 20, most: 1000 }));
    table.act(to(45)).unwrap();
    assert_eq!(turn(&table), (0, 40, Some((80, 1000))));
    table.act(to(200)).unwrap();
    assert_eq!(turn(&table), (1, 190, Some((355, 1000))));
    assert_eq!(
        table.act(to(1001)).unwrap_err(),
        Illegal::RaiseSize { seat: 1, to: 1001, least: 355, most: 1000 }
    );
}

#[test]
fn a_short_all_in_does_not_reopen_the_betting() {
    let mut table = table(&[1000, 1000, 150, 1000], 5, 10);
    // The bet is 100, the all-in adds 50.
    play(&mut table, &[CALL, to(100), CALL, CALL, to(150)]);
    // Seat 2's all-in came over the raise of 90 by seat 3.
    assert_eq!(turn(&table), (3, 50, None));
    assert_eq!(table.act(to(300)), Err(Illegal::NoRaise { seat: 3 }));
}

#[test]
fn short_all_ins_that_add_up_to_a_raise_reopen_it() {
    let mut table = table(&[1000, 160, 210, 1000], 5, 10);
    play(&mut table, &[CALL, to(100), CALL, to(160), to(210)]);
    // The raise was to 100, by 90; the two all-ins add 110.
    assert_eq!(turn(&table), (3, 110, Some((300, 1000))));
    // Seat 0 called 100: for it, too, 110 are more than the raise.
    play(&mut table, &[CALL]);
    assert_eq!(turn(&table), (0, 110, Some((300, 1000))));
}

#[test]
fn nobody_raises_those_who_are_all_in() {
    let mut table = table(&[1000, 300, 300], 5, 10);
    play(&mut table, &[to(300), CALL, CALL]);
    assert!(table.is_over(), "seat 0 has nobody to bet against");
    assert_eq!(table.board().count(), 5);

    let mut table = super::tests::table(&[1000, 300, 300], 5, 10);
    play(&mut table, &[to(300), FOLD]);
    assert_eq!(turn(&table), (1, 290, None));
}

#[test]
fn what_is_not_called_goes_back() {
    let mut table = table(&[100, 100, 1000], 5, 10);
    play(&mut table, &[to(1000), FOLD, FOLD]);
    assert!(table.is_over());
    assert_eq!(stacks(&table), [95, 90, 1015]);
    assert!(table.events().contains(&HandEvent::Returned { seat: 2, chips: 990 }));
    assert_eq!(table.legal(), None);
    assert_eq!(table.act(CALL), Err(Illegal::Over));
}

#[test]
fn every_pot_is_split_on_its_own_with_its_odd_chip_to_the_left_of_the_button() {
    // Seats 1 and 2 tie; seat 0, all-in for 5, beats them for the main pot; seat 3 has folded 1.
    let stakes = Stakes { antes: vec![1; 4], ..Stakes::blinds(4, 1, 2, 0) };
    let deal = deal(&["AcAd", "KcQd", "KdQc", "2h3h"], "As9h8d7c4s");
    let mut table = Table::new(&stakes, &[6, 50, 50, 50], deal).unwrap();
    play(&mut table, &[to(21), FOLD, CALL, CALL]);
    play(&mut table, &[CALL, CALL, CALL, CALL, CALL, CALL]);
    // Main pot: antes 4, 3 · 5. Side pot: 2 · 16 and nothing odd.
    assert_eq!(stacks(&table), [19, 44, 44, 49]);

    let odd = super::tests::deal(&["2c3d", "KcQd", "KdQc", "AcAd"], "As9h8d7cTs");
    let mut table = Table::new(&Stakes::blinds(4, 1, 2, 0), &[50; 4], odd).unwrap();
    play(&mut table, &[CALL, FOLD, FOLD, CALL]);
    // The small blind's chip is the odd one; seat 1 sits nearer to the left of the button.
    play(&mut table, &[to(10), CALL, CALL, CALL, CALL, CALL]);
    assert_eq!(stacks(&table), [49, 51, 50, 50]);
}

#[test]
fn pots_that_only_losers_tell_apart_are_one() {
    // Seats 2 and 3 tie; seats 1 and 4 lose all-ins of 8 and 9; seat 0 folds 1. Apart, pots of 33,
    // 3 and 82 would give 17, 2 and 41 chips to seat 2.
    let holes = deal(&["AcAd", "2c3d", "KdQc", "KcQd", "2d3c"], "As9h8d7cTs");
    let mut table = Table::new(&Stakes::blinds(5, 1, 2, 0), &[50, 8, 50, 50, 9], holes).unwrap();
    play(&mut table, &[to(50), CALL, CALL, FOLD, CALL]);
    assert_eq!(stacks(&table), [49, 0, 59, 59, 0]);
}

#[test]
fn a_big_blind_that_antes_for_all_is_dead() {
    let stakes = Stakes { antes: vec![0, 10, 0], trim_antes: false, ..Stakes::blinds(3, 5, 10, 0) };
    let mut table = Table::new(&stakes, &[100, 15, 100], any_deal(3)).unwrap();
    // 10 of its 15 chips are the ante, so its blind is 5; the price is the full blind.
    assert_eq!(table.bets().collect::<Vec<_>>(), [5, 5, 0]);
    assert_eq!((table.pot(), turn(&table)), (20, (2, 10, Some((20, 100)))));
    play(&mut table, &[FOLD]);
    // Nobody with chips behind is left to play against: the small blind has matched the all-in.
    assert_eq!(turn(&table), (0, 0, None));
}

#[test]
fn antes_that_others_cannot_match_go_back() {
    let stakes = Stakes::blinds(2, 1, 2, 10);
    let table = Table::new(&stakes, &[4, 100], any_deal(2)).unwrap();
    // The all-in ante is worth 4: 6 of the other go back, and there is nothing to play for.
    assert!(table.is_over());
    assert_eq!(table.stacks().sum::<u64>(), 104);
    assert!(table.events().contains(&HandEvent::Returned { seat: 1, chips: 6 }));
}

#[test]
fn a_straddle_moves_the_first_action() {
    let stakes = Stakes { blinds: vec![5, 10, 20, 0, 0], ..Stakes::blinds(5, 5, 10, 0) };
    let table = Table::new(&stakes, &[500; 5], any_deal(5)).unwrap();
    assert_eq!(turn(&table), (3, 20, Some((30, 500))));
}

#[test]
fn unsound_deals_and_stakes_are_refused() {
    let new = |stakes: Stakes, stacks: &[u64], deal| Table::new(&stakes, stacks, deal).unwrap_err();
    let mut twice = any_deal(2);
    twice.board[0] = twice.board[1];
    let blinds = |seats| Stakes::blinds(seats, 1, 2, 0);
    assert_eq!(new(blinds(2), &[10, 10], twice), StakesError::Cards { found: 8, needed: 9 });
    assert_eq!(new(blinds(2), &[10, 0], any_deal(2)), StakesError::Empty { seat: 1 });
    assert_eq!(new(blinds(1), &[10], any_deal(1)), StakesError::Seats { seats: 1 });
    assert!(matches!(new(blinds(3), &[10; 3], any_deal(2)), StakesError::Length { what: "hands", .. }));
    assert!(matches!(new(blinds(2), &[10; 3], any_deal(3)), StakesError::Length { what: "antes", .. }));
    assert_eq!(
        new(Stakes { min_bet: 0, ..blinds(2) }, &[10; 2], any_deal(2)),
        StakesError::MinBet { min_bet: 0 }
    );
    assert_eq!(new(blinds(2), &[10, u64::MAX], any_deal(2)), StakesError::TooMuch { chips: u64::MAX });
}

proptest! {
    #[test]
    fn chips_are_neither_made_nor_lost(
        stacks in prop::collection::vec(1_u64..300, 2..=MAX_SEATS),
        ante in 0_u64..5,
        dead in any::<bool>(),
        choices in prop::collection::vec(any::<(u8, u16)>(), 0..200),
        seed in any::<[u8; 32]>(),
    ) {
        let seats = stacks.len();
        let mut cards = Card::all().collect::<Vec<_>>();
        echo_protocol::wire::rng::Draws::new(seed).shuffle(&mut cards);
        let holes = cards.chunks_exact(2).take(seats).map(|pair| Some([pair[0], pair[1]])).collect();
        let deal = Deal { holes, board: cards[47..].try_into().unwrap() };
        let stakes = Stakes { trim_antes: !dead, ..Stakes::blinds(seats, 5, 10, ante) };
        let mut table = Table::new(&stakes, &stacks, deal).unwrap();
        let total: u64 = stacks.iter().sum();
        for (kind, size) in choices {
            let Some(legal) = table.legal() else { break };
            prop_assert_eq!(total, table.pot() + table.stacks().sum::<u64>());
            prop_assert!(legal.call <= table.stacks().nth(legal.actor).unwrap());
            let action = match kind % 8 {
                0 => FOLD,
                1 | 2 => to(u64::from(size) % 400),
                3 => legal.raise_near(0),
                _ => CALL,
            };
            let allowed = match action {
                Action::Fold => legal.can_fold,
                Action::Call => true,
                Action::RaiseTo(to) => legal.raise_to.is_some_and(|range| range.contains(&to)),
            };
            let before = table.events().len();
            prop_assert_eq!(table.act(action).is_ok(), allowed);
            prop_assert_eq!(table.events().len() > before, allowed);
        }
        while let Some(legal) = table.legal() {
            table.act(legal.check_or_fold()).unwrap();
        }
        prop_assert!(table.is_over());
        prop_assert_eq!((total, 0), (table.stacks().sum::<u64>(), table.pot()));
    }
}
