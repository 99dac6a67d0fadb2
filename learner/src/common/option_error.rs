//! What every part says of an option of the run file that is outside its domain.
//!
//! Options stand beside what they configure, below `config`, which composes them. So their error does too.

use echo_protocol::wire::rate::LowRate;

/// An option outside its domain.
#[derive(Debug, thiserror::Error)]
pub enum OptionError {
    /// A number outside its domain.
    #[error("{field} = {found}: {rule}")]
    Number {
        /// The option's table and name, such as `run.updates`.
        field: &'static str,
        /// The number that the run file gives it.
        found: u64,
        /// What it has to be.
        rule: &'static str,
    },
    /// A setting outside its domain.
    #[error("{field} = {found}: {rule}")]
    Setting {
        /// The option's table and name, such as `train.weight_decay`.
        field: &'static str,
        /// The value that the run file gives it, as text.
        found: String,
        /// What it has to be.
        rule: &'static str,
    },
    /// A cap at which nothing gets through.
    #[error(transparent)]
    Rate(#[from] LowRate),
}

/// What was refused among these checks, in their order.
pub(crate) fn refused<E>(checks: impl IntoIterator<Item = Result<(), E>>) -> Vec<E> {
    checks.into_iter().filter_map(Result::err).collect()
}

/// Refuses 0 for `field`, as [`OptionError::Number`].
pub(crate) fn above_zero(field: &'static str, found: u64) -> Result<(), OptionError> {
    let rule = "it has to be at least 1";
    if found > 0 { Ok(()) } else { Err(OptionError::Number { field, found, rule }) }
}

/// Refuses `found` for `field` unless it is `right`; `rule` says what is.
/// The error is [`OptionError::Setting`].
pub(crate) fn setting(
    field: &'static str,
    found: f64,
    right: bool,
    rule: &'static str,
) -> Result<(), OptionError> {
    if right { Ok(()) } else { Err(OptionError::Setting { field, found: found.to_string(), rule }) }
}
