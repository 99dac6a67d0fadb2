//! `echo-lab test`: every test of the workspace, from a fresh machine to one line of sums.

mod tally;

pub use tally::Tally;

use crate::cargo;
use crate::console::{Console, Report};
use crate::processes::{Output, Process};
use crate::setup;
use anyhow::Context as _;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// All tests together, their build included, end within this time.
const SUITE_LIMIT: Duration = Duration::from_secs(2 * 3600);
/// Time for cargo to exit once its output has ended.
const EXIT_LIMIT: Duration = Duration::from_secs(60);

/// Prepares the machine, builds all binaries, runs all tests and adds up their results.
///
/// # Errors
/// When there is nothing to add up: the machine is not fit, the build fails, cargo cannot be started or hangs.
pub async fn run(console: &Console) -> anyhow::Result<Report> {
    setup::prepare(console).await?;
    // Tests of the whole start the programs; cargo builds no binary for the test of another package.
    cargo::build_binaries(console).await?;
    console.say("running all tests: cargo test --workspace --no-fail-fast");
    let command = cargo::command(["test", "--workspace", "--no-fail-fast"]);
    let mut cargo = Process::start("cargo test", command, Output::Lines)?;
    let output = cargo.take_stdout().context("the output of cargo is piped")?;
    let sums = async {
        let mut tally = Tally::default();
        let mut lines = BufReader::new(output).split(b'\n');
        while let Some(line) = lines.next_segment().await? {
            let line = String::from_utf8_lossy(&line);
            console.say(&line);
            tally.read_line(&line);
        }
        anyhow::Ok(tally)
    };
    let mut tally = tokio::time::timeout(SUITE_LIMIT, sums)
        .await
        .context("the tests hang: stopped after two hours")??;
    let status = cargo.wait(EXIT_LIMIT).await?;
    if let Some(reason) = tally.close(status.success()) {
        console.say(reason);
    }
    console.say(tally);
    Ok(Report { passed: tally.failed == 0, json: json!(tally) })
}
