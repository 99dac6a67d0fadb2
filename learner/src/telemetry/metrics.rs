//! `metrics.jsonl`: one JSON object a line, one line per update, evaluation and publication. What
//! its keys mean stands in [`catalog`](crate::telemetry::exporters::catalog).
//!
//! Rows are keyed by their version. A learner that resumes from an earlier checkpoint takes back
//! the rows of the updates that it will make again, so that the file always tells one history.

mod rows;

use crate::publishing::snapshots::PublicationRow;
use crate::training::evaluation::EvaluationRow;
use echo_protocol::run::version::PolicyVersion;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

pub use rows::{UpdateRow, WeightRow};

/// Updates of a [`History`].
pub const RECENT_UPDATES: usize = 50;

/// The open `metrics.jsonl`, to which rows are appended.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    file: File,
}

/// What a learner that goes on with a run needs of its record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The newest [`RECENT_UPDATES`] updates, oldest first.
    pub updates: Vec<UpdateRow>,
    /// All evaluations, oldest first.
    pub evaluations: Vec<EvaluationRow>,
    /// All publications, oldest first.
    pub publications: Vec<PublicationRow>,
}

/// A record that has been read, and lies beside the file as it will be gone on with.
#[derive(Debug)]
pub struct MetricsDraft {
    path: PathBuf,
}

/// What a row is of.
#[derive(Debug, Deserialize)]
struct Key {
    update: Option<u64>,
    evaluated: Option<u64>,
    published: Option<u64>,
}

impl Metrics {
    /// Opens the file for appending, without the rows of updates beyond `version` and without
    /// a torn last line.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn open(path: &Path, version: PolicyVersion) -> io::Result<Self> {
        Self::read(path, version, |_| ())?.0.commit()
    }

    /// Reads the file once, line by line. `each` is shown the rows that stay when `version` is gone
    /// on from; the draft has them, and the file is as it was until that is committed. What the
    /// history tells goes beyond `version`.
    ///
    /// # Errors
    /// When it cannot be read, or the draft cannot be written.
    pub fn read(
        path: &Path,
        version: PolicyVersion,
        mut each: impl FnMut(&Value),
    ) -> io::Result<(MetricsDraft, History)> {
        let draft = MetricsDraft { path: path.to_owned() };
        let mut kept = BufWriter::new(File::create(draft.draft()).map_err(at(&draft.draft()))?);
        let (mut history, mut updates, mut damaged) = (History::default(), VecDeque::new(), 0_u64);
        each_line(path, |line| {
            let Ok(key) = serde_json::from_slice::<Key>(line) else {
                damaged += 1;
                return Ok(());
            };
            history.evaluations.extend(key.evaluated.and_then(|_| parse::<EvaluationRow>(line)));
            history.publications.extend(key.published.and_then(|_| parse::<PublicationRow>(line)));
            if key.update.is_some() {
                updates.push_back(line.to_vec());
                if updates.len() > RECENT_UPDATES {
                    updates.pop_front();
                }
            }
            if let Some(row) = parse(line).filter(|_| key.is_kept(version)) {
                kept.write_all(line).and_then(|()| kept.write_all(b"\n")).map_err(at(&draft.draft()))?;
                each(&row);
            }
            Ok(())
        })?;
        let kept = kept.into_inner().map_err(|error| at(&draft.draft())(error.into_error()))?;
        kept.sync_all().map_err(at(&draft.draft()))?;
        if damaged > 0 {
            tracing::warn!("{}: {damaged} damaged lines are left out", path.display());
        }
        history.updates = updates.iter().filter_map(|line| parse(line)).collect();
        Ok((draft, history))
    }

    /// Appends one row. Says whether the file had to be made anew, as somebody removed it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, row: &impl Serialize) -> io::Result<bool> {
        let mut line = serde_json::to_string(row)?;
        line.push('\n');
        let gone = !is_at(&self.file, &self.path);
        if gone {
            self.file = append(&self.path)?;
        }
        self.file.write_all(line.as_bytes()).map_err(at(&self.path))?;
        Ok(gone)
    }
}

impl MetricsDraft {
    /// Puts it in the place of the file.
    ///
    /// # Errors
    /// When the file cannot be replaced.
    pub fn commit(self) -> io::Result<Metrics> {
        fs::rename(self.draft(), &self.path).map_err(at(&self.path))?;
        Ok(Metrics { file: append(&self.path)?, path: self.path })
    }

    fn draft(&self) -> PathBuf {
        self.path.with_extension("draft")
    }
}

impl Key {
    fn is_kept(&self, version: PolicyVersion) -> bool {
        let made = self.update.or(self.evaluated).is_some_and(|at| at <= version.0);
        // A resumed learner publishes its own version again.
        made || self.published.is_some_and(|at| at < version.0)
    }
}

/// Whether `file` is what lies at `path`, and was not removed or replaced since it was opened.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let Ok(there) = fs::metadata(path) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        there.is_file()
    }
}

/// All rows on record as they stand there, oldest first.
///
/// # Errors
/// When the file cannot be read.
pub fn rows(path: &Path) -> io::Result<Vec<Value>> {
    parsed(path)
}

/// All evaluations on record, oldest first.
///
/// # Errors
/// When the file cannot be read.
pub fn evaluations(path: &Path) -> io::Result<Vec<EvaluationRow>> {
    parsed(path)
}

