//! When, where and from which tree a figure was measured.

use super::goals::{FILE, GoalsFile, MachineEntry};
use crate::harness::machine;
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::env;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

/// The variable that names the machine where `goals.toml` does not tell.
const MACHINE: &str = "ECHO_MACHINE";

/// What every record of one run has in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The short name of the commit, with `-dirty` after it where the tree has changes.
    pub(super) commit: String,
    /// The day, as 2026-11-28, in UTC.
    pub(super) date: String,
    /// The id of the machine in `goals.toml`.
    pub(super) machine: String,
}

impl Stamp {
    /// That of this program, now, on this machine, built from the tree at `root`.
    /// Fails when git does not tell the commit, or the machine is unknown.
    pub(super) fn of_this_run(root: &Path, goals: &GoalsFile) -> anyhow::Result<Self> {
        let named = env::var(MACHINE).ok();
        let mut found = machine::describe();
        found["development"] = cfg!(debug_assertions).into();
        let machine = machine_of(&goals.machines, named.as_deref(), &found)?;
        Ok(Self { commit: commit(root)?, date: date(echo_protocol::program::clock::wall().0), machine })
    }
}

/// The day of so many milliseconds since 1970, in UTC.
pub(super) fn date(millis: u64) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(millis)).to_string();
    time.split('T').next().unwrap_or_default().to_owned()
}

/// The commit of the tree. New records and the page are no changes of it: they say nothing about programs.
fn commit(root: &Path) -> anyhow::Result<String> {
    let commit = git(root, &["rev-parse", "--short", "HEAD"])?;
    let changes = git(
        root,
        &["status", "--porcelain", "--", ".", ":(exclude)docs/results", ":(exclude)docs/results.md"],
    )?;
    Ok(commit + if changes.is_empty() { "" } else { "-dirty" })
}

fn git(root: &Path, words: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").current_dir(root).args(words).output().context("cannot start git")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {} failed: {}", words.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The id of the machine that is named, or else of the only one that this one looks like.
pub(super) fn machine_of(
    machines: &[MachineEntry],
    named: Option<&str>,
    found: &Value,
) -> anyhow::Result<String> {
    let id = |machine: &MachineEntry| machine.id.get_ref().clone();
    let known = machines.iter().map(id).collect::<Vec<_>>().join(", ");
    if let Some(named) = named {
        let machine = machines.iter().find(|machine| machine.id.get_ref() == named);
        return machine.map(id).with_context(|| format!("{MACHINE}={named}: {FILE} has only {known}"));
    }
    let mut alike = Vec::new();
    for machine in machines {
        if machine.looks_like(found)? {
            alike.push(id(machine));
        }
    }
    match alike.as_slice() {
        [only] => Ok(only.clone()),
        [] => bail!("{FILE} has no machine like this one ({found}): name one of {known} in {MACHINE}"),
        several => bail!("this machine looks like {}: name one in {MACHINE}", several.join(" and ")),
    }
}

impl MachineEntry {
    /// Whether all that the entry says of its processor is true of the one that was found.
    fn looks_like(&self, found: &Value) -> anyhow::Result<bool> {
        let Some(cpu) = &self.cpu else { return Ok(false) };
        let named = found["cpu"].as_str().is_some_and(|found| found.contains(cpu.as_str()));
        let cores = self.cores.is_none_or(|cores| found["cores"].as_u64() == Some(cores));
        let mut alike = named && cores;
        for (feature, wanted) in self.features() {
            let has = found[feature].as_bool();
            let has =
                has.with_context(|| format!("{FILE}: the lab does not look for the feature `{feature}`"))?;
            alike &= has == wanted;
        }
        Ok(alike)
    }

    /// Features that the entry names, and whether it has them.
    fn features(&self) -> impl Iterator<Item = (&str, bool)> {
        let has = self.has.iter().map(|feature| (feature.as_str(), true));
        has.chain(self.lacks.iter().map(|feature| (feature.as_str(), false)))
    }
}
