//! Reading the JSON objects that a process prints.

use serde_json::Value;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

/// Most bytes of a log taken in at one look.
const MAX_LOOK: u64 = 4 << 20;

/// The JSON objects among the lines that a process adds to its log.
#[derive(Debug)]
pub(crate) struct JsonLines {
    path: PathBuf,
    read: u64,
    rest: Vec<u8>,
}

impl JsonLines {
    /// Reads the log at `path`, which need not exist yet, from its beginning.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, read: 0, rest: Vec::new() }
    }

    /// The objects that were added since the last look.
    pub(crate) fn look(&mut self) -> Vec<Value> {
        let mut new = Vec::new();
        if let Ok(mut file) = File::open(&self.path)
            && file.seek(SeekFrom::Start(self.read)).is_ok()
            && file.take(MAX_LOOK).read_to_end(&mut new).is_ok()
        {
            self.read += new.len() as u64;
            self.rest.append(&mut new);
        }
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        let lines = whole.split(|byte| *byte == b'\n').filter(|line| line.first() == Some(&b'{'));
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn objects_are_read_once_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut lines = JsonLines::new(path.clone());
        assert!(lines.look().is_empty());
        let mut file = File::create(path).unwrap();
        write!(file, "words\n{{\"a\": 1}}\n{{\"b\"").unwrap();
        assert_eq!(lines.look(), [serde_json::json!({"a": 1})]);
        writeln!(file, ": 2}}\n{{ no json").unwrap();
        assert_eq!(lines.look(), [serde_json::json!({"b": 2})]);
    }
}
