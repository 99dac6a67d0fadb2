//! Answers: `answer`, `response`, `expected`, and `form` where it is `gsm8k`.

use super::{Found, Outcome, Row};
use echo_sandbox::tasks::math::vectors::reports::reward;
use serde_json::json;

/// What each response earns.
pub(super) fn check(rows: &[Row<'_>]) -> Found {
    let mut found = Found::default();
    let (mut false_rewards, mut missed_rewards) = (0_u64, 0_u64);
    for row in rows {
        found.count(match reward(row.text) {
            Ok(case) if case.earned == case.expected => Outcome::AsExpected,
            Ok(case) => {
                *(if case.earned { &mut false_rewards } else { &mut missed_rewards }) += 1;
                Outcome::Otherwise(format!("row {}: {}", row.number, case.line))
            }
            Err(reason) => Outcome::Otherwise(format!("row {}: {reason}", row.number)),
        });
    }
    found.figures.insert("false_rewards".to_owned(), json!(false_rewards));
    found.figures.insert("missed_rewards".to_owned(), json!(missed_rewards));
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::checked;
    use serde_json::json;

    #[test]
    fn reported_answers_are_judged_by_what_they_earn() {
        let case = |response: &str, expected: bool| {
            json!({"answer": "5", "response": response, "expected": expected}).to_string()
        };
        let judged = |cases: &[String]| checked(&cases.join("\n")).unwrap();
        let report = judged(&[case("It is 5.", true), case("It is 6.", false)]);
        assert!(report.passed && report.json["passed"] == true && report.json["claims"][0]["holds"] == true);
        let report = judged(&[case("It is 5.", false), case("It is 6.", true), case("It is 7.", false)]);
        assert!(!report.passed);
        let figures = &report.json["figures"];
        assert_eq!((&figures["false_rewards"], &figures["missed_rewards"]), (&json!(1), &json!(1)));
    }
}
