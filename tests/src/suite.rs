//! `echo-lab test`: every test of the workspace, from a fresh machine to one line of sums.
//!
//! May import `harness` and `output`.
//!
//! ```text
//! setup (compilers, Python, Go, NVRTC) ──► cargo build, cargo test ── lines ──► tally ──► CommandReport
//! ```

pub mod setup;
mod tally;

pub use tally::TestTally;

use crate::harness::cargo;
use crate::harness::processes::{Process, ProcessOutput};
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, bail};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::time::timeout;

/// A test hangs when none has ended for this time: the longest takes some minutes. CI gives up after 90
/// minutes, and says nothing of which test it was.
const SILENCE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Time for cargo to exit once its output has ended.
const EXIT_LIMIT: Duration = Duration::from_secs(60);

/// Prepares the machine, builds all binaries, runs all tests and adds up their results.
///
/// # Errors
/// When there is nothing to add up: the machine is not fit, the build fails, cargo cannot
/// be started or hangs.
pub async fn run(console: &Console) -> anyhow::Result<CommandReport> {
    setup::prepare(console).await?;
    // Tests of the whole start the programs; cargo builds no binary for the test of another package.
    cargo::build_binaries(cargo::DEV_PROFILE, console).await?;
    cargo::build_tests(console).await?;
    console.say("running all tests: cargo test --workspace --no-fail-fast");
    let command = cargo::command(["test", "--workspace", "--no-fail-fast"]);
    let mut cargo = Process::start("cargo test", command, ProcessOutput::Lines)?;
    let output = cargo.take_stdout().context("the output of cargo is piped")?;
    let mut tally = count(output, SILENCE_LIMIT, console).await?;
    let status = cargo.wait(EXIT_LIMIT).await?;
    if let Some(reason) = tally.close(status.success()) {
        console.say(reason);
    }
    console.say(&tally);
    Ok(CommandReport { passed: tally.failed == 0, json: json!(tally) })
}

/// Passes the output of test programs on, and counts. An error that names the tests that run when
/// nothing comes for `silence`.
async fn count(
    output: impl AsyncRead + Unpin,
    silence: Duration,
    console: &Console,
) -> anyhow::Result<TestTally> {
    let mut tally = TestTally::default();
    let mut lines = BufReader::new(output).split(b'\n');
    loop {
        let Ok(line) = timeout(silence, lines.next_segment()).await else {
            let names = tally.slow().collect::<Vec<_>>().join(", ");
            bail!(
                "no test has ended for {} minutes: stopped in the midst of {names}",
                silence.as_secs() / 60
            );
        };
        let Some(line) = line? else { return Ok(tally) };
        let line = String::from_utf8_lossy(&line);
        console.say(&line);
        tally.read_line(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    #[tokio::test(start_paused = true)]
    async fn a_test_that_hangs_is_named() {
        let (mut programs, output) = tokio::io::duplex(1024);
        let lines = "test quick has been running for over 60 seconds\ntest hangs has been running for over 60 seconds\n\
                     test quick ... ok\n";
        programs.write_all(lines.as_bytes()).await.unwrap();
        let error = count(output, SILENCE_LIMIT, &Console::new(true)).await.unwrap_err().to_string();
        assert!(error.contains("in the midst of hangs") && !error.contains("quick"), "{error}");
    }
}
