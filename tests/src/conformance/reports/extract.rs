//! Responses with a program in them: `source`, `response`, `expected`.

use super::{Found, Outcome, Row};
use echo_sandbox::tasks::code::vectors::{Extraction, extraction};

/// The program of each response.
pub(super) fn check(rows: &[Row<'_>]) -> Found {
    let mut found = Found::default();
    for Row { number, text } in rows {
        found.count(match extraction(text) {
            Ok(Extraction::AsExpected) => Outcome::AsExpected,
            Ok(Extraction::Otherwise(line)) => Outcome::Otherwise(format!("row {number}: {line}")),
            Ok(Extraction::Debatable(name)) => Outcome::Skipped(format!("row {number}: {name}: debatable")),
            Err(reason) => Outcome::Otherwise(format!("row {number}: {reason}")),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::checked;
    use serde_json::json;

    #[test]
    fn programs_of_responses_are_compared() {
        let case = |expected: &str| {
            json!({"source": "a", "response": "```py\nprint(1)\n```", "expected": expected}).to_string()
        };
        let report = checked(&[case("print(1)"), case("debatable")].join("\n")).unwrap();
        assert!(report.passed && report.json["skipped"].as_array().is_some_and(|all| all.len() == 1));
        assert!(!checked(&case("print(2)")).unwrap().passed);
    }
}
