//! `--set`: settings of a run file that the command line replaces.

use crate::config::Setting;
use clap::Args;

/// Settings that replace those of the run file.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct SettingsArgs {
    /// Set a key of the run file for this command, as in `--set train.schedule.peak=1e-5`; may be repeated.
    ///
    /// The value is TOML, and a text needs no quotes. Relative paths start from this directory.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<Setting>,
}
