//! Compares Echo's numbers with reference data that others made.
//!
//! Every check reads any data of the documented form, so other vectors can be tried without a
//! rebuild. `cargo lab vectors` is its command.
//!
//! May import `harness`, `models` and `output`.
//!
//! ```text
//! sources ($ECHO_VECTORS, ../shared/data) ──► models, tokenizer, objectives ──► VectorReport
//!                                         ──► sandbox (answers, checkers, hands, functions)
//! cases after public reports ──► reports (answers, programs, functions, programs in responses)
//! files of rows ──► datasets: read, or refused in words?
//! checkpoints ──► delta: made, applied, compared byte by byte
//! a founded run ──► export ──► transformers: the same log-probs?
//! a published model ──► smollm2 ──► llama.cpp: the same tokens and log-probs?
//! ```

pub mod datasets;
pub mod delta;
pub mod export;
pub mod reports;
pub mod sandbox;
pub mod smollm2;
mod sources;

pub use sources::{GSM8K, MODELS, OBJECTIVES, SOURCES_VARIABLE, Sources, TOKENIZER};

use crate::output::console::{CommandReport, Console};
use anyhow::ensure;
use echo_learner::training::objective::vectors::{CheckArithmetic, check_file as check_objectives};
use echo_policy::conformance::vectors::VectorReport;
use serde_json::json;
use std::path::Path;

/// Checks every model directory below `dir`: logits, token log-probabilities,
/// entropies, losses, gradient norms.
///
/// # Errors
/// When `dir` cannot be read or holds no model.
pub fn models(dir: &Path) -> anyhow::Result<VectorReport> {
    some_cases(echo_policy::conformance::vectors::models::check_dir(dir)?, dir)
}

/// Checks the encodings and rendered chats of `file` with the tokenizer in `tokenizer`, by
/// default beside the file.
///
/// # Errors
/// When file or tokenizer cannot be read, or the file holds no case.
pub fn tokenizer(file: &Path, tokenizer: Option<&Path>) -> anyhow::Result<VectorReport> {
    some_cases(echo_policy::conformance::vectors::tokenizer::check_file(file, tokenizer)?, file)
}

/// Checks the losses and gradients of `file`, as far as Echo has the objectives.
///
/// # Errors
/// When the file cannot be read, or holds no case.
pub fn objectives(file: &Path, precision: CheckArithmetic) -> anyhow::Result<VectorReport> {
    let found = check_objectives(file, precision)?;
    let share = |(objective, error): (&String, &f64)| error / precision.tolerance(objective);
    let report = VectorReport {
        cases: found.cases as u64,
        passed: found.passed as u64,
        failed: found.failed as u64,
        skipped: found.skipped as u64,
        // That report has errors, by objective; everywhere else `worst` is the share of a tolerance
        // that was used up.
        worst: found.worst_by_objective.iter().map(share).fold(0.0, f64::max).min(f64::MAX),
        failures: found.failures,
    };
    some_cases(report, file)
}

/// Nothing checked must not look like nothing wrong.
fn some_cases(report: VectorReport, path: &Path) -> anyhow::Result<VectorReport> {
    ensure!(report.cases > 0, "{} holds no vectors", path.display());
    Ok(report)
}

/// Tells the outcome to people, and makes the command's report of it.
#[must_use]
pub fn tell(console: &Console, report: &VectorReport) -> CommandReport {
    for failure in &report.failures {
        console.say(format!("  {failure}"));
    }
    let VectorReport { cases, passed, failed, skipped, worst, failures } = report;
    let unshown = (failed + skipped).saturating_sub(failures.len() as u64);
    if *failed > 0 && unshown > 0 {
        console.say(format!("  ... and up to {unshown} more"));
    }
    console.say(format!("cases    {cases}\npassed   {passed}\nfailed   {failed}\nskipped  {skipped}"));
    console.say(format!("worst    {worst:.3} (1 is the limit)"));
    CommandReport { passed: *failed == 0, json: json!(report) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_fail_the_command_and_the_object_has_its_keys() {
        let mut report = VectorReport::default();
        report.pass();
        report.skip();
        assert!(tell(&Console::new(true), &report).passed);
        report.fail("line 7: wrong");
        let reported = tell(&Console::new(true), &report);
        assert!(!reported.passed);
        for (key, value) in [("cases", 3), ("passed", 1), ("failed", 1), ("skipped", 1)] {
            assert_eq!(reported.json[key], value, "{key}");
        }
        assert!(reported.json["worst"].is_number());
    }

    #[test]
    fn what_cannot_be_read_or_is_empty_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        assert!(models(&missing).is_err());
        assert!(tokenizer(&missing, None).is_err());
        assert!(objectives(&missing, CheckArithmetic::F64).is_err());
        assert!(models(dir.path()).is_err(), "an empty directory");
        std::fs::write(&missing, "").unwrap();
        assert!(objectives(&missing, CheckArithmetic::F64).unwrap_err().to_string().contains("no vectors"));
    }
}
