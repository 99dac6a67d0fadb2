//! What there is on the machine.

use super::card::{ceilings, learner_device};
use super::{GpuStepOutcome, StepOptions};
use crate::harness::binaries::Binaries;
use crate::harness::machine;
use anyhow::{Context as _, ensure};
use echo_learner::training::device;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) fn run(options: &StepOptions, outcome: &mut GpuStepOutcome) -> anyhow::Result<()> {
    outcome.figure("machine", machine::describe());
    let listed = hardware(&options.dir);
    if let Ok(listed) = &listed {
        outcome.figure("devices", &listed["devices"]);
        outcome.figure("absent", &listed["absent"]);
    }
    outcome.part("echo-node hardware", listed.map(drop));
    let found = options.cuda()?;
    outcome.figure("device", &found.name);
    outcome.figure("driver", driver());
    let trains = learner_device(options.rehearse);
    let measured = trains.and_then(|device| {
        let before = device::memory_in_use(&device)?;
        outcome.figure("memory_in_use_mb", before.map(|bytes| bytes as f64 / 1e6));
        outcome.figure("ceilings", ceilings(&device)?);
        Ok(())
    });
    outcome.part("copies and products", measured);
    Ok(())
}

/// What `echo-node hardware` lists.
fn hardware(dir: &Path) -> anyhow::Result<Value> {
    let mut node = Command::new(Binaries::locate()?.node);
    node.args(["hardware", "--json", "--seconds", "0", "--data-dir"]).arg(dir.join("node"));
    let output = node.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, said.trim());
    serde_json::from_slice(&output.stdout).context("it printed no JSON")
}

/// The driver's own version, as its kernel module says it.
fn driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let version = |line: &str| {
        line.split_whitespace()
            .find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()))
            .map(str::to_owned)
    };
    text.lines().next().and_then(version)
}
