//! Which adapters a machine has, and which one is taken.

use std::fmt;
use std::str::FromStr;

use wgpu::{Adapter, Backends, DeviceType, Features, Instance, InstanceDescriptor, InstanceFlags};

use super::GpuError;

/// Share of a device's memory, in percent, up to which buffers are made where its driver tells:
/// somebody's desktop may run on the rest.
const MEMORY_SHARE: u8 = 90;

/// What an adapter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterKind {
    /// A card with memory of its own.
    Discrete,
    /// Shares the processor's memory.
    Integrated,
    /// A share of a card, given to a virtual machine.
    Virtual,
    /// Its driver does not say.
    Unknown,
    /// A program that computes on the processor. Only taken when it is asked for: the CPU backend
    /// is many times as fast.
    Software,
}

impl AdapterKind {
    fn of(kind: DeviceType) -> Self {
        match kind {
            DeviceType::DiscreteGpu => Self::Discrete,
            DeviceType::IntegratedGpu => Self::Integrated,
            DeviceType::VirtualGpu => Self::Virtual,
            DeviceType::Other => Self::Unknown,
            DeviceType::Cpu => Self::Software,
        }
    }

    /// What it is called, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Discrete => "discrete",
            Self::Integrated => "integrated",
            Self::Virtual => "virtual",
            Self::Unknown => "unknown",
            Self::Software => "software",
        }
    }
}

/// An adapter of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Its number in the list.
    pub index: usize,
    /// Name that its driver gives.
    pub name: String,
    /// Kind of GPU, or software.
    pub kind: AdapterKind,
    /// `Vulkan`, `Metal` or `Dx12`. One device may be there through several.
    pub api: String,
    /// Name and version of the driver.
    pub driver: String,
    /// Bytes that a buffer may have.
    pub max_buffer_bytes: u64,
    /// Bytes of a buffer that a kernel may see.
    pub max_binding_bytes: u64,
    /// Whether threads of a subgroup may reduce among themselves.
    pub subgroups: bool,
}

impl fmt::Display for AdapterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {}, {})", self.name, self.kind.name(), self.api, self.driver)
    }
}

/// Which adapter is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AdapterChoice {
    /// The best one that is not software.
    #[default]
    Best,
    /// By its number in the list.
    Index(usize),
    /// By a part of its name, in any case; the best of several.
    Name(String),
}

impl FromStr for AdapterChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.trim() {
            "" | "auto" => Self::Best,
            text => text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Index),
        })
    }
}

/// All adapters of this machine, in the order of their numbers. None where no driver is installed.
pub fn adapters() -> Vec<AdapterInfo> {
    found().into_iter().map(|(info, _)| info).collect()
}

/// The adapter that is wanted.
pub(super) fn choose(choice: &AdapterChoice) -> Result<(AdapterInfo, Adapter), GpuError> {
    let mut found = found();
    let infos: Vec<_> = found.iter().map(|(info, _)| info.clone()).collect();
    let index = pick(&infos, choice)?;
    Ok(found.swap_remove(index))
}

fn found() -> Vec<(AdapterInfo, Adapter)> {
    let mut descriptor = InstanceDescriptor::new_without_display_handle();
    descriptor.backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
    descriptor.flags = InstanceFlags::empty();
    descriptor.memory_budget_thresholds.for_resource_creation = Some(MEMORY_SHARE);
    let backends = descriptor.backends;
    let adapters = pollster::block_on(Instance::new(descriptor).enumerate_adapters(backends));
    adapters.into_iter().enumerate().map(|(index, adapter)| (describe(index, &adapter), adapter)).collect()
}

fn describe(index: usize, adapter: &Adapter) -> AdapterInfo {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    AdapterInfo {
        index,
        name: info.name,
        kind: AdapterKind::of(info.device_type),
        api: format!("{:?}", info.backend),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        max_buffer_bytes: limits.max_buffer_size,
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        subgroups: adapter.features().contains(Features::SUBGROUP),
    }
}

/// Where in the list the wanted one is.
fn pick(infos: &[AdapterInfo], choice: &AdapterChoice) -> Result<usize, GpuError> {
    let best = |wanted: &dyn Fn(&AdapterInfo) -> bool| {
        let candidates = infos.iter().enumerate().filter(|(_, info)| wanted(info));
        candidates.min_by_key(|(_, info)| (info.kind as u8, info.api == "Dx12")).map(|(at, _)| at)
    };
    let no_such = |wanted: String| {
        let found: Vec<_> = infos.iter().map(|info| format!("{}: {info}", info.index)).collect();
        GpuError::NoSuchAdapter { wanted, found: found.join("; ") }
    };
    match choice {
        AdapterChoice::Best => best(&|info| info.kind != AdapterKind::Software).ok_or(GpuError::NoAdapter),
        AdapterChoice::Index(index) => {
            best(&|info| info.index == *index).ok_or_else(|| no_such(index.to_string()))
        }
        AdapterChoice::Name(part) => {
            let lower = part.to_lowercase();
            best(&|info| info.name.to_lowercase().contains(&lower)).ok_or_else(|| no_such(part.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Vec<AdapterInfo> {
        let adapter = |(index, (name, kind, api)): (usize, (&str, AdapterKind, &str))| AdapterInfo {
            index,
            name: name.into(),
            kind,
            api: api.into(),
            driver: String::new(),
            max_buffer_bytes: 1 << 30,
            max_binding_bytes: 1 << 27,
            subgroups: true,
        };
        let adapters = [
            ("llvmpipe", AdapterKind::Software, "Vulkan"),
            ("Small Graphics", AdapterKind::Integrated, "Vulkan"),
            ("Large Card", AdapterKind::Discrete, "Dx12"),
            ("Large Card", AdapterKind::Discrete, "Vulkan"),
        ];
        adapters.into_iter().enumerate().map(adapter).collect()
    }

    #[test]
    fn the_best_hardware_is_taken_and_software_only_when_it_is_asked_for() {
        let machine = machine();
        assert_eq!(pick(&machine, &AdapterChoice::Best).unwrap(), 3);
        assert_eq!(pick(&machine[..2], &AdapterChoice::Best).unwrap(), 1);
        assert!(matches!(pick(&machine[..1], &AdapterChoice::Best), Err(GpuError::NoAdapter)));
        assert!(matches!(pick(&[], &AdapterChoice::Best), Err(GpuError::NoAdapter)));
        for wanted in ["0", "LLVM"] {
            assert_eq!(pick(&machine, &wanted.parse().unwrap()).unwrap(), 0);
        }
        assert_eq!(pick(&machine, &"graphics".parse().unwrap()).unwrap(), 1);
        assert_eq!(pick(&machine, &"card".parse().unwrap()).unwrap(), 3);
        assert_eq!("auto".parse(), Ok(AdapterChoice::Best));
    }

    #[test]
    fn a_choice_that_is_not_there_is_told_what_is() {
        for wanted in ["4", "other"] {
            let error = pick(&machine(), &wanted.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains(wanted) && error.contains("1: Small Graphics"), "{error}");
        }
    }

    #[test]
    fn adapters_are_numbered_in_order_wherever_there_are_any() {
        for (index, info) in adapters().iter().enumerate() {
            assert_eq!(info.index, index);
            assert!(info.max_binding_bytes > 0 && !info.name.is_empty());
        }
    }
}
