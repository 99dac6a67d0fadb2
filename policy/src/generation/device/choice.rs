//! Which device somebody wants.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A device, as settings name it: `auto`, `cpu`, `cuda`, `cuda:1`, `wgpu`, `wgpu:radeon`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// The best there is: NVIDIA GPUs through CUDA, then other GPUs through wgpu, then the CPU.
    #[default]
    Auto,
    /// The processor, whatever else there is.
    Cpu,
    /// An NVIDIA GPU through CUDA, by its number; the first that can be used without one.
    Cuda(Option<usize>),
    /// A GPU through Vulkan, Metal or DX12, by its number or a part of its name in any case;
    /// without either, the best that is not software.
    Wgpu(Option<String>),
}

/// A text that names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no device; write auto, cpu, cuda, cuda:NUMBER, wgpu, wgpu:NUMBER or wgpu:NAME")]
pub struct UnknownDevice(String);

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(index)) => write!(f, "cuda:{index}"),
            Self::Wgpu(None) => f.write_str("wgpu"),
            Self::Wgpu(Some(name)) => write!(f, "wgpu:{name}"),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<Self, UnknownDevice> {
        let unknown = || UnknownDevice(text.to_owned());
        let (kind, which) = match text.trim().split_once(':') {
            Some((kind, which)) => (kind, Some(which.trim())),
            None => (text.trim(), None),
        };
        match (kind.to_ascii_lowercase().as_str(), which) {
            ("auto", None) => Ok(Self::Auto),
            ("cpu", None) => Ok(Self::Cpu),
            ("cuda", None) => Ok(Self::Cuda(None)),
            ("cuda", Some(index)) => {
                index.parse().map(|index| Self::Cuda(Some(index))).map_err(|_| unknown())
            }
            ("wgpu", None) => Ok(Self::Wgpu(None)),
            ("wgpu", Some(name)) if !name.is_empty() => Ok(Self::Wgpu(Some(name.to_owned()))),
            _ => Err(unknown()),
        }
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = UnknownDevice;

    fn try_from(text: String) -> Result<Self, UnknownDevice> {
        text.parse()
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> Self {
        choice.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_as_it_is_written() {
        for text in ["auto", "cpu", "cuda", "cuda:0", "cuda:12", "wgpu", "wgpu:1", "wgpu:GeForce RTX 4090"] {
            let choice: DeviceChoice = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
            assert_eq!(serde_json::to_value(&choice).unwrap(), text);
            assert_eq!(serde_json::from_value::<DeviceChoice>(text.into()).unwrap(), choice);
        }
        assert_eq!(" CUDA:3 ".parse(), Ok(DeviceChoice::Cuda(Some(3))));
        assert_eq!("wgpu: a:b".parse(), Ok(DeviceChoice::Wgpu(Some("a:b".into()))));
    }

    #[test]
    fn what_is_no_device_is_told_what_is() {
        for text in ["", "gpu", "cpu:0", "auto:1", "cuda:", "cuda:x", "cuda:-1", "wgpu:", "wgpu: "] {
            let error = text.parse::<DeviceChoice>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("wgpu:NAME"), "{error}");
        }
    }
}
