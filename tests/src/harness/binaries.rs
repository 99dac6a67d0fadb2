//! Finds the programs of the house.

use crate::harness::cargo::{self, OwnPlace};
use crate::output::console::Console;
use std::env::consts::EXE_SUFFIX;
use std::io;
use std::path::{Path, PathBuf};

/// The three programs that a network is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// `echo-node`, which volunteers run.
    pub node: PathBuf,
    /// `echo-learner`, which an operator runs.
    pub learner: PathBuf,
    /// `echo-bootstrap`: boot node, and signer of peer lists.
    pub bootstrap: PathBuf,
}

/// Why the programs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BinariesError {
    /// The system does not say where this very program is.
    #[error("cannot tell where this program lies, beside which the others are looked for: {0}")]
    OwnPlace(io::Error),
    /// Some programs are not there.
    #[error("not built: {}; build them with `cargo build --workspace --bins`", list(.0))]
    Missing(Vec<PathBuf>),
}

impl Binaries {
    /// The programs beside the running one.
    ///
    /// # Errors
    /// [`BinariesError`], which names every program that is missing.
    pub fn locate() -> Result<Self, BinariesError> {
        let own = OwnPlace::find().map_err(BinariesError::OwnPlace)?;
        Self::in_dir(&own.folder)
    }

    /// The programs in `dir`.
    ///
    /// # Errors
    /// [`BinariesError::Missing`], with the path of each program that is missing.
    pub fn in_dir(dir: &Path) -> Result<Self, BinariesError> {
        let path = |name: &str| dir.join(format!("{name}{EXE_SUFFIX}"));
        let all = Self {
            node: path("echo-node"),
            learner: path("echo-learner"),
            bootstrap: path("echo-bootstrap"),
        };
        let missing: Vec<_> = [&all.node, &all.learner, &all.bootstrap]
            .into_iter()
            .filter(|path| !path.is_file())
            .cloned()
            .collect();
        if missing.is_empty() { Ok(all) } else { Err(BinariesError::Missing(missing)) }
    }

    /// `echo-lab` itself, beside the others.
    #[must_use]
    pub fn lab(&self) -> PathBuf {
        self.node.with_file_name(format!("echo-lab{EXE_SUFFIX}"))
    }

    /// The programs. Where cargo builds the lab, it builds the others first, so that none is stale.
    /// Beside a copy, as in a kit, they are what lies there. Tests take what is there as well, and
    /// build only what is missing: `cargo lab test` has built everything before it starts them.
    ///
    /// # Errors
    /// When the build fails, or a program is not beside this one.
    pub async fn fresh(console: &Console) -> anyhow::Result<Self> {
        let own = OwnPlace::find().map_err(BinariesError::OwnPlace)?;
        let is_missing = || Self::in_dir(&own.folder).is_err();
        if let Some(profile) = own.profile()
            && (!own.is_test || is_missing())
        {
            cargo::build_binaries(profile, console).await?;
        }
        Ok(Self::in_dir(&own.folder)?)
    }

    /// The same with the learner that an operator runs, of the release profile. Cargo builds it first, unless
    /// these are copies, or are of that profile.
    ///
    /// # Errors
    /// When the build fails.
    pub async fn with_released_learner(self, console: &Console) -> anyhow::Result<Self> {
        let own = OwnPlace::find().map_err(BinariesError::OwnPlace)?;
        if own.profile().is_none_or(|profile| profile == cargo::RELEASE_PROFILE) {
            return Ok(self);
        }
        cargo::build_released_learner(console).await?;
        let folder = own.folder.with_file_name(cargo::RELEASE_PROFILE);
        let learner = folder.join(self.learner.file_name().unwrap_or_default());
        Ok(Self { learner, ..self })
    }

    /// The programs, [fresh](Self::fresh) ones if `build` says so, or else those that lie there.
    ///
    /// # Errors
    /// As for [`fresh`](Self::fresh).
    pub async fn get(build: bool, console: &Console) -> anyhow::Result<Self> {
        if build { Self::fresh(console).await } else { Ok(Self::locate()?) }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_program_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| std::fs::write(dir.path().join(format!("{name}{EXE_SUFFIX}")), "").unwrap();
        place("echo-learner");
        let Err(BinariesError::Missing(missing)) = Binaries::in_dir(dir.path()) else { panic!("found") };
        assert_eq!(missing.len(), 2);
        place("echo-node");
        place("echo-bootstrap");
        assert!(Binaries::in_dir(dir.path()).unwrap().node.starts_with(dir.path()));
    }
}
