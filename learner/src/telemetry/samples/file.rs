//! The file: rows appended, taken back when updates are made again, and bounded.
//!
//! `samples.jsonl` becomes `samples.1.jsonl` when it is full, in the place of the one before. Both
//! together have the newest samples, at most twice [`MAX_FILE_BYTES`].

use super::Sample;
use crate::storage::run_dir::RunDir;
use crate::telemetry::metrics::{each_line, each_row, is_at};
use echo_protocol::run::version::PolicyVersion;
use serde::Deserialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// Longest file: at two groups of 8 responses of 2 KB an update, some 2,000 updates.
pub(super) const MAX_FILE_BYTES: u64 = 64 << 20;

/// What a row is of.
#[derive(Deserialize)]
struct Key {
    update: Option<u64>,
    evaluated: Option<u64>,
}

/// The open file.
pub(super) struct SampleFile {
    dir: RunDir,
    file: Option<File>,
    most_bytes: u64,
    /// Whether the last line may be half written.
    torn: bool,
    /// Whether it was said that it cannot be written.
    failing: bool,
}

impl SampleFile {
    /// Goes on with the samples of a run that stands at `version`, without those of later updates.
    pub(super) fn open(dir: &RunDir, version: PolicyVersion) -> Self {
        let mut file =
            Self { dir: dir.clone(), file: None, most_bytes: MAX_FILE_BYTES, torn: false, failing: false };
        for path in [dir.samples_before(), dir.samples()] {
            if let Err(error) = take_back(&path, version) {
                file.fail(&error);
            }
        }
        file
    }

    /// Appends samples. A file that cannot be written costs them, and nothing else; it is tried again
    /// with the next.
    pub(super) fn append(&mut self, samples: &[Sample]) {
        for sample in samples {
            match self.write(sample) {
                Ok(()) if self.failing => {
                    self.failing = false;
                    tracing::info!("{} can be written again", self.dir.samples().display());
                }
                Ok(()) => {}
                Err(error) => self.fail(&error),
            }
        }
    }

    fn write(&mut self, sample: &Sample) -> io::Result<()> {
        let path = self.dir.samples();
        let mut line = Vec::new();
        if self.torn {
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, sample)?;
        line.push(b'\n');
        let open = self.file.take().filter(|file| is_at(file, &path));
        let mut file = match open {
            Some(file) => file,
            None => append(&path)?,
        };
        let length = file.metadata()?.len();
        if length > 0 && length + line.len() as u64 > self.most_bytes {
            drop(file);
            fs::rename(&path, self.dir.samples_before())?;
            file = append(&path)?;
        }
        self.torn = true;
        file.write_all(&line)?;
        (self.torn, self.file) = (false, Some(file));
        Ok(())
    }

    fn fail(&mut self, error: &io::Error) {
        let path = self.dir.samples();
        let path = path.display();
        if std::mem::replace(&mut self.failing, true) {
            tracing::debug!(%error, "{path}");
        } else {
            tracing::warn!(
                %error,
                "{path} cannot be written: training goes on, and what the policy writes is not recorded until it can be"
            );
        }
    }

    #[cfg(test)]
    pub(super) fn of_at_most(self, most_bytes: u64) -> Self {
        Self { most_bytes, ..self }
    }
}

/// Shows `each` the samples of a run, oldest first. Lines that are none are left out.
///
/// # Errors
/// When a file cannot be read.
pub fn each_sample(dir: &RunDir, mut each: impl FnMut(Sample)) -> io::Result<()> {
    each_row(&dir.samples_before(), &mut each)?;
    each_row(&dir.samples(), &mut each)
}

/// Takes the rows of updates beyond `version` out of a file, and what a crash tore.
fn take_back(path: &Path, version: PolicyVersion) -> io::Result<()> {
    let draft: PathBuf = path.with_extension("draft");
    let mut kept = BufWriter::new(File::create(&draft)?);
    let mut damaged = false;
    each_line(path, |line| {
        let key = serde_json::from_slice::<Key>(line).ok();
        let of = key.and_then(|key| key.update.or(key.evaluated));
        if of.is_some_and(|of| of <= version.0) {
            kept.write_all(line)?;
            return kept.write_all(b"\n");
        }
        damaged = true;
        Ok(())
    })?;
    drop(kept.into_inner().map_err(io::IntoInnerError::into_error)?);
    // A whole last line without its end is also mended.
    if damaged || fs::metadata(&draft)?.len() != fs::metadata(path).map_or(0, |there| there.len()) {
        fs::rename(&draft, path)
    } else {
        fs::remove_file(&draft)
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}
