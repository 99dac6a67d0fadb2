//! Accuracy of a policy on rows that it was not trained on: `echo-learner evaluate`.

use super::problems::ProblemFiles;
use super::run_file::{MAX_NEW_TOKENS, TEMPERATURE};
use crate::harness::processes::last_line;
use anyhow::Context as _;
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Responses to each row.
pub(super) const SAMPLES: u32 = 4;

/// avg@4 of one set, with its 95 % interval: part of what `echo-learner evaluate --json` prints last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Average {
    pub(super) avg: f64,
    #[serde(rename = "avg_low")]
    pub(super) low: f64,
    #[serde(rename = "avg_high")]
    pub(super) high: f64,
}

/// What a policy reaches on both sets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct HeldOut {
    pub(super) sums: Average,
    pub(super) words: Average,
}

impl Average {
    /// Whether it is above another one by so much, and the intervals do not touch.
    pub(super) fn is_above(&self, other: &Self, by: f64) -> bool {
        self.avg - other.avg >= by && self.low > other.high
    }
}

/// Evaluates a Hugging Face directory on both sets. What each row came to goes to `results`, a directory.
/// Fails when the learner cannot be started, or cannot evaluate.
pub(super) fn both(
    learner: &Path,
    model: &Path,
    files: &ProblemFiles,
    results: &Path,
) -> anyhow::Result<HeldOut> {
    fs::create_dir_all(results).with_context(|| format!("cannot make {}", results.display()))?;
    let one = |rows: &Path, name: &str| one(learner, model, rows, &results.join(name));
    Ok(HeldOut { sums: one(&files.sums, "sums.jsonl")?, words: one(&files.words, "words.jsonl")? })
}

/// At the run's sampling settings, which cut no token off.
fn one(learner: &Path, model: &Path, rows: &Path, results: &Path) -> anyhow::Result<Average> {
    let mut command = Command::new(learner);
    command.arg("evaluate").arg(model).arg("--data").arg(rows).arg("--output").arg(results);
    command.args(["--task", "math", "--device", "cpu", "--top-p", "1", "--keep-texts", "--json"]);
    command.args(["--samples", &SAMPLES.to_string(), "--temperature", &TEMPERATURE.to_string()]);
    command.args(["--max-new-tokens", &MAX_NEW_TOKENS.to_string()]);
    last_line(&mut command)
        .with_context(|| format!("cannot evaluate {} on {}", model.display(), rows.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_large_and_beyond_its_intervals() {
        let average = |avg: f64, half: f64| Average { avg, low: avg - half, high: avg + half };
        let before = average(0.1, 0.05);
        assert!(average(0.45, 0.05).is_above(&before, 0.3));
        assert!(!average(0.35, 0.05).is_above(&before, 0.3), "too small");
        assert!(!average(0.45, 0.31).is_above(&before, 0.3), "the intervals touch");
    }

    #[cfg(unix)]
    #[test]
    fn the_last_line_counts_and_a_failure_names_both_files() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let learner = dir.path().join("learner");
        let stand_in = |body: &str| {
            std::fs::write(&learner, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&learner, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        let (model, rows, results) = (Path::new("policy"), Path::new("sums.jsonl"), Path::new("out"));
        let says = r#"{"avg": 0.5, "avg_low": 0.4, "avg_high": 0.6, "pass@4": 0.9, "passed": true}"#;
        stand_in(&format!("[ \"$1 $2\" = \"evaluate policy\" ] && echo first && echo '{says}'"));
        let found = one(&learner, model, rows, results).unwrap();
        assert_eq!(found, Average { avg: 0.5, low: 0.4, high: 0.6 });
        stand_in("exit 2");
        let error = one(&learner, model, rows, results).unwrap_err().to_string();
        assert!(error.contains("policy") && error.contains("sums.jsonl"), "{error}");
    }
}
