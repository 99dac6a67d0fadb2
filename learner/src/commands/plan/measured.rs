//! `--measure`: T_train by training steps on this machine, and μ by what `echo-node hardware` prints.

use crate::commands::bench;
use crate::config::RunConfig;
use anyhow::{Context as _, ensure};
use echo_policy::bench_models::Size;
use serde::Deserialize;
use std::env;
use std::env::consts::EXE_SUFFIX;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Steps whose median counts, as in ECHO-2 §5.1.
const STEPS: u32 = 5;
/// Tokens of a step, about: enough to keep a device busy, and few enough for seconds.
const STEP_TOKENS: f64 = 8_192.0;
/// The share of a training step that scoring alone takes: the way back costs twice as much.
const SCORING: f64 = 1.0 / 3.0;
/// How the program is called that measures μ.
const NODE: &str = "echo-node";

/// The part of `echo-node hardware --json` that a plan needs.
#[derive(Clone, Debug, Deserialize)]
struct HardwareOutput {
    measured: Option<HardwareRates>,
}

/// Tokens a second, and of which model.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct HardwareRates {
    /// Tokens a second of all responses of a batch.
    pub(super) batch_tok_s: f64,
    /// Parameters of the model that was measured with.
    pub(super) parameters: u64,
}

/// T_train in seconds of an update of `batch` sequences of `length` tokens, from steps on fewer of them.
///
/// # Errors
/// When device or model is not there, or memory is short.
pub(super) fn train_s(config: &RunConfig, batch: f64, length: f64) -> anyhow::Result<f64> {
    let sequences = (STEP_TOKENS / length).clamp(1.0, batch.max(1.0)).floor();
    let step_s = bench::step_seconds(config, sequences as u32, length.max(2.0) as u32, STEPS)
        .context("--measure cannot train this model here; give train_s in the fleet file (--fleet)")?;
    Ok(step_s * batch / sequences * (1.0 + SCORING * scoring_passes(config)))
}

/// Passes of an update that only score.
fn scoring_passes(config: &RunConfig) -> f64 {
    let (train, objective) = (&config.train, &config.train.objective.objective);
    let moves_within = train.minibatches > 1 && objective.needs_proximal();
    let proximal = moves_within || objective.plans_with_proximal();
    let reference = objective.needs_reference() || config.watch.reference;
    f64::from(u8::from(proximal) + u8::from(reference))
}

/// What `echo-node hardware` measures on this machine, with the model that is nearest in size.
///
/// # Errors
/// When the program is not there, or fails.
pub(super) fn this_machine(parameters: u64) -> anyhow::Result<HardwareRates> {
    let program = program();
    let scratch = tempfile::tempdir().context("no directory for a measurement")?;
    let size = nearest(parameters);
    let mut command = Command::new(&program);
    command.args(["hardware", "--json", "--size", size.name(), "--data-dir"]).arg(scratch.path());
    let output = command.output().with_context(|| {
        format!(
            "{} cannot be started, and --measure takes μ from it: put it beside echo-learner (cargo build --release -p echo-node), or \
             give rollouts_per_s of each class in the fleet file (--fleet)",
            program.display()
        )
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`{} hardware` failed: {}; give rollouts_per_s of each class in the fleet file (--fleet)",
        program.display(),
        said.lines().last().unwrap_or("it says nothing")
    );
    rates(&output.stdout).with_context(|| format!("what `{} hardware --json` printed", program.display()))
}

/// The rates in a file that `echo-node hardware --json` wrote.
///
/// # Errors
/// When it cannot be read, or has none.
pub(super) fn of_file(path: &Path) -> anyhow::Result<HardwareRates> {
    let text = std::fs::read(path)
        .with_context(|| format!("{}: write it with `echo-node hardware --json`", path.display()))?;
    rates(&text).with_context(|| format!("{}: write it with `echo-node hardware --json`", path.display()))
}

fn rates(text: &[u8]) -> anyhow::Result<HardwareRates> {
    let output: HardwareOutput = serde_json::from_slice(text)?;
    let rates = output.measured.context("nothing was measured: leave --seconds 0 out")?;
    let is_sound = rates.batch_tok_s.is_finite() && rates.batch_tok_s > 0.0 && rates.parameters > 0;
    ensure!(is_sound, "batch_tok_s and parameters have to be above 0");
    Ok(rates)
}

/// The program beside this one, or the one that PATH knows.
fn program() -> PathBuf {
    let name = format!("{NODE}{EXE_SUFFIX}");
    let beside = env::current_exe().map(|here| here.with_file_name(&name));
    beside.ok().filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

/// The model to measure with that is nearest to so many parameters.
fn nearest(parameters: u64) -> Size {
    let distance = |size: &Size| {
        let of = size.config().map_or(0, |config| config.parameter_count());
        ((of as f64).ln() - (parameters.max(1) as f64).ln()).abs()
    };
    let nearest = Size::ALL.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    nearest.unwrap_or(Size::M108)
}

impl HardwareRates {
    /// Rollouts a second of a model of `parameters`, with responses of so many tokens. A model twice as large
    /// is taken to be half as fast, as a node does that has generated nothing yet.
    pub(super) fn rollouts_per_s(&self, parameters: u64, response_tokens: f64) -> f64 {
        let tokens = self.batch_tok_s * self.parameters as f64 / parameters.max(1) as f64;
        tokens / response_tokens.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_echo_node_prints_is_read_and_scaled() {
        let text = br#"{"devices": [], "measured": {"device": "x", "batch_tok_s": 1000.0, "parameters": 108000000}}"#;
        let rates = rates(text).unwrap();
        // A model of half the size is twice as fast: 2,000 tokens a second are 4 responses of 500.
        assert!((rates.rollouts_per_s(54_000_000, 500.0) - 4.0).abs() < 1e-9);
        let none = super::rates(br#"{"measured": null}"#).unwrap_err();
        assert!(none.to_string().contains("--seconds 0"), "{none}");
        let absent = of_file(Path::new("no/hardware.json")).unwrap_err();
        assert!(format!("{absent:#}").contains("echo-node hardware --json"), "{absent:#}");
    }

    #[test]
    fn the_nearest_model_is_measured_with() {
        let sizes = [1, 4_000_000, 60_000_000, 8_000_000_000].map(nearest);
        assert_eq!(sizes.map(Size::name), ["tiny", "17m", "108m", "0.6b"]);
    }

    #[test]
    fn an_update_is_as_many_steps_as_its_tokens_are() {
        let mut config = crate::common::testing::run_config("run".into());
        config.train.minibatches = 1;
        let passes = scoring_passes(&config);
        config.watch.reference = true;
        assert_eq!(
            scoring_passes(&config),
            passes + 1.0 - f64::from(u8::from(config.train.objective.objective.needs_reference()))
        );
        assert!(train_s(&config, 64.0, 16.0).unwrap() > 0.0);
    }
}
