//! `--set`: settings of a run file that the command line replaces.

use crate::config::{RunConfig, RunFileError, Setting};
use clap::Args;
use std::path::Path;

/// Settings that replace those of the run file.
#[derive(Args, Clone, Debug, Default)]
pub struct SettingsArgs {
    /// Set a key of the run file for this command, as in `--set train.schedule.peak=1e-5`; may be repeated.
    ///
    /// The value is TOML, and a text needs no quotes. Relative paths start from this directory.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<Setting>,
}

impl SettingsArgs {
    /// The run file at `path` with these settings, checked.
    ///
    /// # Errors
    /// As [`RunConfig::load_with`].
    pub fn load(&self, path: &Path) -> Result<RunConfig, RunFileError> {
        RunConfig::load_with(path, &self.settings)
    }

    /// The same without looking at the domains of settings.
    ///
    /// # Errors
    /// As [`RunConfig::read`].
    pub fn read(&self, path: &Path) -> Result<RunConfig, RunFileError> {
        RunConfig::read(path, &self.settings)
    }
}