/// All publications on record, oldest first.
///
/// # Errors
/// When the file cannot be read.
pub fn publications(path: &Path) -> io::Result<Vec<PublicationRow>> {
    parsed(path)
}

/// All updates on record, oldest first.
///
/// # Errors
/// When the file cannot be read.
pub fn updates(path: &Path) -> io::Result<Vec<UpdateRow>> {
    parsed(path)
}

/// The furthest version that a file of metrics knows of: one that was made or published.
/// `None` without a row.
///
/// # Errors
/// When it cannot be read.
pub fn reached(path: &Path) -> io::Result<Option<PolicyVersion>> {
    let mut reached = None;
    each_line(path, |line| {
        let key = serde_json::from_slice::<Key>(line).ok();
        reached = reached.max(key.and_then(|key| key.update.max(key.published)));
        Ok(())
    })?;
    Ok(reached.map(PolicyVersion))
}

/// Shows `each` the rows of a file one after the other, of which only one is in memory.
/// Fails when the file cannot be read.
pub(crate) fn each_row<T: DeserializeOwned>(path: &Path, mut each: impl FnMut(T)) -> io::Result<()> {
    each_line(path, |line| {
        parse(line).into_iter().for_each(&mut each);
        Ok(())
    })
}

fn parsed<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    let mut rows = Vec::new();
    each_row(path, |row| rows.push(row))?;
    Ok(rows)
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    serde_json::from_slice(line).ok()
}

/// Reads the lines of a file, which need not be text; none where no file is.
pub(super) fn each_line(path: &Path, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(path)(error)),
    };
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line).map_err(at(path))? > 0 {
        each(line.trim_ascii_end())?;
        line.clear();
    }
    Ok(())
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path).map_err(at(path))
}

/// An error that names its file.
fn at(path: &Path) -> impl FnOnce(io::Error) -> io::Error + use<> {
    let path = path.display().to_string();
    move |error| io::Error::new(error.kind(), format!("{path}: {error}"))
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
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"update\":6,").unwrap();
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
        fs::write(&path, format!("{row}\n")).unwrap();
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

    #[test]
    fn lines_that_are_no_rows_are_left_out_whatever_their_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut bytes = b"{\"update\":1".to_vec();
        bytes.extend(serde_json::to_vec(&UpdateRow { update: 1, ..Default::default() }).unwrap());
        bytes.extend(b"\n\xff\xfe\x80 another file's block\n7\n");
        bytes.extend(serde_json::to_vec(&UpdateRow { update: 2, ..Default::default() }).unwrap());
        bytes.extend(b"\n\xc3\x28");
        fs::write(&path, bytes).unwrap();
        let numbers = || updates(&path).unwrap().iter().map(|row| row.update).collect::<Vec<_>>();
        assert_eq!(numbers(), [2]);
        assert_eq!(reached(&path).unwrap(), Some(PolicyVersion(2)));
        let mut metrics = Metrics::open(&path, PolicyVersion(2)).unwrap();
        metrics.write(&UpdateRow { update: 3, ..Default::default() }).unwrap();
        assert_eq!(numbers(), [2, 3]);
        assert!(std::str::from_utf8(&fs::read(&path).unwrap()).is_ok(), "the record is whole again");
    }

    #[test]
    fn a_long_record_is_read_once_and_remembered_by_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut file = BufWriter::new(File::create(&path).unwrap());
        for update in 1..=300 {
            serde_json::to_writer(&mut file, &UpdateRow { update, ..Default::default() }).unwrap();
            let row = PublicationRow { published: update, ..Default::default() };
            writeln!(file, "\n{}", serde_json::to_string(&row).unwrap()).unwrap();
        }
        drop(file);
        let before = fs::read(&path).unwrap();
        let mut shown = 0;
        let (draft, history) = Metrics::read(&path, PolicyVersion(200), |_| shown += 1).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before, "nothing is taken back before it is committed");
        assert_eq!(shown, 200 + 199);
        let updates: Vec<u64> = history.updates.iter().map(|row| row.update).collect();
        assert_eq!(updates, (251..=300).collect::<Vec<u64>>());
        assert_eq!(history.publications.len(), 300);
        drop(draft.commit().unwrap());
        assert_eq!(reached(&path).unwrap(), Some(PolicyVersion(200)));
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut metrics = Metrics::open(&path, PolicyVersion(0)).unwrap();
        let mut write = |update| metrics.write(&UpdateRow { update, ..Default::default() }).unwrap();
        assert!(!write(1) && !write(2));
        fs::remove_file(&path).unwrap();
        assert!(write(3) && !write(4));
        let numbers = || updates(&path).unwrap().iter().map(|row| row.update).collect::<Vec<_>>();
        assert_eq!(numbers(), [3, 4]);
        fs::rename(&path, dir.path().join("metrics.jsonl.1")).unwrap();
        fs::write(&path, "").unwrap();
        // Elsewhere than on Unix, files that are open cannot be replaced.
        assert_eq!(write(5), cfg!(unix));
        assert_eq!(numbers(), [5]);
    }

    #[test]
    fn an_error_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let error = updates(dir.path()).unwrap_err().to_string();
        assert!(error.contains(dir.path().to_str().unwrap()), "{error}");
    }
}
