//! The cargo that builds and tests this workspace.

use crate::harness::processes::{Process, ProcessOutput};
use crate::output::console::Console;
use anyhow::{Context as _, bail};
use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A cold build of everything on a slow machine ends within this time.
pub const BUILD_LIMIT: Duration = Duration::from_secs(3600);

/// Cargo's name for the profile of tests and of builds without `--release`; its folder is `debug`.
pub const DEV_PROFILE: &str = "dev";
/// That of programs that are given to users.
pub const RELEASE_PROFILE: &str = "release";

/// Beginnings of the variables in which cargo describes the package that it runs. It names the output of
/// our build script, too.
const ABOUT_US: [&str; 6] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_", "OUT_DIR"];

/// The root of the workspace.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let here = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = PathBuf::from(here);
    here.parent().map_or_else(|| here.clone(), Path::to_owned)
}

/// Where the running program lies.
pub struct OwnPlace {
    /// The folder of the programs that were built with it.
    pub folder: PathBuf,
    /// It is a test, which cargo puts into `deps/` below that folder.
    pub is_test: bool,
}

impl OwnPlace {
    /// Asks the system.
    ///
    /// # Errors
    /// When the system does not say where the program lies.
    pub fn find() -> io::Result<Self> {
        let own = env::current_exe()?;
        let beside = own.parent().unwrap_or(Path::new("."));
        let is_test = beside.ends_with("deps");
        let folder = beside.parent().filter(|_| is_test).unwrap_or(beside).to_owned();
        Ok(Self { folder, is_test })
    }

    /// The profile that cargo built the program in. `None` where this is a copy that lies elsewhere,
    /// or where the workspace is gone.
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        // Cargo marks the root of its builds so that backups leave them out, if it made that folder itself.
        // Where it keeps what it compiled beside the programs, that marks them too.
        let is_marked = self.folder.parent()?.join("CACHEDIR.TAG").is_file();
        let is_cargos = (is_marked || self.folder.join(".fingerprint").is_dir())
            && workspace_root().join("Cargo.toml").is_file();
        let name = self.folder.file_name()?.to_str()?;
        is_cargos.then_some(if name == "debug" { DEV_PROFILE } else { name })
    }
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

/// Builds every binary of the workspace in this profile.
///
/// # Errors
/// When cargo cannot be started or the build fails; what the compiler says is on the standard error by then.
pub async fn build_binaries(profile: &str, console: &Console) -> anyhow::Result<()> {
    build("all binaries", &["build", "--workspace", "--bins", "--profile", profile], console).await
}

/// Builds the learner of the release profile.
///
/// # Errors
/// As for [`build_binaries`].
pub async fn build_released_learner(console: &Console) -> anyhow::Result<()> {
    let words = ["build", "--package", "echo-learner", "--bins", "--profile", RELEASE_PROFILE];
    build("the learner of the release profile", &words, console).await
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
        let own = OwnPlace::find().unwrap();
        assert!(own.is_test);
        assert_eq!(own.profile(), Some(if cfg!(debug_assertions) { DEV_PROFILE } else { RELEASE_PROFILE }));
    }

    #[test]
    fn programs_are_cargos_in_a_folder_that_it_made_or_found_and_copies_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        let place = |folder: &str| OwnPlace { folder: root.path().join(folder), is_test: false };
        std::fs::create_dir_all(root.path().join("found/debug/.fingerprint")).unwrap();
        std::fs::create_dir_all(root.path().join("made/release")).unwrap();
        std::fs::write(root.path().join("made/CACHEDIR.TAG"), "").unwrap();
        std::fs::create_dir_all(root.path().join("copies/debug")).unwrap();
        assert_eq!(place("found/debug").profile(), Some(DEV_PROFILE));
        assert_eq!(place("made/release").profile(), Some("release"));
        assert_eq!(place("copies/debug").profile(), None);
    }

    #[test]
    fn builds_that_we_ask_for_know_nothing_of_our_own_package() {
        // Cargo has set these for this test; ring's build script reads them.
        let ours: Vec<_> = ["OUT_DIR", "CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"]
            .into_iter()
            .filter(|n| env::var_os(n).is_some())
            .collect();
        let command = command(["build"]);
        let removed = |name: &&str| command.get_envs().any(|(n, value)| n == *name && value.is_none());
        assert!(ours.iter().all(removed), "{ours:?}");
    }

    #[test]
    fn the_root_is_the_workspace() {
        let manifest = std::fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }
}
