//! The policy of an evaluation, on the device that is asked for.

use echo_policy::generation::device::{DeviceError, Survey};
use echo_policy::generation::{AnyBackend, Device, DeviceChoice, EngineError, Policy};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;

/// Why no device takes the policy.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no such device, or it does not open.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// It does not take the weights.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Loads weights as `version`. `auto` goes to the next device where one does not open or has no room;
/// a device that is named is the only one: on another the same evaluation might take days.
///
/// # Errors
/// [`LoadError`] of the last device.
pub fn load(
    choice: &DeviceChoice,
    precision: Precision,
    version: u64,
    config: &ModelConfig,
    weights: &Weights,
) -> Result<Policy<AnyBackend>, LoadError> {
    if *choice == DeviceChoice::Cpu {
        return Ok(Device::cpu().policy(version, config, weights, precision)?);
    }
    let mut last = None;
    for found in Survey::take().candidates(choice, precision)? {
        let loaded = found
            .open()
            .map_err(LoadError::from)
            .and_then(|device| Ok(device.policy(version, config, weights, precision)?));
        match loaded {
            Ok(policy) => {
                tracing::info!("evaluating on {found}");
                return Ok(policy);
            }
            Err(error) if *choice == DeviceChoice::Auto => {
                tracing::warn!("{found} is passed over: {error}");
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    // There always is a candidate: the last one is the processor.
    Err(last.unwrap_or(LoadError::Device(DeviceError::NotBuilt { device: choice.clone() })))
}
