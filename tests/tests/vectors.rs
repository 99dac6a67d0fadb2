//! Echo's numbers against the reference data of `$ECHO_VECTORS` or `../shared/data`.
//!
//! Trials are made from what is found there: one for each model directory, one for the tokenizer,
//! one for each precision of the objectives, one for each file about what judges responses. What is
//! not found becomes an ignored trial that says so, never a silent pass.

use echo_lab::conformance;
use echo_lab::conformance::{GSM8K, MODELS, OBJECTIVES, Sources, TOKENIZER, datasets, reports, sandbox};
use echo_lab::output::console::{CommandReport, Console};
use echo_learner::config::EvaluationSet;
use echo_learner::training::evaluation::sets::PreparedSet;
use echo_learner::training::objective::vectors::CheckArithmetic;
use echo_policy::conformance::vectors::VectorReport;
use echo_sandbox::task::Response;
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

/// Checks a file, and tells how far it agrees.
type Check = fn(&Path, &Console) -> anyhow::Result<CommandReport>;

/// Files about what judges responses.
const JUDGED: [(&str, Check); 13] = [
    ("math_verify_dev.jsonl", sandbox::math),
    (GSM8K, sandbox::math),
    ("math500_dev.jsonl", sandbox::math),
    ("checker_vectors_dev.jsonl", sandbox::checkers),
    ("holdem_oracle_dev.jsonl", sandbox::holdem),
    ("holdem_phh_dev.jsonl", sandbox::phh),
    ("humaneval_dev.jsonl", sandbox::functions),
    ("mbpp_dev.jsonl", sandbox::functions),
    ("reports/datasets/list.json", datasets::check),
    ("reports/math_dev.jsonl", reports::check),
    ("reports/programs_dev.json", reports::check),
    ("reports/functions_dev.jsonl", reports::check),
    ("reports/extract_dev.jsonl", reports::check),
];

/// Sets that evaluations are made of, by their task and file.
const SETS: [(&str, &str); 4] = [
    ("math", GSM8K),
    ("math", "math500_dev.jsonl"),
    ("code", "humaneval_dev.jsonl"),
    ("code", "mbpp_dev.jsonl"),
];
/// Share of a set's own solutions that have to be right: some authors write what their answer does not say.
const RIGHT: f64 = 0.95;

fn main() -> ExitCode {
    let trials = match Sources::find() {
        Ok(sources) => models(&sources)
            .into_iter()
            .chain(tokenizer(&sources))
            .chain(objectives(&sources))
            .chain(judged(&sources))
            .chain(sets(&sources))
            .collect(),
        Err(reason) => [MODELS, TOKENIZER, OBJECTIVES]
            .into_iter()
            .chain(JUDGED.map(|(name, _)| name))
            .map(|name| skipped(name, &reason))
            .chain(SETS.map(|(_, file)| skipped(&named(file), &reason)))
            .collect(),
    };
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn models(sources: &Sources) -> Vec<Trial> {
    let found = sources.path(MODELS).and_then(|dir| directories(&dir).map_err(|error| error.to_string()));
    match found {
        Ok(found) if found.is_empty() => vec![skipped(MODELS, &format!("no model directories in {MODELS}"))],
        Ok(found) => found.into_iter().map(|dir| trial(&name_of(&dir), move || one_model(&dir))).collect(),
        Err(reason) => vec![skipped(MODELS, &reason)],
    }
}

fn tokenizer(sources: &Sources) -> Vec<Trial> {
    match sources.path(TOKENIZER) {
        Ok(file) => vec![trial(TOKENIZER, move || conformance::tokenizer(&file, None))],
        Err(reason) => vec![skipped(TOKENIZER, &reason)],
    }
}

fn objectives(sources: &Sources) -> Vec<Trial> {
    let file = match sources.path(OBJECTIVES) {
        Ok(file) => file,
        Err(reason) => return vec![skipped(OBJECTIVES, &reason)],
    };
    let precision = |name: &str, precision| {
        let file = file.clone();
        trial(&format!("{OBJECTIVES} in {name}"), move || conformance::objectives(&file, precision))
    };
    vec![precision("f32", CheckArithmetic::F32), precision("f64", CheckArithmetic::F64)]
}

fn judged(sources: &Sources) -> Vec<Trial> {
    let trial = |(name, check): (&str, Check)| match sources.path(name) {
        Ok(file) => Trial::test(name, move || {
            let report =
                check(&file, &Console::new(true)).map_err(|error| Failed::from(format!("{error:#}")))?;
            if report.passed { Ok(()) } else { Err(format!("{:#}", report.json).into()) }
        }),
        Err(reason) => skipped(name, &reason),
    };
    JUDGED.into_iter().map(trial).collect()
}

/// What the trial of an evaluation set is called.
fn named(file: &str) -> String {
    format!("{file} as an evaluation set")
}

fn sets(sources: &Sources) -> Vec<Trial> {
    let trial = |(task, name): (&'static str, &str)| match sources.path(name) {
        Ok(file) => Trial::test(named(name), move || {
            one_set(task, &file).map_err(|error| Failed::from(format!("{error:#}")))
        }),
        Err(reason) => skipped(&named(name), &reason),
    };
    SETS.into_iter().map(trial).collect()
}

/// Every row is asked once, and its own solution is right.
fn one_set(task: &str, file: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(file)?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
    let options: EvaluationSet = toml::from_str(&format!("name = \"set\"\ntask = \"{task}\""))?;
    let set = PreparedSet::new(options, Some(bytes))?;
    let questions = set.questions();
    anyhow::ensure!(questions.count() == lines, "{} of {lines} rows are asked", questions.count());
    let contents: BTreeSet<_> = (0..lines).map(|row| questions.content(row)).collect();
    anyhow::ensure!(contents.len() == lines, "{} of {lines} rows differ", contents.len());
    let mut wrong = Vec::new();
    for row in 0..lines {
        let assignment = questions.assignment(row);
        let text = assignment.solution();
        if !assignment.reward(&Response { text: &text, finished: true })?.correct {
            wrong.push(row);
        }
    }
    let right = 1.0 - wrong.len() as f64 / lines as f64;
    anyhow::ensure!(
        right >= RIGHT,
        "{right:.3} of its own solutions are right, and not those of rows {wrong:?}"
    );
    Ok(())
}

fn trial(name: &str, check: impl FnOnce() -> anyhow::Result<VectorReport> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let report = check().map_err(|error| Failed::from(format!("{error:#}")))?;
        if report.failed > 0 {
            return Err(format!(
                "{} of {} failed:\n{}",
                report.failed,
                report.cases,
                report.failures.join("\n")
            )
            .into());
        }
        if report.passed == 0 {
            return Err(format!("all of the {} cases were skipped", report.cases).into());
        }
        Ok(())
    })
}

fn skipped(name: &str, reason: &str) -> Trial {
    Trial::test(name, || Ok(())).with_kind(format!("skipped: {reason}")).with_ignored_flag(true)
}

/// Checks a single model: as the only one of a directory of models, which is what can be checked.
fn one_model(dir: &Path) -> anyhow::Result<VectorReport> {
    let parent = tempfile::tempdir()?;
    let copy = parent.path().join(dir.file_name().unwrap_or_default());
    fs::create_dir(&copy)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        fs::copy(entry.path(), copy.join(entry.file_name()))?;
    }
    conformance::models(parent.path())
}

fn directories(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn name_of(dir: &Path) -> String {
    format!("{MODELS}/{}", dir.file_name().unwrap_or_default().to_string_lossy())
}
