//! Where the policy is trained: what a run file says, and the device itself.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(not(feature = "cuda"))]
mod without_cuda;

use candle_core::{Device, DeviceLocation};
use echo_policy::generation::DeviceChoice;
use echo_policy::training::decoder::Compute;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
#[cfg(not(feature = "cuda"))]
use without_cuda as cuda;

/// The devices that this program was built for.
pub const BUILT_IN: &str = if cfg!(feature = "cuda") { "cpu, cuda" } else { "cpu" };

/// `[train] device`: `auto`, `cpu`, `cuda` or `cuda:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TrainDevice {
    /// The first NVIDIA GPU if this program can use one, else the CPU.
    #[default]
    Auto,
    /// The processor, even in a program built for GPUs.
    Cpu,
    /// The NVIDIA GPU of this number.
    Cuda(usize),
}

/// Why the policy cannot be trained there.
#[derive(Debug, thiserror::Error)]
pub enum TrainDeviceError {
    /// Not the name of a device.
    #[error("{0:?} is no device: `auto`, `cpu`, `cuda` and `cuda:N` are")]
    Unknown(String),
    /// This program cannot use GPUs.
    #[error(
        "[train] device = \"{0}\": this echo-learner was built without CUDA. Build one with \
         `cargo build --release -p echo-learner --features cuda`, or set device = \"cpu\""
    )]
    NotBuiltIn(TrainDevice),
    /// The GPU does not answer.
    #[error(
        "[train] device = \"{device}\" does not answer: {cause}. `nvidia-smi` lists the GPUs that the driver sees; \
         device = \"cpu\" does without"
    )]
    NoAnswer {
        /// What was asked for.
        device: TrainDevice,
        /// What CUDA reported, in its own words.
        cause: String,
    },
    /// bf16 without a GPU.
    #[error(
        "[train] compute = \"bf16\" is for GPUs, and device = \"{0}\" is the CPU here, where it would be slower than f32: \
         set compute = \"f32\""
    )]
    Bf16OnCpu(TrainDevice),
}

impl TrainDevice {
    /// The device, for computing in `compute`.
    ///
    /// # Errors
    /// [`TrainDeviceError`] when it is not there, this program cannot use it, or `compute` is not for it.
    pub fn open(self, compute: Compute) -> Result<Device, TrainDeviceError> {
        let device = match self {
            Self::Cpu => Device::Cpu,
            Self::Cuda(number) => self.gpu(number)?,
            Self::Auto => match self.gpu(0) {
                Ok(device) => device,
                Err(TrainDeviceError::NoAnswer { cause, .. }) => {
                    tracing::warn!("no NVIDIA GPU answers ({cause}): training on the CPU");
                    Device::Cpu
                }
                Err(_) => Device::Cpu,
            },
        };
        if device.is_cpu() && compute == Compute::Bf16 {
            return Err(TrainDeviceError::Bf16OnCpu(self));
        }
        // What stays f32 in a bf16 run, the output projection, runs on tensor cores as well.
        candle_core::cuda::set_gemm_reduced_precision_f32(compute == Compute::Bf16);
        Ok(device)
    }

    fn gpu(self, number: usize) -> Result<Device, TrainDeviceError> {
        if !cfg!(feature = "cuda") {
            return Err(TrainDeviceError::NotBuiltIn(self));
        }
        cuda::open(number).map_err(|e| TrainDeviceError::NoAnswer { device: self, cause: e.to_string() })
    }
}

/// A device's name, as a run file would write it.
#[must_use]
pub fn name(device: &Device) -> String {
    match device.location() {
        DeviceLocation::Cuda { gpu_id } => TrainDevice::Cuda(gpu_id).to_string(),
        DeviceLocation::Cpu => TrainDevice::Cpu.to_string(),
        DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
    }
}

/// Bytes of a GPU's memory that are taken. Nothing that training ever took is given back, so this
/// is its peak, with what other programs hold. Nothing on the CPU.
///
/// # Errors
/// When the GPU fails.
pub fn memory_in_use(device: &Device) -> candle_core::Result<Option<u64>> {
    match device {
        Device::Cuda(device) => cuda::memory_in_use(device).map(Some),
        _ => Ok(None),
    }
}

impl fmt::Display for TrainDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl FromStr for TrainDevice {
    type Err = TrainDeviceError;

    fn from_str(text: &str) -> Result<Self, TrainDeviceError> {
        match text.parse::<DeviceChoice>() {
            Ok(DeviceChoice::Auto) => Ok(Self::Auto),
            Ok(DeviceChoice::Cpu) => Ok(Self::Cpu),
            Ok(DeviceChoice::Cuda(number)) => Ok(Self::Cuda(number.unwrap_or(0))),
            Ok(DeviceChoice::Wgpu(_)) | Err(_) => Err(TrainDeviceError::Unknown(text.to_owned())),
        }
    }
}

impl TryFrom<String> for TrainDevice {
    type Error = TrainDeviceError;

    fn try_from(text: String) -> Result<Self, TrainDeviceError> {
        text.parse()
    }
}

impl From<TrainDevice> for String {
    fn from(choice: TrainDevice) -> Self {
        choice.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for choice in [TrainDevice::Auto, TrainDevice::Cpu, TrainDevice::Cuda(0), TrainDevice::Cuda(3)] {
            assert_eq!(choice.to_string().parse::<TrainDevice>().unwrap(), choice);
        }
        assert_eq!("cuda".parse::<TrainDevice>().unwrap(), TrainDevice::Cuda(0));
        for wrong in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "wgpu", "wgpu:0"] {
            assert!(matches!(wrong.parse::<TrainDevice>(), Err(TrainDeviceError::Unknown(_))), "{wrong}");
        }
    }

    #[test]
    fn the_cpu_is_always_there_and_computes_in_f32() {
        assert_eq!(name(&TrainDevice::Cpu.open(Compute::F32).unwrap()), "cpu");
        let refused = TrainDevice::Cpu.open(Compute::Bf16).unwrap_err();
        assert!(refused.to_string().contains("compute = \"f32\""), "{refused}");
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_program_without_cuda_says_so_and_auto_is_the_cpu() {
        assert!(TrainDevice::Auto.open(Compute::F32).unwrap().is_cpu());
        assert!(matches!(TrainDevice::Auto.open(Compute::Bf16), Err(TrainDeviceError::Bf16OnCpu(_))));
        let refused = TrainDevice::Cuda(1).open(Compute::Bf16).unwrap_err().to_string();
        assert!(refused.contains("cuda:1") && refused.contains("--features cuda"), "{refused}");
    }
}
