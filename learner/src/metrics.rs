//! `metrics.jsonl`: one JSON object a line, one line per update, evaluation and publication. What its keys mean stands in
//! [`catalog`](crate::watch::catalog).
//!
//! Rows are keyed by their version. A learner that resumes from an earlier checkpoint takes back the rows of the updates that it will
//! make again, so that the file always tells one history.

mod rows;

use echo_protocol::version::PolicyVersion;
use serde::Serialize;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

pub use rows::{EvaluationRow, PublicationRow, UpdateRow, WeightRow};

/// The open file.
#[derive(Debug)]
pub struct Metrics {
    file: File,
}

impl Metrics {
    /// Opens the file for appending, without the rows of updates beyond `version` and without a torn last line.
    pub fn open(path: &Path, version: PolicyVersion) -> io::Result<Self> {
        let kept: Vec<String> = read_lines(path)?.into_iter().filter(|line| is_kept(line, version)).collect();
        let draft = path.with_extension("draft");
        let mut file = File::create(&draft)?;
        kept.iter().try_for_each(|line| writeln!(file, "{line}"))?;
        file.sync_all()?;
        std::fs::rename(&draft, path)?;
        Ok(Self { file: OpenOptions::new().append(true).open(path)? })
    }

    /// Appends one row.
    pub fn write(&mut self, row: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_string(row)?;
        line.push('\n');
        self.file.write_all(line.as_bytes())
    }
}

/// All rows on record as they stand there, oldest first.
pub fn rows(path: &Path) -> io::Result<Vec<Value>> {
    Ok(read_lines(path)?.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// All evaluations on record, oldest first.
pub fn evaluations(path: &Path) -> io::Result<Vec<EvaluationRow>> {
    Ok(read_lines(path)?.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// All publications on record, oldest first.
pub fn publications(path: &Path) -> io::Result<Vec<PublicationRow>> {
    Ok(read_lines(path)?.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// All updates on record, oldest first.
pub fn updates(path: &Path) -> io::Result<Vec<UpdateRow>> {
    Ok(read_lines(path)?.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The furthest version that a file of metrics knows of: one that was made or published. `None` without a row.
///
/// # Errors
/// When it cannot be read.
pub fn reached(path: &Path) -> io::Result<Option<PolicyVersion>> {
    let made = updates(path)?.into_iter().map(|row| row.update);
    let published = publications(path)?.into_iter().map(|row| row.published);
    Ok(made.chain(published).max().map(PolicyVersion))
}

fn read_lines(path: &Path) -> io::Result<Vec<String>> {
    match File::open(path) {
        Ok(file) => BufReader::new(file).lines().collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

fn is_kept(line: &str, version: PolicyVersion) -> bool {
    let row: Option<Value> = serde_json::from_str(line).ok();
    let key = |name| row.as_ref().and_then(|row| row.get(name)).and_then(Value::as_u64);
    let made = key("update").or_else(|| key("evaluated")).is_some_and(|at| at <= version.0);
    // A resumed learner publishes its own version again.
    made || key("published").is_some_and(|at| at < version.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_run_tells_one_history() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut metrics = Metrics::open(&path, PolicyVersion(0)).unwrap();
        metrics.write(&EvaluationRow { evaluated: 0, orders: 8, ..Default::default() }).unwrap();
        for update in 1..=5 {
            metrics.write(&UpdateRow { update, ..Default::default() }).unwrap();
        }
        metrics.write(&EvaluationRow { evaluated: 5, ..Default::default() }).unwrap();
        for published in [0, 3] {
            metrics.write(&PublicationRow { published, sparse: 9, ..Default::default() }).unwrap();
        }
        // A crash tore the last line.
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"update\":6,").unwrap();
        let mut metrics = Metrics::open(&path, PolicyVersion(3)).unwrap();
        metrics.write(&UpdateRow { update: 4, reward: 0.5, ..Default::default() }).unwrap();
        let rows: Vec<u64> = updates(&path).unwrap().iter().map(|row| row.update).collect();
        assert_eq!(rows, [1, 2, 3, 4]);
        assert_eq!(evaluations(&path).unwrap().last().unwrap().orders, 8);
        let published: Vec<u64> = publications(&path).unwrap().iter().map(|row| row.published).collect();
        assert_eq!(published, [0]);
        assert_eq!(reached(&path).unwrap(), Some(PolicyVersion(4)));
    }

    #[test]
    fn publications_of_earlier_learners_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut row = serde_json::to_value(PublicationRow { published: 6, ..Default::default() }).unwrap();
        row.as_object_mut().unwrap().remove("release_s").expect("a row has it");
        std::fs::write(&path, format!("{row}\n")).unwrap();
        assert_eq!(publications(&path).unwrap(), [PublicationRow { published: 6, ..Default::default() }]);
        assert_eq!(reached(&path).unwrap(), Some(PolicyVersion(6)));
    }

    #[test]
    fn no_file_is_an_empty_history() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(updates(&dir.path().join("none")).unwrap(), []);
        assert_eq!(evaluations(&dir.path().join("none")).unwrap(), []);
        assert_eq!(reached(&dir.path().join("none")).unwrap(), None);
    }
}
