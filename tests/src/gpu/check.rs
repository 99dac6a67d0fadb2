//! What `gpu-check` does: the steps in order, each in a process of its own with its own log and time limit.
//!
//! A step that fails stops nobody else. A step for which the budget has no room is skipped by name.

mod libraries;
mod verdict;

use super::kit::Kit;
use super::steps::{Outcome, Step, StepOptions};
use crate::console::Console;
use crate::processes::{Output, Process};
use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub use verdict::{Ended, Verdict};

/// What is checked, and for how long.
#[derive(Clone, Debug)]
pub struct Check {
    /// Where logs and results go.
    pub out: PathBuf,
    /// Time for everything.
    pub budget: Duration,
    /// Steps; empty: all.
    pub only: Vec<Step>,
    /// At a small size on the processor, to see that everything would run.
    pub rehearse: bool,
    /// Take Vulkan in software where there is no card, at a small size.
    pub software: bool,
}

/// Runs the steps.
///
/// # Errors
/// When nothing can be written to the output directory, or this program cannot be started again. A step that fails is part of the verdict.
pub async fn run(check: &Check, console: &Console) -> anyhow::Result<Verdict> {
    let started = Instant::now();
    let out = std::path::absolute(&check.out)?;
    fs::create_dir_all(&out)
        .with_context(|| format!("cannot make {}; name another place with --out", out.display()))?;
    let kit = Kit::beside_this_program()?;
    let libraries = libraries::find();
    console.say(format!("results and logs go to {}", out.display()));
    console.say(libraries.to_string());
    let mut ended = Vec::new();
    for step in Step::ALL.into_iter().filter(|step| check.only.is_empty() || check.only.contains(step)) {
        let left = check.budget.saturating_sub(started.elapsed());
        let needed = step.expected(check.rehearse || check.software);
        if left < needed {
            let why = format!(
                "skipped: takes some {} s, and {} s of the budget are left",
                needed.as_secs(),
                left.as_secs()
            );
            ended.push(Ended::skipped(step, why));
        } else {
            let limit = left.min(step.limit());
            console.say(format!("{step}: {}, at most {} s …", step.about(), limit.as_secs()));
            ended.push(start(step, check, &out, limit, &libraries).await?);
        }
        if let Some(last) = ended.last() {
            console.say(format!("{step}: {last}"));
        }
    }
    let verdict = Verdict::new(ended, &kit, started.elapsed());
    let path = out.join("gpu-check.json");
    fs::write(&path, format!("{}\n", verdict.json())).with_context(|| path.display().to_string())?;
    Ok(verdict)
}

/// Runs one step to its end or its limit.
async fn start(
    step: Step,
    check: &Check,
    out: &Path,
    limit: Duration,
    libraries: &libraries::Libraries,
) -> anyhow::Result<Ended> {
    let options =
        StepOptions { step, dir: out.join(step.name()), rehearse: check.rehearse, software: check.software };
    // What an earlier check left there would be taken for this one's.
    match fs::remove_dir_all(&options.dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot clear {}", options.dir.display()));
        }
        _ => fs::create_dir_all(&options.dir)?,
    }
    let log = options.dir.join("log.txt");
    let mut command = Command::new(std::env::current_exe()?);
    command.args(options.words());
    libraries.pass_to(&mut command);
    let since = Instant::now();
    let mut process = Process::start(step.name(), command, Output::Log(log.clone()))?;
    let ended = process.wait(limit).await;
    let seconds = since.elapsed().as_secs_f64();
    let outcome = match ended {
        Ok(status) => Outcome::load(&options.dir).unwrap_or_else(|_| {
            Outcome::failed(format!(
                "ended with {status} and without a result; the end of its log:\n{}",
                process.log_tail()
            ))
        }),
        Err(_) => {
            process.kill().await?;
            let found = Outcome::load(&options.dir).unwrap_or_default();
            let reason =
                format!("not done within {} s; the end of its log:\n{}", limit.as_secs(), process.log_tail());
            found.cut_short(reason)
        }
    };
    Ok(Ended::new(step, seconds, outcome, log))
}
