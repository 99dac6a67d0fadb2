//! Recorded cases for what judges responses: mathematical answers, testlib's checkers, hold'em
//! hands, functions with their checks.

use super::some_cases;
use crate::harness::statistics::median;
use crate::output::console::{CommandReport, Console};
use anyhow::bail;
use echo_policy::conformance::vectors::VectorReport;
use echo_sandbox::conformance::{VectorAgreement, check_lines};
use echo_sandbox::isolation::{Requirements, Sandbox};
use echo_sandbox::programs::Judge;
use echo_sandbox::programs::checkers;
use echo_sandbox::programs::vectors::{FunctionReport, check_functions};
use echo_sandbox::tasks::{holdem, math};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The least share of mathematical answers to be judged as the reference judges them.
const MIN_MATH_AGREEMENT: f64 = 0.95;
/// What a mathematical answer may take in the median, in milliseconds.
const MAX_MATH_MEDIAN_MS: f64 = 1.0;
/// What the one that takes longest may take, in milliseconds.
const MAX_MATH_WORST_MS: f64 = 100.0;

/// Judges the answers of `file`: whether the prediction equals the gold, which at least
/// [`MIN_MATH_AGREEMENT`] have to say as the reference does. How long a case takes is
/// reported, and not judged.
///
/// # Errors
/// When the file cannot be read, or holds no case.
pub fn math(file: &Path, console: &Console) -> anyhow::Result<CommandReport> {
    Ok(timed_math(file, console)?.0)
}

/// The same, and every case has to be quick: at most [`MAX_MATH_MEDIAN_MS`] in the median and
/// [`MAX_MATH_WORST_MS`] at worst. For a machine that does nothing else meanwhile.
///
/// # Errors
/// When the file cannot be read, or holds no case.
pub fn quick_math(file: &Path, console: &Console) -> anyhow::Result<CommandReport> {
    let (mut report, quick) = timed_math(file, console)?;
    if !quick {
        console.say(format!(
            "which is too slow: at most {MAX_MATH_MEDIAN_MS} ms in the median, {MAX_MATH_WORST_MS} ms at worst"
        ));
    }
    report.passed &= quick;
    report.json["quick"] = json!(quick);
    Ok(report)
}

/// The report, and whether every case was quick.
fn timed_math(file: &Path, console: &Console) -> anyhow::Result<(CommandReport, bool)> {
    let mut times = Vec::new();
    let found = check_lines(file, |line| {
        let since = Instant::now();
        let case = math::vectors::check(line);
        times.push(since.elapsed().as_secs_f64() * 1e3);
        case
    })?;
    let mut report = tell(found, file, MIN_MATH_AGREEMENT, console)?;
    let worst = times.iter().copied().fold(0.0, f64::max);
    let median = median(times);
    console.say(format!("a case takes {median:.3} ms in the median, {worst:.1} ms at worst"));
    report.json["median_ms"] = json!(median);
    report.json["worst_ms"] = json!(worst);
    Ok((report, median <= MAX_MATH_MEDIAN_MS && worst <= MAX_MATH_WORST_MS))
}

/// Judges every line of `file` with the checker that it names; verdict and exit code have to be testlib's.
///
/// # Errors
/// When the file cannot be read, or holds no case.
pub fn checkers(file: &Path, console: &Console) -> anyhow::Result<CommandReport> {
    let found = checkers::vectors::check_file(file)?;
    for message in &found.message_disagreements {
        console.say(format!("  another message: {message}"));
    }
    console.say(format!("messages {} of {}", found.messages_agreed, found.verdicts.agreed));
    let mut report = tell(found.verdicts, file, 1.0, console)?;
    report.json["messages_agreed"] = json!(found.messages_agreed);
    Ok(report)
}

/// Plays every hand of `file` again: legal actions and stacks before each decision, and final stacks.
///
/// # Errors
/// When the file cannot be read, or holds no hand.
pub fn holdem(file: &Path, console: &Console) -> anyhow::Result<CommandReport> {
    tell(holdem::vectors::check_oracle(file)?, file, 1.0, console)
}

/// Plays every recorded hand of `file` again: each action has to be legal, and final
/// stacks the recorded ones.
///
/// # Errors
/// When the file cannot be read, or holds no hand.
pub fn phh(file: &Path, console: &Console) -> anyhow::Result<CommandReport> {
    tell(holdem::vectors::check_phh(file)?, file, 1.0, console)
}

