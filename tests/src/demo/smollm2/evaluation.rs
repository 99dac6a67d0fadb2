//! Accuracy of a policy on rows that it was not trained on: `echo-learner evaluate`.

use super::problems::ProblemFiles;
use super::run_file::{MAX_NEW_TOKENS, TEMPERATURE};
use crate::harness::processes::last_line;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;

/// Responses to each row.
pub(super) const SAMPLES: u32 = 4;

/// avg@4 of one set, with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Average {
    pub(super) avg: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// What a policy reaches on both sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
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

/// Evaluates a Hugging Face directory on both sets.
/// Fails when the learner cannot be started, or cannot evaluate.
pub(super) fn both(learner: &Path, model: &Path, files: &ProblemFiles) -> anyhow::Result<HeldOut> {
    Ok(HeldOut { sums: one(learner, model, &files.sums)?, words: one(learner, model, &files.words)? })
}

fn one(learner: &Path, model: &Path, rows: &Path) -> anyhow::Result<Average> {
    let mut command = Command::new(learner);
    command.arg("evaluate").arg(model).arg("--data").arg(rows).args(["--task", "math", "--json"]);
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
        let (model, rows) = (Path::new("policy"), Path::new("sums.jsonl"));
        stand_in(
            r#"[ "$1 $2" = "evaluate policy" ] && echo '{"row": 1}' && echo '{"avg": 0.5, "low": 0.4, "high": 0.6, "k": 4}'"#,
        );
        assert_eq!(one(&learner, model, rows).unwrap(), Average { avg: 0.5, low: 0.4, high: 0.6 });
        stand_in("exit 2");
        let error = one(&learner, model, rows).unwrap_err().to_string();
        assert!(error.contains("policy") && error.contains("sums.jsonl"), "{error}");
    }
}
