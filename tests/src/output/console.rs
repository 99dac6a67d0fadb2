//! How the lab's commands speak: plain lines to people, and with `--json` one object to scripts.

use serde_json::{Value, json};
use std::fmt::Display;
use std::process::ExitCode;

/// The exit code of a command whose checks did not all pass.
pub const CHECKS_FAILED: u8 = 1;
/// The exit code of a command that could not do its work.
pub const NOT_DONE: u8 = 2;
/// The exit code of a command that found no device to try.
pub const NO_DEVICE: u8 = 3;
/// The exit code of a command that was interrupted (128 + SIGINT, as shells report it).
pub const INTERRUPTED: u8 = 130;

/// Where lines for people go: to the standard output, or to the standard error when that is kept for JSON.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    json: bool,
}

/// What a command found.
#[derive(Clone, Debug)]
pub struct CommandReport {
    /// Whether every check passed.
    pub passed: bool,
    /// The object that `--json` prints.
    pub json: Value,
}

/// The command was asked to stop before it was done.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted; everything that was started has been stopped")]
pub struct Interrupted;

/// There is no device that the command could try; with the object that `--json` prints.
#[derive(Clone, Debug, thiserror::Error)]
#[error("there is no device to try")]
pub struct NoDevice(pub Value);

/// The command did its work, but not all of its figures could be recorded; with the
/// object that `--json` prints.
#[derive(Clone, Debug, thiserror::Error)]
#[error("not all figures could be recorded")]
pub struct NotRecorded(pub Value);

impl Console {
    /// With `json`, the standard output is kept for one JSON object.
    #[must_use]
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// A line for people.
    pub fn say(&self, line: impl Display) {
        if self.json {
            eprintln!("{line}");
        } else {
            println!("{line}");
        }
    }

    /// The command's last word: the JSON object if asked for, and the exit code.
    #[must_use]
    pub fn finish(&self, outcome: anyhow::Result<CommandReport>) -> ExitCode {
        let (json, code) = judge(outcome);
        if let Some(error) = json.get("error").and_then(Value::as_str) {
            eprintln!("echo-lab: {error}");
        }
        if self.json {
            println!("{json}");
        }
        ExitCode::from(code)
    }
}

fn judge(outcome: anyhow::Result<CommandReport>) -> (Value, u8) {
    match outcome {
        Ok(CommandReport { passed: true, json }) => (json, 0),
        Ok(CommandReport { passed: false, json }) => (json, CHECKS_FAILED),
        Err(error) if error.is::<NoDevice>() => {
            (error.downcast::<NoDevice>().map(|absent| absent.0).unwrap_or_default(), NO_DEVICE)
        }
        Err(error) if error.is::<NotRecorded>() => {
            (error.downcast::<NotRecorded>().map(|found| found.0).unwrap_or_default(), NOT_DONE)
        }
        Err(error) => {
            let code = if error.is::<Interrupted>() { INTERRUPTED } else { NOT_DONE };
            (json!({"error": story(&error)}), code)
        }
    }
}

/// The error and its causes in one text. Echo's own errors already name their causes: those
/// are not named twice.
fn story(error: &anyhow::Error) -> String {
    let add =
        |text: String, cause: String| if text.contains(&cause) { text } else { format!("{text}: {cause}") };
    error.chain().map(ToString::to_string).reduce(add).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_code_and_one_object() {
        let report = |passed| Ok(CommandReport { passed, json: json!({"failed": 1}) });
        assert_eq!(judge(report(true)).1, 0);
        assert_eq!(judge(report(false)).1, CHECKS_FAILED);
        let (json, code) = judge(Err(anyhow::anyhow!("no such file").context("reading x\ny")));
        assert_eq!(
            (json.to_string().as_str(), code),
            (r#"{"error":"reading x\ny: no such file"}"#, NOT_DONE)
        );
        assert_eq!(judge(Err(Interrupted.into())).1, INTERRUPTED);
        assert_eq!(judge(Err(NoDevice(json!({"steps": []})).into())), (json!({"steps": []}), NO_DEVICE));
        let found = json!({"passed": true, "error": "nothing at /seconds"});
        assert_eq!(judge(Err(NotRecorded(found.clone()).into())), (found, NOT_DONE), "nothing is lost");
    }

    #[test]
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::other("disk full");
        assert_eq!(
            story(&anyhow::Error::new(cause()).context("cannot write x: disk full")),
            "cannot write x: disk full"
        );
        assert_eq!(
            story(&anyhow::Error::new(cause()).context("cannot write x")),
            "cannot write x: disk full"
        );
    }
}
