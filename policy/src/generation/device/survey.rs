//! What there is on a machine, in which order it is taken, and why the rest is not.

use std::fmt;

use serde::Serialize;

use super::{CPU, Device, DeviceChoice, DeviceError, cpu};
use crate::model::precision::Precision;

/// What is known of a device before it is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum About {
    /// An NVIDIA GPU through CUDA.
    Cuda {
        /// Its number among those that the driver lists.
        index: usize,
        /// Bytes of its memory.
        memory_bytes: u64,
        /// Compute capability, major and minor number.
        capability: (i32, i32),
        /// The version of CUDA that the driver brings.
        driver: (i32, i32),
    },
    /// A GPU through Vulkan, Metal or DX12.
    Wgpu {
        /// Its number among the adapters.
        index: usize,
        /// `discrete`, `integrated`, `virtual`, `unknown` or `software`.
        adapter: &'static str,
        /// `Vulkan`, `Metal` or `Dx12`.
        api: String,
        /// Name and version of its driver.
        driver: String,
    },
    /// The processor of this machine.
    Cpu {
        /// The vector instructions that are used.
        instructions: &'static str,
        /// Threads that run at the same time.
        cores: usize,
    },
}

/// A device of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundDevice {
    /// What people call the device.
    pub name: String,
    /// Kind of device, with what matters of it.
    #[serde(flatten)]
    pub about: About,
    /// What it computes in.
    pub precisions: Vec<Precision>,
    /// Why it cannot be used, if it cannot.
    pub obstacle: Option<String>,
}

/// The devices of a machine, the better ones first and the processor last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// Every device that was found, usable or not.
    pub found: Vec<FoundDevice>,
    /// Why there are none of a kind.
    pub absent: Vec<String>,
}

impl FoundDevice {
    /// By which it is asked for.
    pub fn choice(&self) -> DeviceChoice {
        match &self.about {
            About::Cuda { index, .. } => DeviceChoice::Cuda(Some(*index)),
            About::Wgpu { index, .. } => DeviceChoice::Wgpu(Some(index.to_string())),
            About::Cpu { .. } => DeviceChoice::Cpu,
        }
    }

    /// Opens the device for policies to be loaded.
    ///
    /// # Errors
    /// When its driver refuses, or it has gone since it was found.
    pub fn open(&self) -> Result<Device, DeviceError> {
        match &self.about {
            #[cfg(feature = "nvidia")]
            About::Cuda { index, .. } => Ok(Device::new(crate::generation::cuda::open(*index, None)?)),
            #[cfg(feature = "gpu")]
            About::Wgpu { index, .. } => {
                use crate::generation::wgpu::{AdapterChoice, Gpu, GpuOptions};
                let adapter = AdapterChoice::Index(*index);
                Ok(Device::new(Gpu::open(GpuOptions { adapter, ..GpuOptions::default() })?))
            }
            About::Cpu { .. } => Ok(Device::cpu()),
            #[cfg(not(all(feature = "nvidia", feature = "gpu")))]
            _ => Err(DeviceError::NotBuilt { device: self.choice() }),
        }
    }

    fn is_software(&self) -> bool {
        matches!(self.about, About::Wgpu { adapter: "software", .. })
    }

    /// Whether it is among those that are asked for.
    fn is_meant_by(&self, choice: &DeviceChoice) -> bool {
        match (choice, &self.about) {
            (DeviceChoice::Auto, _) | (DeviceChoice::Cpu, About::Cpu { .. }) => true,
            (DeviceChoice::Cuda(wanted), About::Cuda { index, .. }) => {
                wanted.is_none_or(|wanted| wanted == *index)
            }
            (DeviceChoice::Wgpu(None), About::Wgpu { .. }) => true,
            (DeviceChoice::Wgpu(Some(wanted)), About::Wgpu { index, .. }) => match wanted.parse::<usize>() {
                Ok(wanted) => wanted == *index,
                Err(_) => self.name.to_lowercase().contains(&wanted.to_lowercase()),
            },
            _ => false,
        }
    }

    /// Why it is not taken by somebody who wants `choice`, to compute in `precision`.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn suits(&self, choice: &DeviceChoice, precision: Precision) -> Result<(), String> {
        if let Some(obstacle) = &self.obstacle {
            return Err(obstacle.clone());
        }
        if !self.precisions.contains(&precision) {
            if matches!(self.about, About::Cpu { .. }) {
                return Err(format!(
                    "it does not compute {precision} to the bit as others do, and would be taken for a liar; choose another precision"
                ));
            }
            let names: Vec<_> = self.precisions.iter().map(|precision| precision.name()).collect();
            return Err(format!("it computes in {}, and {precision} is wanted", names.join(" and ")));
        }
        // The CPU is where everything ends.
        if !(self.is_meant_by(choice) || matches!(self.about, About::Cpu { .. })) {
            return Err(format!("{choice} is asked for"));
        }
        if self.is_software() && !matches!(choice, DeviceChoice::Wgpu(Some(_))) {
            return Err(format!(
                "a program that computes on the processor, many times as slow as our own; only taken when asked for as {}",
                self.choice()
            ));
        }
        Ok(())
    }
}

