//! Functions with their checks, as rows of HumanEval and MBPP: each row's own solution is right.

use super::{Found, Outcome};
use echo_sandbox::programs::Judge;
use echo_sandbox::programs::vectors::{ProgramFinding, check_reference_lines};
use std::path::Path;

/// Whether the solutions of these JSON lines of `file` are accepted.
pub(super) fn check(file: &Path, lines: &[u8]) -> anyhow::Result<Found> {
    let report = check_reference_lines(&Judge::shared()?, file, lines)?;
    let line = |ProgramFinding { task, reason, .. }: ProgramFinding| format!("{task}: {reason}");
    let mut found = Found { as_expected: report.accepted as u64, ..Found::default() };
    for finding in report.refused {
        found.count(Outcome::Otherwise(line(finding)));
    }
    for finding in report.skipped {
        found.count(Outcome::Skipped(line(finding)));
    }
    Ok(found)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::super::tests::checked;
    use serde_json::json;

    #[test]
    fn solutions_are_accepted_and_what_is_not_installed_is_skipped() {
        let row =
            |code: &str| json!({"task_id": 1, "text": "", "code": code, "test_list": ["assert f() == 3"]});
        let rows = json!([row("def f(): return 3"), row("import no_such_module\ndef f(): return 3")]);
        let report = checked(&rows.to_string()).unwrap();
        assert!(report.passed, "{}", report.json);
        assert_eq!(
            (&report.json["figures"]["cases"], &report.json["figures"]["skipped"]),
            (&json!(1), &json!(1))
        );
        assert!(!checked(&row("def f(): return 4").to_string()).unwrap().passed);
    }
}
