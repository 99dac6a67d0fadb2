//! `echo-node hardware`: the devices of this machine, which of them is taken and why, and how fast it is.
//!
//! What was measured is kept in the data directory. Until a node has generated groups, it tells the
//! learner what follows from that.

mod measure;
mod show;

use std::sync::Arc;

use clap::Args;
use echo_policy::bench_models::{Size, weights};
use echo_policy::generation::device::{DeviceError, FoundDevice, Survey};
use echo_policy::generation::{EngineError, set_threads};
use echo_policy::model::config::ModelConfigError;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::WeightsError;
use echo_protocol::run::charter::Charter;
use serde::Serialize;

use crate::devices::fallback::{DeviceFallback, Loaded};
use crate::devices::precision;
use crate::devices::precision::NotTaken;
use crate::settings::{OutOfRange, Settings};
use crate::state::charter_file;
use crate::state::state_file;
use crate::state::state_file::StateError;
use crate::status::node_state::NodeState;

pub use measure::DeviceRates;

/// Longest measurement, in seconds.
const LONGEST: u32 = 600;

/// What to measure.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Seconds to measure for; 0 only lists
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=i64::from(LONGEST)))]
    pub seconds: u32,
    /// The model to measure with, of random weights: tiny, 17m, 108m or 0.6b, by its parameters
    #[arg(long, value_name = "SIZE", default_value = "108m")]
    pub size: Size,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum HardwareError {
    /// What the owner asks for is not there.
    #[error("{0}; set device (--device) to something else, or leave it out")]
    Device(#[from] DeviceError),
    /// There are not as many cores as threads are asked for, or none is.
    #[error(transparent)]
    Threads(#[from] OutOfRange),
    /// The run that this node works for does not take the owner's precision.
    #[error(transparent)]
    Precision(#[from] NotTaken),
    /// The model cannot be made.
    #[error(transparent)]
    Model(#[from] ModelConfigError),
    /// Its weights cannot be made.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The device failed, or has no room.
    #[error("the measurement failed: {0}")]
    Engine(#[from] EngineError),
    /// The result cannot be kept.
    #[error(transparent)]
    State(#[from] StateError),
}

/// What was found, and what was measured.
#[derive(Debug, Serialize)]
pub struct HardwareReport {
    /// All devices that were found, used or not.
    pub devices: Vec<Listed>,
    /// Why there are none of a kind.
    pub absent: Vec<String>,
    /// The precision that is computed in.
    pub precision: Precision,
    /// Threads that the processor computes with.
    pub threads: usize,
    /// What the device that is used was able to do.
    pub measured: Option<DeviceRates>,
}

/// A device, and what becomes of it.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// How it is asked for.
    pub device: String,
    /// What the survey found of it.
    #[serde(flatten)]
    pub found: FoundDevice,
    /// Whether it is the one that is used.
    pub used: bool,
    /// Why it is used, or not.
    pub why: String,
}

impl HardwareReport {
    /// Looks for devices, and says what becomes of each with these settings.
    ///
    /// # Errors
    /// When there are not as many cores as threads are asked for, nothing is there of what the
    /// owner asks for, or the run that this node works for does not take the owner's precision.
    pub fn take(settings: &Settings) -> Result<Self, HardwareError> {
        settings.check_threads()?;
        let precision = precision_of(settings)?;
        Self::of(Survey::take(), settings, precision)
    }

    fn of(survey: Survey, settings: &Settings, precision: Precision) -> Result<Self, HardwareError> {
        let choice = &settings.device;
        let candidates = survey.candidates(choice, precision)?;
        let listed = |found: FoundDevice| {
            let place = candidates.iter().position(|candidate| *candidate == found);
            let why = match (place, found.suits(choice, precision)) {
                (Some(0), _) => format!("the best for {choice} that computes in {precision}"),
                (Some(_), _) => "only when those before it are lost".to_owned(),
                (None, why) => why.err().unwrap_or_default(),
            };
            Listed { device: found.choice().to_string(), found, used: place == Some(0), why }
        };
        Ok(Self {
            devices: survey.found.into_iter().map(listed).collect(),
            absent: survey.absent,
            precision,
            threads: settings.threads,
            measured: None,
        })
    }

    /// Measures on the device that is used, says what is being done, and keeps the
    /// result for [`expected`]. Blocks.
    ///
    /// # Errors
    /// When the device fails, or the result cannot be kept.
    pub fn measure(
        &mut self,
        settings: &Settings,
        hardware: &Hardware,
        say: &dyn Fn(&str),
    ) -> Result<(), HardwareError> {
        set_threads(settings.threads)?;
        let node_state = Arc::new(NodeState::default());
        let fallback = DeviceFallback::new(&settings.device, self.precision, node_state.clone())?;
        say(&format!("making a model of the size {}, with random weights", hardware.size));
        let config = hardware.size.config()?;
        let weights = weights(&config)?;
        say("loading it");
        let Loaded { device, policy } = fallback.load(0, &config, &weights, self.precision)?;
        // A driver may have refused what was listed.
        let used = self.devices.iter().position(|listed| listed.found.name == device.name());
        for (at, listed) in self.devices.iter_mut().enumerate().filter(|(_, listed)| listed.used) {
            listed.used = used == Some(at);
        }
        if let Some(listed) = used.and_then(|at| self.devices.get_mut(at)).filter(|listed| !listed.used) {
            (listed.used, listed.why) = (true, "the next that could be opened".to_owned());
        }
        let task = measure::MeasurementTask {
            device: device.name(),
            size: hardware.size,
            seconds: f64::from(hardware.seconds),
            threads: settings.threads,
            weights: &weights,
        };
        let rates = measure::run(policy.backend(), &task, say)?;
        let data = settings.data();
        // Whoever only looks needs no data directory.
        if data.path().is_dir() {
            state_file::write(&data.hardware(), &rates, false)?;
        } else {
            let path = data.path().display();
            say(&format!("not kept for a node, as there is no {path} yet; `echo-node preflight` makes it"));
        }
        self.measured = Some(rates);
        Ok(())
    }
}

/// The precision that this node computes in: for the run that it worked for last, if there is one.
fn precision_of(settings: &Settings) -> Result<Precision, NotTaken> {
    let charter = charter_file::last_charter(&settings.data()).and_then(|signed| Charter::open(&signed).ok());
    match charter {
        Some((_, charter)) => precision::choose(&charter.precisions, settings.precision),
        None => Ok(settings.precision.unwrap_or_default()),
    }
}

/// Rollouts a second that may be expected of `device` for a model of that many parameters, if every
/// response is as long as it may be: from what `echo-node hardware` measured there with as many
/// threads. A policy twice as large is taken to be half as fast.
pub fn expected(
    settings: &Settings,
    device: &str,
    precision: Precision,
    parameters: u64,
    response: u32,
) -> Option<f32> {
    let rates: Option<DeviceRates> = state_file::read(&settings.data().hardware()).unwrap_or_else(|error| {
        tracing::debug!(%error, "what was measured is of no use");
        None
    });
    let rates = rates.filter(|rates| {
        (rates.device.as_str(), rates.precision, rates.threads) == (device, precision, settings.threads)
    })?;
    let tokens = rates.batch_tok_s * rates.parameters as f64 / parameters.max(1) as f64;
    Some((tokens / f64::from(response.max(1))) as f32)
}

#[cfg(test)]
mod tests;
