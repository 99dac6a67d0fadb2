use super::*;

fn record(actions: &[&str]) -> HandRecord {
    HandRecord {
        antes: vec![0; 3],
        blinds: vec![1, 2, 0],
        min_bet: 2,
        trim_antes: true,
        starting_stacks: vec![100; 3],
        actions: actions.iter().map(|&action| action.to_owned()).collect(),
    }
}

/// Seats 1 and 3 see the flop; seat 1 has the better hand.
const PLAYED: [&str; 13] = [
    "d dh p1 AsAh",
    "d dh p2 ????",
    "d dh p3 KdKh",
    "p3 cbr 6 # a raise",
    "p1 cc",
    "p2 f",
    "d db 2c7d9h",
    "p1 cc",
    "p3 cc",
    "d db Jc",
    "p1 cbr 10",
    "p3 cc",
    "d db 4s",
];

fn stacks(actions: &[&str]) -> Result<Vec<u64>, HandReplayError> {
    replay(&record(actions), |_, _| {}).map(|table| table.stacks().collect())
}

fn with(actions: &[&str], more: &[&'static str]) -> Vec<&'static str> {
    let kept = PLAYED.iter().copied().take(actions.len());
    kept.chain(more.iter().copied()).collect()
}

#[test]
fn the_better_hand_wins_unless_it_is_mucked() {
    let checked = with(&PLAYED, &["p1 cc", "p3 cc"]);
    assert_eq!(stacks(&checked), Ok(vec![118, 98, 84]));
    let shown = with(&PLAYED, &["p1 cc", "p3 cc", "p1 sm AsAh", "p3 sm"]);
    assert_eq!(stacks(&shown), Ok(vec![118, 98, 84]));
    let mucked = with(&PLAYED, &["p1 cc", "p3 cc", "p1 sm", "p3 sm -"]);
    assert_eq!(stacks(&mucked), Ok(vec![84, 98, 118]));
}

#[test]
fn every_decision_is_watched_before_it_is_taken() {
    let mut seen = Vec::new();
    let hand = record(&with(&PLAYED, &["p1 cbr 84", "p3 f"]));
    let table =
        replay(&hand, |at, table| seen.push((at, table.legal().unwrap().actor, table.pot()))).unwrap();
    assert_eq!(table.stacks().collect::<Vec<_>>(), [118, 98, 84]);
    let expected = [
        (3, 2, 3),
        (4, 0, 9),
        (5, 1, 14),
        (7, 0, 14),
        (8, 2, 14),
        (10, 0, 14),
        (11, 2, 24),
        (13, 0, 34),
        (14, 2, 118),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn what_the_rules_do_not_allow_is_refused_with_its_place() {
    let error = |more: &[&'static str]| stacks(&with(&PLAYED[..3], more)).unwrap_err();
    assert_eq!(error(&["p1 cc"]), HandReplayError::OutOfTurn { at: 3, found: 0, expected: Some(2) });
    assert!(matches!(
        error(&["p3 cbr 3"]),
        HandReplayError::Illegal { at: 3, source: Illegal::RaiseSize { .. } }
    ));
    assert_eq!(error(&["p3 cbr 6"]), HandReplayError::Unfinished { actor: 0 });
    assert_eq!(
        error(&["p3 f", "p1 f", "p2 cc"]),
        HandReplayError::OutOfTurn { at: 5, found: 1, expected: None }
    );
    assert_eq!(error(&["d db 2c7d9h", "p3 f"]), HandReplayError::Board { at: 4, found: 3, expected: 0 });
    assert_eq!(
        error(&["p3 f", "p1 cc", "p2 cc", "p1 cc"]),
        HandReplayError::Board { at: 6, found: 0, expected: 3 }
    );
}

#[test]
fn what_is_not_the_notation_is_refused() {
    for text in [
        "p3",
        "p0 f",
        "p4 sm",
        "p11 f",
        "q3 f",
        "d dh p1",
        "p3 cbr",
        "p3 cbr -6",
        "p3 cbr 1.5",
        "f",
        "d d d d d",
    ] {
        let refused = stacks(&with(&PLAYED[..3], &[text]));
        assert_eq!(refused, Err(HandReplayError::Notation { at: 3 }), "{text}");
    }
    let refused = |text: &'static str| stacks(&with(&PLAYED[..3], &[text])).unwrap_err();
    assert!(matches!(refused("d db 2x"), HandReplayError::Cards { at: 3, .. }));
    assert!(matches!(refused("d dh p1 2c"), HandReplayError::TooManyCards { cards: 3, most: 2, .. }));
    assert!(matches!(refused("d db 2c3c4c5c6c7c"), HandReplayError::TooManyCards { cards: 6, most: 5, .. }));
    assert!(matches!(refused("d db AsAhKd"), HandReplayError::Stakes(StakesError::Cards { .. })));
    let long = vec!["p3 f"; MAX_ENTRIES + 1];
    assert_eq!(stacks(&long), Err(HandReplayError::TooLong { entries: MAX_ENTRIES + 1 }));
}
