use super::*;
use crate::tasks::holdem::cards::card::{Card, Deck};
use crate::tasks::holdem::stakes::Stakes;
use crate::tasks::holdem::table::{Deal, Table};

/// How often an opponent folds and raises, of all its decisions against a copy of each of the three.
fn habits(of: usize) -> (f64, f64) {
    let everybody = rule_based();
    let mut draws = Draws::new([8; 32]);
    let (mut decisions, mut folds, mut raises) = (0, 0, 0);
    for _ in 0..300 {
        let mut deck = Deck::shuffled(&mut draws);
        let mut card = || deck.deal().unwrap();
        let holes = (0..4).map(|_| Some([card(), card()])).collect();
        let deal = Deal { holes, board: std::array::from_fn(|_| card()) };
        let mut table = Table::new(&Stakes::blinds(4, 1, 2, 0), &[100; 4], deal).unwrap();
        while let Some(view) = TableView::of(&table) {
            let seat = view.legal.actor;
            let player = if seat == 3 { &everybody[of] } else { &everybody[seat] };
            let OpponentChoice::Act(action) = player.decide(&view, &mut draws) else {
                panic!("{player:?} asks")
            };
            if seat == 3 {
                decisions += 1;
                folds += u32::from(action == Action::Fold);
                raises += u32::from(matches!(action, Action::RaiseTo(_)));
            }
            // A raise near an amount and a check-or-fold are legal by construction.
            table.act(action).unwrap();
        }
    }
    let share = |count| f64::from(count) / f64::from(decisions);
    (share(folds), share(raises))
}

#[test]
fn the_three_are_of_different_character() {
    let [tight, loose, odds] = [habits(0), habits(1), habits(2)];
    assert!(tight.0 > 0.4 && tight.1 < 0.1, "tight-passive: {tight:?}");
    assert!(loose.0 < 0.35 && loose.1 > 0.25, "loose-aggressive: {loose:?}");
    assert!(odds.0 < tight.0 && odds.1 > tight.1 && odds.1 < loose.1, "pot odds: {odds:?}");
}

fn view(hole: &str, call: u64) -> TableView {
    let cards: Vec<Card> = Card::parse_run(hole).unwrap().into_iter().flatten().collect();
    TableView {
        street: crate::tasks::holdem::table::Street::Preflop,
        hole: [cards[0], cards[1]],
        board: Vec::new(),
        pot: 100 + call,
        bets: vec![0, call],
        stacks: vec![1000, 1000],
        folded: vec![false, false],
        legal: crate::tasks::holdem::action::Legal {
            actor: 0,
            can_fold: call > 0,
            call,
            raise_to: Some(2 * call.max(10)..=1000),
        },
    }
}

#[test]
fn choices_follow_from_view_and_draws() {
    for opponent in rule_based() {
        for hole in ["AsAh", "7s2h", "JcTc"] {
            let choose = || opponent.decide(&view(hole, 50), &mut Draws::new([2; 32]));
            assert_eq!(choose(), choose());
        }
    }
}

#[test]
fn prices_decide_for_who_counts_odds() {
    let decide = |hole, call| PotOdds.decide(&view(hole, call), &mut Draws::new([3; 32]));
    // 7 2 offsuit wins about a third: worth a sixth of the pot, not a half.
    assert_eq!(decide("7s2h", 20), OpponentChoice::Act(Action::Call));
    assert_eq!(decide("7s2h", 900), OpponentChoice::Act(Action::Fold));
    // Two thirds of the 160 chips after a call of 30.
    assert_eq!(decide("AsAh", 30), OpponentChoice::Act(Action::RaiseTo(30 + 107)));
    assert_eq!(
        TightPassive.decide(&view("7s2h", 0), &mut Draws::new([3; 32])),
        OpponentChoice::Act(Action::Call)
    );
    assert_eq!(LanguageModel.decide(&view("AsAh", 30), &mut Draws::new([3; 32])), OpponentChoice::Ask);
}
