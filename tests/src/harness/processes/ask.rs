//! Commands that say something and end.

use anyhow::{Context as _, ensure};
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Whether a program is there.
pub(crate) fn runs(program: impl AsRef<OsStr>) -> bool {
    succeeds(Command::new(program).arg("--version"))
}

/// Whether a command is there and does not fail. It has no input, and nobody hears what it says.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What a command prints, without any input. Its standard error is ours.
///
/// # Errors
/// When it cannot start, fails, or prints what is no text.
pub(crate) fn printed(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{:?} ended with {}", command.get_program(), output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// The last line that a command prints, which is JSON.
///
/// # Errors
/// As [`printed`], and when the line is missing or is something else.
pub(crate) fn last_line<T: DeserializeOwned>(command: &mut Command) -> anyhow::Result<T> {
    let text = printed(command)?;
    Ok(serde_json::from_str(text.lines().last().context("it said nothing")?)?)
}
