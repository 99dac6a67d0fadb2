//! Files that scripts and other processes read while we write them.
//!
//! `echo_protocol::program::atomic_file` is for directories of our own. Beside these files may lie what an
//! operator has written, also under the name `….draft`: so the draft has a name that nobody has.

use std::io::{self, Write};
use std::path::Path;

/// Puts `text` at `path` so that a reader sees the old content or the new, never a part, even across a crash.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; these are for everybody.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let mut draft = builder.tempfile_in(dir)?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().sync_all()?;
    draft.persist(path).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_whole_files_and_leaves_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/list");
        replace(&path, "first, and longer").unwrap();
        replace(&path, "second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
