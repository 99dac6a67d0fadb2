//! The devices that a node generates on: the best one as long as it lasts, then the next, in
//! the end the processor.
//!
//! A device that was lost, or that its driver did not open, is not taken again until the node is
//! restarted: whoever takes a graphics card away from a program in the midst of a run may do so
//! every minute. One without room for a policy's weights is asked again for the next.

use std::fmt;
use std::sync::Arc;

use echo_policy::generation::device::{DeviceError, FoundDevice, Survey};
use echo_policy::generation::{AnyBackend, Device, DeviceChoice, EngineError, Policy};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use parking_lot::Mutex;

use crate::status::node_state::{LostDevice, NodeState};

/// Devices in the order in which they are taken.
#[derive(Debug)]
pub struct DeviceFallback {
    candidates: Vec<Mutex<Candidate>>,
    node_state: Arc<NodeState>,
}

/// A device, as far as it has come.
#[derive(Debug)]
enum Candidate {
    /// Listed by the survey, and not opened yet.
    Found(FoundDevice),
    /// In use, or ready to be.
    Open(Device),
    /// Lost, or not to be opened.
    Gone,
}

/// A policy, and where it was loaded.
pub struct Loaded {
    /// The device that had room for it.
    pub device: Device,
    /// The policy, ready to draw tokens there.
    pub policy: Policy<AnyBackend>,
}

impl DeviceFallback {
    /// The devices of this machine for an owner who wants `choice`, in a run that is computed in
    /// `precision`. Nothing is opened yet.
    ///
    /// # Errors
    /// [`DeviceError::None`] when nothing of what the owner asks for can be used.
    pub fn new(
        choice: &DeviceChoice,
        precision: Precision,
        node_state: Arc<NodeState>,
    ) -> Result<Self, DeviceError> {
        // Who wants the processor has no driver loaded, unless it cannot be used and the survey
        // has to say why.
        let cpu = Device::cpu();
        if *choice == DeviceChoice::Cpu && cpu.computes_in(precision) {
            return Ok(Self::of(vec![cpu], node_state));
        }
        let survey = Survey::take();
        let found = survey.candidates(choice, precision)?;
        for passed in survey.found.iter().filter(|device| !found.contains(device)) {
            if let Err(why) = passed.suits(choice, precision) {
                tracing::info!("passed over {passed}: {why}");
            }
        }
        Ok(Self {
            candidates: found.into_iter().map(|found| Mutex::new(Candidate::Found(found))).collect(),
            node_state,
        })
    }

    /// Devices that are open already.
    pub fn of(devices: Vec<Device>, node_state: Arc<NodeState>) -> Self {
        Self {
            candidates: devices.into_iter().map(|device| Mutex::new(Candidate::Open(device))).collect(),
            node_state,
        }
    }

    /// The processor alone, with a node state that nobody reads.
    pub fn cpu() -> Self {
        Self::of(vec![Device::cpu()], Arc::default())
    }

