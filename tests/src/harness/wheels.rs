//! Packages from PyPI, kept in the user's cache.

use crate::harness::processes::{Process, ProcessOutput};
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

/// The user's cache: `$XDG_CACHE_HOME`, or `.cache` at home; `None` without either.
pub(crate) fn cache() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
}

/// Installs packages beside `place`, and moves them there when they are whole. `file` of theirs
/// tells that they are there. Fails when pip is missing or fails, or takes longer than `limit`.
pub(crate) async fn install(
    packages: &[&str],
    place: &Path,
    file: &str,
    limit: Duration,
) -> anyhow::Result<()> {
    let parent = place.parent().context("the cache is a directory")?;
    fs::create_dir_all(parent)?;
    let beside = tempfile::tempdir_in(parent)?;
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
    command.arg(beside.path()).args(packages);
    let status = Process::start("pip", command, ProcessOutput::Inherit)?.wait(limit).await?;
    if !status.success() {
        bail!("`python3 -m pip install {}` failed ({status})", packages.join(" "));
    }
    // Somebody else may have been faster.
    if !place.join(file).is_file() {
        fs::rename(beside.keep(), place)?;
    }
    Ok(())
}
