//! Small files that are replaced as a whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// Puts `bytes` at `path`: a draft beside it, with the extension `draft`, is written and then renamed.
/// `durable` waits for the disk. Without it a power loss may leave an empty file.
///
/// Of two writers of one file at the same time, one may get an error: they share the draft.
///
/// # Errors
/// What the system says when the draft cannot be written, synced or renamed. What stood at `path` is
/// still there then.
pub fn replace(path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    if durable {
        file.sync_all()?;
    }
    drop(file);
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        replace(&path, b"first, and longer", true).unwrap();
        replace(&path, b"second", false).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_there_outlives_a_draft_that_cannot_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        replace(&path, b"first", true).unwrap();
        fs::create_dir(path.with_extension("draft")).unwrap();
        assert!(replace(&path, b"second", true).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"first");
    }
}
