//! What the tests of the programs share: they include this file.

use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What is waited for happens within this time, or something is broken.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Ends its process, however the test ends.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Waits until something is there.
    pub(crate) fn until(&mut self, what: &str, there: impl Fn() -> bool) {
        let since = Instant::now();
        while !there() {
            assert_eq!(self.0.try_wait().unwrap(), None, "it ended before: {what}");
            assert!(since.elapsed() < PATIENCE, "not in time: {what}");
            sleep(PAUSE);
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "it does not end");
            sleep(PAUSE);
        }
    }
}

/// A file to which nothing can be written.
pub(crate) fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// Checks that a command whose reader has left ends quietly, and that one whose answer is lost says
/// so and ends with `failed`.
pub(crate) fn check_lost_answers(program: &str, failed: i32, command: impl Fn() -> Command) {
    let answer = |stdout: Stdio| {
        let child = command().stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // A pipe without a reader.
    let abandoned = std::io::pipe().unwrap().1;
    assert_eq!(answer(abandoned.into()), (Some(0), String::new()), "{:?}", command());
    let (code, said) = answer(full().into());
    assert_eq!(code, Some(failed), "{:?}", command());
    assert!(said.starts_with(&format!("{program}: ")) && said.contains("No space left"), "{said}");
}
