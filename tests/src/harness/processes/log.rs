//! The log file of a process.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Lines of a log that an error quotes.
pub const LOG_TAIL_LINES: usize = 20;
/// Bytes of a log that are looked at for its last lines.
const LOG_TAIL_BYTES: u64 = 64 << 10;

/// Two handles to the end of the log: a process that is started again adds to what it wrote before.
pub(super) fn open(path: &Path) -> io::Result<(File, File)> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let file = File::options().create(true).append(true).open(path)?;
    Ok((file.try_clone()?, file))
}

/// The last lines of a log, or why it cannot be read.
pub(super) fn tail(path: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
        let mut lines = VecDeque::new();
        for line in BufReader::new(file.take(LOG_TAIL_BYTES)).split(b'\n') {
            lines.push_back(String::from_utf8_lossy(&line?).into_owned());
            if lines.len() > LOG_TAIL_LINES {
                lines.pop_front();
            }
        }
        Ok(Vec::from(lines).join("\n"))
    };
    read().unwrap_or_else(|error| format!("({}: {error})", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_short_whatever_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let text: String = (0..100_000).map(|i| format!("line {i}\n")).collect();
        fs::write(&path, text).unwrap();
        let lines = tail(&path);
        assert_eq!(lines.lines().count(), LOG_TAIL_LINES);
        assert_eq!(lines.lines().last(), Some("line 99999"));
        fs::write(&path, [0xff; 9]).unwrap();
        assert!(!tail(&path).is_empty());
        assert!(tail(&dir.path().join("none")).contains("none"));
    }
}