/// Judges the functions of `file` (HumanEval, MBPP): every reference has to be accepted, and no
/// wrong version of one that its checks can tell from it. Programs are isolated.
///
/// # Errors
/// When the file cannot be read, holds no task, or this machine cannot isolate programs.
pub fn functions(file: &Path, console: &Console) -> anyhow::Result<CommandReport> {
    let sandbox = Arc::new(Sandbox::open(&Requirements::default())?);
    let judge = Arc::new(Judge::new(sandbox));
    let since = Instant::now();
    let found = check_functions(&judge, file)?;
    let seconds = since.elapsed().as_secs_f64();
    let FunctionReport { tasks, accepted, refused, skipped, mutants, killed, survivors, wrong } = &found;
    let judged = tasks - skipped.len() + mutants;
    console.say(format!("{accepted} of {tasks} references accepted, {} skipped", skipped.len()));
    for finding in skipped {
        console.say(format!("  {}: {}", finding.task, finding.reason));
    }
    console.say(format!(
        "{mutants} mutants: {killed} not accepted, {} no check can tell from the reference",
        survivors.len()
    ));
    console.say(format!("{judged} programs in {seconds:.1} s"));
    let disagreements = refused.iter().chain(wrong).map(|finding| {
        let change = finding.change.as_deref().unwrap_or("the reference");
        format!("{}, {change}: {}", finding.task, finding.reason)
    });
    let agreement = VectorAgreement {
        cases: judged as u64,
        agreed: (accepted + killed + survivors.len()) as u64,
        disagreements: disagreements.collect(),
    };
    let mut report = tell(agreement, file, 1.0, console)?;
    report.passed &= wrong.is_empty();
    report.json["functions"] = json!(found);
    report.json["seconds"] = json!(seconds);
    Ok(report)
}

/// What is wrong with every line alike, where no line agrees.
fn alike(agreement: &VectorAgreement) -> Option<&str> {
    let mut reasons = agreement
        .disagreements
        .iter()
        .map(|disagreement| Some(disagreement.strip_prefix("line ")?.split_once(": ")?.1));
    let first = reasons.next()?.filter(|_| agreement.agreed == 0 && agreement.cases > 1)?;
    reasons.all(|reason| reason == Some(first)).then_some(first)
}

/// Tells how far a file agrees; at least `wanted` of its cases have to.
pub(super) fn tell(
    agreement: VectorAgreement,
    file: &Path,
    wanted: f64,
    console: &Console,
) -> anyhow::Result<CommandReport> {
    if let Some(alike) = alike(&agreement) {
        bail!("no line of {} agrees, and each says: {alike}; is it a file of another kind?", file.display());
    }
    let VectorAgreement { cases, agreed, disagreements } = agreement;
    let failed = cases - agreed;
    let report =
        VectorReport { cases, passed: agreed, failed, failures: disagreements, ..VectorReport::default() };
    let report = some_cases(report, file)?;
    let share = agreed as f64 / cases as f64;
    let mut reported = super::tell(console, &report);
    console.say(format!("agreement {:.2} % (at least {:.0} %)", 100.0 * share, 100.0 * wanted));
    reported.passed = share >= wanted;
    reported.json["agreement"] = json!(share);
    Ok(reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_agreement_passes_and_less_does_not() {
        let agreement = |agreed| VectorAgreement { cases: 20, agreed, disagreements: vec!["x".into()] };
        let reported =
            |agreed, wanted| tell(agreement(agreed), Path::new("f"), wanted, &Console::new(true)).unwrap();
        assert!(reported(19, 0.95).passed && !reported(18, 0.95).passed && !reported(19, 1.0).passed);
        assert_eq!(reported(19, 0.95).json["agreement"], 0.95);
        assert!(tell(VectorAgreement::default(), Path::new("f"), 1.0, &Console::new(true)).is_err());
    }

    #[test]
    fn a_file_of_another_kind_is_told_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let hands = |name: &str, rows: &str| {
            let file = dir.path().join(name);
            std::fs::write(&file, rows).unwrap();
            holdem(&file, &Console::new(true))
        };
        let refused = hands("problems", "{\"question\": \"2?\"}\n{\"question\": \"3?\"}\n").unwrap_err();
        assert!(refused.to_string().contains("of another kind"), "{refused}");
        assert!(
            !hands("mixed", "{\"question\": \"2?\"}\n[]\n").unwrap().passed,
            "lines differ in what is wrong"
        );
    }

    #[test]
    fn only_the_command_judges_by_the_clock() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"gold": "$5$", "pred": "$5$", "expected": true}"#).unwrap();
        let console = Console::new(true);
        let judged = math(file.path(), &console).unwrap();
        assert!(judged.passed && judged.json["quick"].is_null() && judged.json["median_ms"].is_number());
        let timed = quick_math(file.path(), &console).unwrap();
        assert_eq!(timed.json["quick"], timed.passed);
    }
}
