//! How every command is given its run file: `FILE`, or `--config FILE`, and `--set` for settings of it.

use crate::commands::settings::SettingsArgs;
use crate::config::{RunConfig, RunFileError};
use clap::Args;
use std::path::{Path, PathBuf};

/// The run file of a command.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct RunFile {
    /// The run file
    #[arg(value_name = "FILE", required_unless_present = "config")]
    file: Option<PathBuf>,
    /// The run file, named by a flag
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsArgs,
}

impl RunFile {
    /// Its path, as it was given.
    pub fn path(&self) -> &Path {
        // The command line requires one of the two.
        self.file.as_deref().or(self.config.as_deref()).unwrap_or(Path::new(""))
    }

    /// The directory that its relative paths start from.
    pub fn base(&self) -> &Path {
        self.path().parent().unwrap_or(Path::new(""))
    }

    /// The run file with the settings of the command line, checked.
    ///
    /// # Errors
    /// As [`RunConfig::load_with`].
    pub fn load(&self) -> Result<RunConfig, RunFileError> {
        RunConfig::load_with(self.path(), &self.settings.settings)
    }

    /// The same without looking at the domains of settings.
    ///
    /// # Errors
    /// As [`RunConfig::read`].
    pub fn read(&self) -> Result<RunConfig, RunFileError> {
        RunConfig::read(self.path(), &self.settings.settings)
    }
}

/// The run file of a command that can do without one.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct AnyRunFile {
    /// The run file, if there is one
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The run file, named by a flag
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsArgs,
}

impl AnyRunFile {
    /// The one that is given.
    #[must_use]
    pub fn given(&self) -> Option<RunFile> {
        let Self { file, config, settings } = self.clone();
        (file.is_some() || config.is_some()).then_some(RunFile { file, config, settings })
    }

    /// Whether settings are given of a file that is not.
    #[must_use]
    pub fn has_idle_settings(&self) -> bool {
        self.given().is_none() && !self.settings.settings.is_empty()
    }
}

impl From<PathBuf> for RunFile {
    fn from(file: PathBuf) -> Self {
        Self { file: Some(file), config: None, settings: SettingsArgs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Tried {
        #[command(flatten)]
        file: RunFile,
    }

    #[test]
    fn a_command_may_do_without_a_run_file() {
        #[derive(Debug, Parser)]
        struct Other {
            #[command(flatten)]
            file: AnyRunFile,
        }
        let given = |words: &[&str]| Other::try_parse_from(words).unwrap().file;
        assert_eq!(given(&["x"]).given(), None);
        for words in [&["x", "run.toml"][..], &["x", "--config", "run.toml"][..]] {
            assert_eq!(given(words).given().unwrap().path(), Path::new("run.toml"));
        }
        assert!(given(&["x", "--set", "run.seed=1"]).has_idle_settings());
        assert!(!given(&["x", "a", "--set", "run.seed=1"]).has_idle_settings());
        assert!(Other::try_parse_from(["x", "a", "--config", "b"]).is_err());
    }

    #[test]
    fn a_run_file_is_given_with_or_without_the_flag_and_once() {
        for words in [vec!["x", "run.toml"], vec!["x", "--config", "run.toml"]] {
            assert_eq!(Tried::try_parse_from(words).unwrap().file.path(), Path::new("run.toml"));
        }
        assert_eq!(RunFile::from(PathBuf::from("a")).path(), Path::new("a"));
        for wrong in [vec!["x"], vec!["x", "a.toml", "--config", "b.toml"]] {
            assert!(Tried::try_parse_from(wrong).is_err());
        }
    }
}
