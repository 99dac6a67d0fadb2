//! `[train.filter]`

use crate::common::option_error::OptionError;
use serde::{Deserialize, Serialize};

/// `[train.filter]`: which groups are not trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FilterSection {
    /// Drop groups whose rewards are all equal (DAPO's dynamic sampling). Left out: on with the
    /// preset `dapo`, off with others.
    pub dynamic: Option<bool>,
    /// Drop groups whose share of right responses lies outside `[low, high]`.
    pub pass_rate: Option<[f64; 2]>,
}

impl FilterSection {
    pub(crate) fn validate(&self) -> Result<(), OptionError> {
        let Some([low, high]) = self.pass_rate else { return Ok(()) };
        if 0.0 <= low && low <= high && high <= 1.0 {
            return Ok(());
        }
        let (field, found) = ("train.filter.pass_rate", format!("[{low}, {high}]"));
        let rule = "two shares, the lower one first, each from 0 to 1";
        Err(OptionError::Setting { field, found, rule })
    }
}