impl fmt::Display for FoundDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.choice())
    }
}

impl Survey {
    /// Looks for devices. Drivers are loaded, nothing is opened.
    pub fn take() -> Self {
        let (mut found, mut absent) = (Vec::new(), Vec::new());
        for kind in [Self::cuda as fn() -> _, Self::wgpu] {
            match kind() {
                Ok(some) => found.extend::<Vec<_>>(some),
                Err(why) => absent.push(why),
            }
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        found.push(FoundDevice {
            name: CPU.to_owned(),
            about: About::Cpu { instructions: cpu::instructions(), cores },
            precisions: cpu::precisions(),
            obstacle: None,
        });
        Self { found, absent }
    }

    #[cfg(feature = "nvidia")]
    fn cuda() -> Result<Vec<FoundDevice>, String> {
        use crate::generation::cuda::devices;
        let found = devices().map_err(|error| format!("cuda: {error}"))?;
        let found = found.into_iter().map(|info| FoundDevice {
            obstacle: info.check().err().map(|error| error.to_string()),
            about: About::Cuda {
                index: info.index,
                memory_bytes: info.total_memory as u64,
                capability: info.capability,
                driver: info.driver,
            },
            name: info.name,
            precisions: super::cuda::PRECISIONS.to_vec(),
        });
        Ok(found.collect())
    }

    #[cfg(not(feature = "nvidia"))]
    fn cuda() -> Result<Vec<FoundDevice>, String> {
        Err("cuda: this program was built without it".to_owned())
    }

    #[cfg(feature = "gpu")]
    fn wgpu() -> Result<Vec<FoundDevice>, String> {
        use crate::generation::wgpu::adapters;
        let mut adapters = adapters();
        if adapters.is_empty() {
            return Err(format!("wgpu: {}", crate::generation::wgpu::GpuError::NoAdapter));
        }
        // As `wgpu` alone would choose.
        adapters.sort_by_key(|info| (info.kind as u8, info.api == "Dx12"));
        let found = adapters.into_iter().map(|info| FoundDevice {
            about: About::Wgpu {
                index: info.index,
                adapter: info.kind.name(),
                api: info.api,
                driver: info.driver,
            },
            name: info.name,
            precisions: super::wgpu::PRECISIONS.to_vec(),
            obstacle: None,
        });
        Ok(found.collect())
    }

    #[cfg(not(feature = "gpu"))]
    fn wgpu() -> Result<Vec<FoundDevice>, String> {
        Err("wgpu: this program was built without it".to_owned())
    }

    /// The devices for somebody who wants `choice`, to compute in `precision`: one to begin with,
    /// and others for when it is lost. The last is the processor.
    ///
    /// # Errors
    /// [`DeviceError::None`] when nothing is there of what was asked for, or nothing
    /// that computes in `precision`.
    pub fn candidates(
        &self,
        choice: &DeviceChoice,
        precision: Precision,
    ) -> Result<Vec<FoundDevice>, DeviceError> {
        let candidates: Vec<FoundDevice> =
            self.found.iter().filter(|found| found.suits(choice, precision).is_ok()).cloned().collect();
        if candidates.iter().any(|found| found.is_meant_by(choice)) {
            return Ok(candidates);
        }
        let why =
            |found: &FoundDevice| found.suits(choice, precision).err().map(|why| format!("{found}: {why}"));
        // That a machine has no NVIDIA GPU is nothing to somebody who wants another one.
        let wanted = choice.to_string();
        let kind = wanted.split(':').next().unwrap_or_default();
        let absent = self.absent.iter().filter(|why| *choice == DeviceChoice::Auto || why.starts_with(kind));
        let reasons: Vec<String> = self.found.iter().filter_map(why).chain(absent.cloned()).collect();
        Err(DeviceError::None { choice: choice.clone(), reasons: reasons.join("; ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Survey {
        let cuda = |index, obstacle: Option<&str>| FoundDevice {
            name: format!("Card {index}"),
            about: About::Cuda { index, memory_bytes: 8 << 30, capability: (8, 6), driver: (12, 2) },
            precisions: vec![Precision::F32, Precision::Bf16],
            obstacle: obstacle.map(str::to_owned),
        };
        let wgpu = |index, name: &str, adapter| FoundDevice {
            name: name.to_owned(),
            about: About::Wgpu { index, adapter, api: "Vulkan".into(), driver: "some".into() },
            precisions: vec![Precision::F32],
            obstacle: None,
        };
        let cpu = FoundDevice {
            name: "CPU".into(),
            about: About::Cpu { instructions: "AVX2", cores: 4 },
            precisions: Precision::ALL.to_vec(),
            obstacle: None,
        };
        let found = vec![
            cuda(0, Some("too old")),
            cuda(1, None),
            cuda(2, None),
            wgpu(1, "Radeon Large", "discrete"),
            wgpu(0, "Radeon Small", "integrated"),
            wgpu(2, "llvmpipe", "software"),
            cpu,
        ];
        Survey { found, absent: vec!["cuda: not here".into()] }
    }

    fn candidates(survey: &Survey, choice: &str, precision: Precision) -> Result<Vec<String>, String> {
        let candidates = survey.candidates(&choice.parse().unwrap(), precision);
        let candidates = candidates.map_err(|error| error.to_string())?;
        Ok(candidates.iter().map(|found| found.choice().to_string()).collect())
    }

    #[test]
    fn the_best_comes_first_and_the_cpu_last_whatever_is_asked_for() {
        let machine = machine();
        for (choice, precision, expected) in [
            ("auto", Precision::F32, vec!["cuda:1", "cuda:2", "wgpu:1", "wgpu:0", "cpu"]),
            ("auto", Precision::Bf16, vec!["cuda:1", "cuda:2", "cpu"]),
            ("auto", Precision::Int8, vec!["cpu"]),
            ("cpu", Precision::F32, vec!["cpu"]),
            ("cuda", Precision::Bf16, vec!["cuda:1", "cuda:2", "cpu"]),
            ("cuda:2", Precision::F32, vec!["cuda:2", "cpu"]),
            ("wgpu", Precision::F32, vec!["wgpu:1", "wgpu:0", "cpu"]),
            ("wgpu:RADEON", Precision::F32, vec!["wgpu:1", "wgpu:0", "cpu"]),
            ("wgpu:0", Precision::F32, vec!["wgpu:0", "cpu"]),
            ("wgpu:llvm", Precision::F32, vec!["wgpu:2", "cpu"]),
        ] {
            assert_eq!(candidates(&machine, choice, precision).unwrap(), expected, "{choice}");
        }
    }

    #[test]
    fn what_is_asked_for_and_not_there_is_an_error_that_tells_why() {
        let machine = machine();
        for (choice, precision, reason) in [
            ("cuda:0", Precision::F32, "too old"),
            ("cuda:7", Precision::F32, "cuda: not here"),
            ("cuda", Precision::Int4, "f32 and bf16, and int4 is wanted"),
            ("wgpu:radeon", Precision::Bf16, "it computes in f32, and bf16 is wanted"),
            ("wgpu:geforce", Precision::F32, "Radeon Small (wgpu:0): wgpu:geforce is asked for"),
        ] {
            let error = candidates(&machine, choice, precision).unwrap_err();
            assert!(error.contains(choice) && error.contains(reason), "{choice}: {error}");
        }
        let only_software = Survey { found: machine.found[5..].to_vec(), ..machine };
        let error = candidates(&only_software, "wgpu", Precision::F32).unwrap_err();
        assert!(error.contains("only taken when asked for as wgpu:2"), "{error}");
        assert_eq!(candidates(&only_software, "auto", Precision::F32).unwrap(), ["cpu"]);
        let mut inexact = only_software;
        inexact.found[1].precisions = vec![Precision::F32, Precision::Bf16];
        for choice in ["auto", "cpu"] {
            assert_eq!(candidates(&inexact, choice, Precision::Bf16).unwrap(), ["cpu"]);
            let error = candidates(&inexact, choice, Precision::Int8).unwrap_err();
            assert!(error.contains("it does not compute int8 to the bit as others do"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_of_another_kind_is_no_reason() {
        let absent = vec!["cuda: no NVIDIA driver".to_owned(), "wgpu: no adapter".to_owned()];
        let survey = Survey { found: Vec::new(), absent };
        let reasons = |choice: &str| {
            let choice = choice.parse().unwrap();
            survey.candidates(&choice, Precision::F32).unwrap_err().to_string()
        };
        assert!(reasons("wgpu:9").contains("no adapter") && !reasons("wgpu:9").contains("NVIDIA"));
        assert!(reasons("cuda").contains("NVIDIA") && !reasons("cuda").contains("adapter"));
        assert!(reasons("auto").contains("NVIDIA") && reasons("auto").contains("adapter"));
    }

    #[test]
    fn every_machine_has_a_processor_and_reasons_for_what_it_lacks() {
        let survey = Survey::take();
        let kinds =
            |letter: &str| survey.found.iter().filter(|f| f.choice().to_string().starts_with(letter)).count();
        let cpu = survey.found.last().unwrap();
        assert_eq!((cpu.choice(), kinds("cpu")), (DeviceChoice::Cpu, 1));
        for kind in ["cuda", "wgpu"] {
            assert_ne!(
                kinds(kind) == 0,
                survey.absent.iter().all(|why| !why.starts_with(kind)),
                "{survey:?}"
            );
        }
        let device = cpu.open().unwrap();
        assert!(device.is(&device.clone()) && !device.is(&Device::cpu()));
        assert!(Precision::ALL.iter().all(|precision| device.computes_in(*precision)));
    }
}
