//! Directories as a whole.

use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies a directory with all that is in it; `to` is made, and files there are overwritten.
pub(crate) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (source, target): (PathBuf, PathBuf) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            true => copy(&source, &target)?,
            false => drop(fs::copy(source, target)?),
        }
    }
    Ok(())
}