    /// Loads weights on the best device that is left and has room for them. Blocks, and longest for
    /// the first on a device.
    ///
    /// # Errors
    /// When the weights are not those of `config`, or no device is left.
    pub fn load(
        &self,
        version: u64,
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<Loaded, EngineError> {
        let mut last = None;
        for candidate in &self.candidates {
            let Some(device) = self.open(&mut candidate.lock()) else { continue };
            match device.policy(version, config, weights, precision) {
                Ok(policy) => {
                    self.took(&device);
                    return Ok(Loaded { device, policy });
                }
                Err(error @ EngineError::Memory { .. }) => {
                    tracing::warn!(
                        version,
                        "{} has no room for the policy: {error}; this version goes to the next device",
                        device.name()
                    );
                    last = Some(error);
                }
                Err(error @ EngineError::DeviceLost { .. }) => {
                    self.lost(&device, &error);
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| EngineError::DeviceLost {
            device: "every device of this machine".to_owned(),
            why: "none is left".to_owned(),
        }))
    }

    /// Takes note that a device was lost: it is not taken again.
    pub fn lost(&self, device: &Device, why: &dyn fmt::Display) {
        for candidate in &self.candidates {
            let mut candidate = candidate.lock();
            if matches!(&*candidate, Candidate::Open(open) if open.is(device)) {
                *candidate = Candidate::Gone;
                tracing::error!("{why}. It is not taken again until this node is restarted");
                self.gone(device.name(), why);
            }
        }
    }

    /// The name of the device that is taken next.
    pub fn first(&self) -> Option<String> {
        self.candidates.iter().find_map(|candidate| match &*candidate.lock() {
            Candidate::Found(found) => Some(found.name.clone()),
            Candidate::Open(device) => Some(device.name().to_owned()),
            Candidate::Gone => None,
        })
    }

    /// Whether a device was lost.
    pub fn is_lost(&self, device: &Device) -> bool {
        !self
            .candidates
            .iter()
            .any(|candidate| matches!(&*candidate.lock(), Candidate::Open(open) if open.is(device)))
    }

    fn open(&self, candidate: &mut Candidate) -> Option<Device> {
        match candidate {
            Candidate::Open(device) => Some(device.clone()),
            Candidate::Gone => None,
            Candidate::Found(found) => match found.open() {
                Ok(device) => {
                    tracing::info!("opened {found}");
                    *candidate = Candidate::Open(device.clone());
                    Some(device)
                }
                Err(error) => {
                    tracing::warn!("{found} is passed over: {error}");
                    self.gone(&found.name, &error);
                    *candidate = Candidate::Gone;
                    None
                }
            },
        }
    }

    fn took(&self, device: &Device) {
        self.node_state.set(|facts| {
            if facts.device.as_deref() != Some(device.name()) {
                tracing::info!("policies are loaded on {}", device.name());
                facts.device = Some(device.name().to_owned());
            }
        });
    }

    fn gone(&self, name: &str, why: &dyn fmt::Display) {
        let lost = LostDevice { name: name.to_owned(), why: why.to_string() };
        self.node_state.set(|facts| facts.lost_devices.push(lost));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::testing::card::{Call, card};
    use echo_policy::generation::device::About;
    use echo_protocol::program::clock;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn load(fallback: &DeviceFallback, version: u64) -> Result<Loaded, EngineError> {
        let config = testing::model();
        fallback.load(version, &config, &Weights::random(&config, version), Precision::F32)
    }

    fn lost() -> EngineError {
        EngineError::DeviceLost { device: "Card".into(), why: "unplugged".into() }
    }

    #[test]
    fn a_device_that_was_lost_is_not_taken_again() {
        let node_state = Arc::new(NodeState::default());
        let fallback = DeviceFallback::of(vec![card("Card", |_| None), Device::cpu()], node_state.clone());
        let first = load(&fallback, 1).unwrap();
        assert_eq!((first.device.name(), first.policy.version()), ("Card", 1));
        assert_eq!(fallback.first().as_deref(), Some("Card"));
        assert!(!fallback.is_lost(&first.device));
        for _ in 0..2 {
            fallback.lost(&first.device, &lost());
            assert!(fallback.is_lost(&first.device));
        }
        assert_eq!(fallback.first().as_deref(), Some("CPU"));
        assert_eq!(load(&fallback, 2).unwrap().device.name(), "CPU");
        let facts = node_state.facts(clock::now());
        assert_eq!(facts.device.as_deref(), Some("CPU"));
        assert!(
            matches!(&facts.lost_devices[..], [lost] if lost.name == "Card" && lost.why.contains("unplugged")),
            "{facts:?}"
        );
    }

    #[test]
    fn a_device_that_is_lost_while_it_is_loaded_is_passed_over() {
        let dying = card("Card", |call| matches!(call, Call::Load).then(lost));
        let fallback = DeviceFallback::of(vec![dying, Device::cpu()], Arc::default());
        assert_eq!(load(&fallback, 1).unwrap().device.name(), "CPU");
        assert_eq!(fallback.first().as_deref(), Some("CPU"));
        let dying = card("Card", |_| Some(lost()));
        let fallback = DeviceFallback::of(vec![dying], Arc::default());
        for _ in 0..2 {
            assert!(matches!(load(&fallback, 1), Err(EngineError::DeviceLost { .. })));
        }
    }

    #[test]
    fn without_room_a_version_goes_to_the_next_device_and_another_is_tried_again() {
        let full = Arc::new(AtomicBool::new(true));
        let asked = full.clone();
        let small = card("Card", move |call| {
            let refused = matches!(call, Call::Load) && asked.load(Ordering::Relaxed);
            refused.then_some(EngineError::Memory { wanted: 2, free: 1 })
        });
        let node_state = Arc::new(NodeState::default());
        let fallback = DeviceFallback::of(vec![small, Device::cpu()], node_state.clone());
        assert_eq!(load(&fallback, 1).unwrap().device.name(), "CPU");
        full.store(false, Ordering::Relaxed);
        assert_eq!(load(&fallback, 2).unwrap().device.name(), "Card");
        let facts = node_state.facts(clock::now());
        assert_eq!((facts.device.as_deref(), facts.lost_devices.len()), (Some("Card"), 0));
    }

    #[test]
    fn a_device_that_does_not_open_is_passed_over() {
        let gone = FoundDevice {
            name: "Gone".into(),
            about: About::Cuda { index: 1 << 20, memory_bytes: 1, capability: (9, 0), driver: (12, 0) },
            precisions: vec![Precision::F32],
            obstacle: None,
        };
        let node_state = Arc::new(NodeState::default());
        let mut fallback = DeviceFallback::of(vec![Device::cpu()], node_state.clone());
        fallback.candidates.insert(0, Mutex::new(Candidate::Found(gone)));
        assert_eq!(fallback.first().as_deref(), Some("Gone"));
        assert_eq!(load(&fallback, 1).unwrap().device.name(), "CPU");
        assert_eq!(fallback.first().as_deref(), Some("CPU"));
        assert_eq!(node_state.facts(clock::now()).lost_devices[0].name, "Gone");
    }

    #[test]
    fn weights_of_another_model_are_an_error_on_every_device() {
        let fallback = DeviceFallback::of(vec![card("Card", |_| None), Device::cpu()], Arc::default());
        let config = testing::model();
        let mut other = config.clone();
        other.intermediate_size /= 2;
        let weights = Weights::random(&other, 1);
        let refused = fallback.load(1, &config, &weights, Precision::F32).err();
        assert!(matches!(refused, Some(EngineError::Weights(_))), "{refused:?}");
        assert_eq!(fallback.first().as_deref(), Some("Card"));
    }

    #[test]
    fn who_wants_the_processor_gets_nothing_else() {
        let fallback = DeviceFallback::new(&DeviceChoice::Cpu, Precision::Int8, Arc::default()).unwrap();
        assert_eq!((fallback.candidates.len(), fallback.first().as_deref()), (1, Some("CPU")));
        let fallback = DeviceFallback::new(&DeviceChoice::Auto, Precision::Int4, Arc::default()).unwrap();
        assert_eq!(fallback.first().as_deref(), Some("CPU"), "nothing else computes in int4");
        let none =
            DeviceFallback::new(&"cuda:999".parse().unwrap(), Precision::F32, Arc::default()).unwrap_err();
        assert!(none.to_string().contains("cuda:999"), "{none}");
    }
}
