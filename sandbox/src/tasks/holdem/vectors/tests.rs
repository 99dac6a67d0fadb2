use super::*;

fn row(stacks: &str, steps: &str) -> String {
    format!(
        r#"{{"id": "hand", "antes": [0, 0], "blinds_or_straddles": [1, 2], "min_bet": 2, "starting_stacks": [50, 60],
        "actions": ["d dh p1 2c2d", "d dh p2 AcAd", "p2 cbr 60", "p1 f"], "finishing_stacks": {stacks}, "steps": {steps}}}"#
    )
    .replace('\n', " ")
}

const STEPS: &str = r#"[
    {"at": 2, "actor": 2, "can_fold": true, "call": 1, "raise_to": [4, 60], "pot": 3, "bets": [2, 1], "stacks": [48, 59]},
    {"at": 3, "actor": 1, "can_fold": true, "call": 48, "raise_to": null, "pot": 62, "bets": [2, 60], "stacks": [48, 0]}
]"#;

fn check_text(text: &str, with_steps: bool) -> VectorAgreement {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let check = if with_steps { check_oracle } else { check_phh };
    check(file.path()).unwrap()
}

#[test]
fn hands_that_agree_are_counted() {
    let text = format!("{}\n\n{}", row("[48, 62]", STEPS), row("[48, 62]", STEPS));
    let agreement = check_text(&text, true);
    assert_eq!((agreement.cases, agreement.agreed), (2, 2), "{:?}", agreement.disagreements);
    // Recorded hands have no steps.
    assert_eq!(check_text(&row("[48, 62]", "[]"), false).agreed, 1);
}

#[test]
fn every_kind_of_disagreement_is_described_with_its_line() {
    let rows = [
        row("[48, 61]", STEPS),
        row("[48, 62]", "[]"),
        row("[48, 62]", &STEPS.replace("[4, 60]", "[4, 50]")),
        row("[48, 62]", STEPS).replace("p1 f", "p1 cbr 60"),
        row("[48, 62]", STEPS).replace("min_bet", "max_bet"),
        "not JSON".into(),
    ];
    let agreement = check_text(&rows.join("\n"), true);
    assert_eq!((agreement.cases, agreement.agreed), (6, 0));
    for (index, (text, about)) in agreement
        .disagreements
        .iter()
        .zip([
            "final stacks",
            "2 decisions, want 0",
            "before action 2",
            "may not raise",
            "malformed",
            "not JSON",
        ])
        .enumerate()
    {
        assert!(text.starts_with(&format!("line {}: ", index + 1)) && text.contains(about), "{text}");
    }
}
