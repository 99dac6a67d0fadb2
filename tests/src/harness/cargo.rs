//! The cargo that builds and tests this workspace.

use crate::harness::processes::{Process, ProcessOutput};
use crate::output::console::Console;
use anyhow::{Context as _, bail};
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A cold build of everything on a slow machine ends within this time.
pub const BUILD_LIMIT: Duration = Duration::from_secs(3600);

/// Beginnings of the variables in which cargo describes the package that it runs.
const ABOUT_US: [&str; 5] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// The root of the workspace.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let here = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = PathBuf::from(here);
    here.parent().map_or_else(|| here.clone(), Path::to_owned)
}

/// The profile that cargo built this program in, by its folder: `debug` or `release`. `None` where
/// this is a copy that lies elsewhere, or where the workspace is gone.
pub fn own_profile() -> Option<String> {
    let own = env::current_exe().ok()?;
    let beside = own.parent()?;
    let folder = if beside.ends_with("deps") { beside.parent()? } else { beside };
    // Cargo marks the root of its builds so that backups leave them out.
    let is_cargos =
        folder.parent()?.join("CACHEDIR.TAG").is_file() && workspace_root().join("Cargo.toml").is_file();
    is_cargos.then(|| folder.file_name()?.to_str().map(str::to_owned))?
}

/// A call of cargo at the root of the workspace: the cargo that runs us, or else the one on the path.
pub fn command(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace_root()).args(words);
    // What cargo told us about our own package does not hold for the builds that we ask for; build
    // scripts that read it (ring's does) would run again, and half of the dependencies be compiled
    // again, at every turn between the outer and the inner build.
    let ours = |name: &OsStr| {
        name.to_str().is_some_and(|name| ABOUT_US.iter().any(|prefix| name.starts_with(prefix)))
    };
    env::vars_os().map(|(name, _)| name).filter(|name| ours(name)).for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// Builds every binary of the workspace.
///
/// # Errors
/// When cargo cannot be started or the build fails; what the compiler says is on the standard error by then.
pub async fn build_binaries(console: &Console) -> anyhow::Result<()> {
    let mut words = vec!["build", "--workspace", "--bins"];
    if own_profile().is_some_and(|profile| profile == "release") {
        words.push("--release");
    }
    build("all binaries", &words, console).await
}

/// Builds every test of the workspace, without running any.
///
/// # Errors
/// As for [`build_binaries`]: no cargo, or a failed build.
pub async fn build_tests(console: &Console) -> anyhow::Result<()> {
    build("all tests", &["test", "--workspace", "--no-run"], console).await
}

async fn build(what: &str, words: &[&str], console: &Console) -> anyhow::Result<()> {
    console.say(format!("building {what}: cargo {}", words.join(" ")));
    let mut cargo =
        Process::start("cargo", command(words), ProcessOutput::Inherit).context("cannot build")?;
    let status = cargo.wait(BUILD_LIMIT).await?;
    if !status.success() {
        bail!("cargo {} failed ({status}); see the compiler's messages above", words[0]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_knows_the_profile_that_it_was_built_in() {
        assert_eq!(own_profile().as_deref(), Some(if cfg!(debug_assertions) { "debug" } else { "release" }));
    }

    #[test]
    fn the_root_is_the_workspace() {
        let manifest = std::fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }
}
