//! What `gpu-check` does: the steps in order, each in a process of its own with its own log and time limit.
//!
//! A step that fails stops nobody else. A step for which the budget has no room is skipped by name.

mod verdict;

use super::kit::Kit;
use super::steps::{GpuStep, GpuStepOutcome, StepOptions};
use crate::harness::processes::{Process, ProcessOutput};
use crate::output::console::{CHECKS_FAILED, Console, Interrupted};
use anyhow::{Context as _, ensure};
use echo_protocol::program::signals::requested;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::Command;
use std::time::{Duration, Instant};

pub use verdict::{EndedStep, GpuVerdict};

/// The object for scripts, in the output directory.
const VERDICT: &str = "gpu-check.json";
/// Where they go unless somebody says otherwise.
const DEFAULT_OUT: &str = "gpu-check-out";
/// How long a step that is stopped has to stop what it started.
const GRACE: Duration = Duration::from_secs(10);
/// The exit code of a step that came to its end and failed.
const STEP_FAILED: i32 = CHECKS_FAILED as i32;

/// What is checked, and for how long.
#[derive(Clone, Debug)]
pub struct GpuCheckPlan {
    /// Where logs and results go; a directory of its own where nobody names one.
    pub out: Option<PathBuf>,
    /// Time for all steps together; steps for which too little is left are skipped.
    pub budget: Duration,
    /// The steps that run; all of them where this is empty.
    pub only: Vec<GpuStep>,
    /// At a small size on the processor, to see that everything would run.
    pub rehearse: bool,
    /// Take Vulkan in software where there is no card, at a small size.
    pub software: bool,
}

/// Runs the steps. Heeds Ctrl-C and SIGTERM itself, so that a step has time to stop what it started.
///
/// # Errors
/// [`Interrupted`]; when nothing can be written to the output directory, or this program cannot be
/// started again. A step that fails is part of the verdict.
pub async fn run(check: &GpuCheckPlan, console: &Console) -> anyhow::Result<GpuVerdict> {
    let started = Instant::now();
    let out = place(check.out.as_deref())?;
    let kit = Kit::beside_this_program()?;
    let libraries = crate::gpu::libraries::find();
    console.say(format!("results and logs go to {}", out.display()));
    console.say(libraries.to_string());
    let mut stop = pin!(requested());
    let mut ended = Vec::new();
    for step in GpuStep::ALL.into_iter().filter(|step| check.only.is_empty() || check.only.contains(step)) {
        let left = check.budget.saturating_sub(started.elapsed());
        let needed = step.expected(check.rehearse || (check.software && step == GpuStep::Wgpu));
        if left < needed {
            let why = format!(
                "skipped: takes some {} s, and {} s of the budget are left",
                needed.as_secs(),
                left.as_secs()
            );
            ended.push(EndedStep::skipped(step, why));
        } else {
            let limit = left.min(step.limit());
            console.say(format!("{step}: {}, at most {} s …", step.about(), limit.as_secs()));
            ended.push(start(step, check, &out, limit, &libraries, stop.as_mut()).await?);
        }
        if let Some(last) = ended.last() {
            console.say(format!("{step}: {last}"));
        }
    }
    let verdict = GpuVerdict::new(ended, &kit, started.elapsed());
    let path = out.join(VERDICT);
    fs::write(&path, format!("{}\n", verdict.json())).with_context(|| path.display().to_string())?;
    Ok(verdict)
}

/// Makes the directory of a check, in which no earlier one is: figures from a rented card
/// are not written over.
fn place(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    let is_used = |dir: &Path| {
        let steps = GpuStep::ALL.iter().map(|step| step.name());
        steps.chain([VERDICT]).any(|name| dir.join(name).exists())
    };
    let out = match asked {
        Some(out) => std::path::absolute(out)?,
        None => {
            let numbered = (2..).map(|number| PathBuf::from(format!("{DEFAULT_OUT}-{number}")));
            let free = iter::once(PathBuf::from(DEFAULT_OUT)).chain(numbered).find(|dir| !is_used(dir));
            std::path::absolute(free.context("every name for the results is taken")?)?
        }
    };
    ensure!(!is_used(&out), "{} holds an earlier check; name another place with --out", out.display());
    fs::create_dir_all(&out)
        .with_context(|| format!("cannot make {}; name another place with --out", out.display()))?;
    Ok(out)
}

/// Runs one step to its end or its limit.
async fn start(
    step: GpuStep,
    check: &GpuCheckPlan,
    out: &Path,
    limit: Duration,
    libraries: &crate::gpu::libraries::Libraries,
    stop: Pin<&mut impl Future<Output = ()>>,
) -> anyhow::Result<EndedStep> {
    let options =
        StepOptions { step, dir: out.join(step.name()), rehearse: check.rehearse, software: check.software };
    fs::create_dir_all(&options.dir)
        .with_context(|| format!("cannot make {}; name another place with --out", options.dir.display()))?;
    let log = options.dir.join("log.txt");
    let mut command = Command::new(std::env::current_exe()?);
    command.args(options.words());
    libraries.pass_to(&mut command);
    let since = Instant::now();
    let mut process = Process::start(step.name(), command, ProcessOutput::Log(log.clone()))?;
    let ended = tokio::select! {
        ended = process.wait(limit) => ended,
        () = stop => {
            let _ = process.stop(GRACE).await;
            return Err(Interrupted.into());
        }
    };
    let seconds = since.elapsed().as_secs_f64();
    let cut_short = |what: String, log: String| {
        let found = GpuStepOutcome::load(&options.dir).unwrap_or_default();
        found.cut_short(format!("{what}; the end of its log:\n{log}"))
    };
    let outcome = match ended {
        // Whoever ends otherwise left half of a result at the most.
        Ok(status) if matches!(status.code(), Some(0 | STEP_FAILED)) => GpuStepOutcome::load(&options.dir)
            .unwrap_or_else(|error| GpuStepOutcome::failed(format!("its result cannot be read: {error:#}"))),
        Ok(status) => cut_short(format!("ended with {status}"), process.log_tail()),
        Err(_) => {
            // What a driver does not let go of in time ends with its own step only.
            let _ = process.stop(GRACE).await;
            cut_short(format!("not done within {} s", limit.as_secs()), process.log_tail())
        }
    };
    Ok(EndedStep::new(step, seconds, outcome, log))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_an_earlier_check_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        assert_eq!(place(Some(&out)).unwrap(), out);
        fs::write(out.join("notes"), "mine").unwrap();
        place(Some(&out)).unwrap();
        fs::create_dir(out.join(GpuStep::Survey.name())).unwrap();
        let refused = place(Some(&out)).unwrap_err().to_string();
        assert!(refused.contains("--out") && out.join("notes").exists(), "{refused}");
    }
}
