//! What kernels, buffers and layers need of an opened device.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, Buffer, BufferBindingType,
    BufferDescriptor, BufferUsages, ComputePipeline, Device, DeviceDescriptor, ErrorFilter, Features,
    PollType, Queue, ShaderStages,
};

use super::GpuError;
use super::adapter::{self, AdapterChoice, AdapterInfo};
use crate::generation::EngineError;

/// Workgroup memory that the kernels use, in bytes; threads of their workgroups; buffers that they
/// see: what WebGPU promises.
const NEEDED: (u32, u32, u32) = (16 << 10, 256, 8);

/// How a kernel sees a buffer. A kernel's bindings are numbered in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Binding {
    /// A uniform buffer, for counts and constants of a call.
    Uniform,
    /// A storage buffer that the kernel only reads.
    Read,
    /// A storage buffer that the kernel reads and writes.
    Write,
}

impl Binding {
    fn entry(self, binding: u32) -> BindGroupLayoutEntry {
        let ty = match self {
            Self::Uniform => BufferBindingType::Uniform,
            Self::Read => BufferBindingType::Storage { read_only: true },
            Self::Write => BufferBindingType::Storage { read_only: false },
        };
        let ty = BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None };
        BindGroupLayoutEntry { binding, visibility: ShaderStages::COMPUTE, ty, count: None }
    }
}

/// How a device is used.
#[derive(Debug, Clone, Default)]
pub struct GpuOptions {
    /// Which of the adapters to open.
    pub adapter: AdapterChoice,
    /// Do without reductions among subgroups, though the device has them.
    pub without_subgroups: bool,
    /// Most bytes of a shard of a weight; what the device allows where it is less.
    pub shard_bytes: Option<u64>,
    /// Most bytes of all key-value caches of a model's shape; what the device allows where it is less.
    pub cache_bytes: Option<u64>,
}

/// An opened device: its queue, and the kernels that were compiled for it.
pub(super) struct Handle {
    /// The adapter, as it was listed.
    pub(super) info: AdapterInfo,
    pub(super) options: GpuOptions,
    pub(super) device: Device,
    pub(super) queue: Queue,
    /// Compiled kernels, by their source with its constants.
    pub(super) pipelines: Mutex<HashMap<String, ComputePipeline>>,
    /// Layouts of bind groups, which pipelines and groups of one kernel share.
    layouts: Mutex<HashMap<&'static [Binding], BindGroupLayout>>,
    /// Whose call is computed.
    turn: Mutex<()>,
    /// Why the device is gone, or what nobody was there to hear.
    trouble: Arc<Mutex<Option<String>>>,
}

impl Handle {
    /// Opens the adapter that `options` ask for.
    ///
    /// Fails when there is none, or it is too small, or its driver refuses.
    pub(super) fn open(options: GpuOptions) -> Result<Arc<Self>, GpuError> {
        let (info, adapter) = adapter::choose(&options.adapter)?;
        let limits = adapter.limits();
        for (what, found, needed) in [
            ("bytes of workgroup memory", limits.max_compute_workgroup_storage_size, NEEDED.0),
            ("threads in a workgroup", limits.max_compute_invocations_per_workgroup, NEEDED.1),
            ("storage buffers in a kernel", limits.max_storage_buffers_per_shader_stage, NEEDED.2),
        ] {
            if found < needed {
                let (adapter, found, needed) = (info.to_string(), found.into(), needed.into());
                return Err(GpuError::Lacks { adapter, what, found, needed });
            }
        }
        let descriptor = DeviceDescriptor {
            label: Some("echo"),
            required_features: adapter.features() & Features::SUBGROUP,
            required_limits: limits,
            ..DeviceDescriptor::default()
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))
            .map_err(|error| GpuError::Refused { adapter: info.to_string(), why: error.to_string() })?;
        let trouble = Arc::new(Mutex::new(None));
        let note = |trouble: &Arc<Mutex<Option<String>>>| {
            let trouble = Arc::clone(trouble);
            move |text| {
                trouble.lock().get_or_insert(text);
            }
        };
        let (lost, uncaptured) = (note(&trouble), note(&trouble));
        device.set_device_lost_callback(move |reason, text| lost(format!("{reason:?}: {text}")));
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| uncaptured(error.to_string())));
        Ok(Arc::new(Self {
            info,
            options,
            device,
            queue,
            pipelines: Mutex::default(),
            layouts: Mutex::default(),
            turn: Mutex::default(),
            trouble,
        }))
    }

    /// Whether reductions use subgroups.
    pub(super) fn uses_subgroups(&self) -> bool {
        self.info.subgroups && !self.options.without_subgroups
    }

    /// Most bytes of a buffer that kernels see as a whole.
    pub(super) fn binding_bytes(&self) -> u64 {
        self.info.max_binding_bytes.min(self.info.max_buffer_bytes)
    }

    /// Most bytes of a shard.
    pub(super) fn shard_bytes(&self) -> u64 {
        self.options.shard_bytes.unwrap_or(u64::MAX).min(self.binding_bytes())
    }

    /// Most bytes of the caches of one shape.
    pub(super) fn cache_bytes(&self) -> u64 {
        self.options.cache_bytes.unwrap_or(u64::MAX)
    }

    /// Waits until nobody else's call is computed.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// How kernels with these bindings see their buffers.
    pub(super) fn layout(&self, bindings: &'static [Binding]) -> BindGroupLayout {
        let mut layouts = self.layouts.lock();
        let make = || {
            let entries: Vec<_> =
                (0..).zip(bindings).map(|(number, binding)| binding.entry(number)).collect();
            self.device
                .create_bind_group_layout(&BindGroupLayoutDescriptor { label: None, entries: &entries })
        };
        layouts.entry(bindings).or_insert_with(make).clone()
    }

    /// A buffer that kernels use, zero at first. Within [`Handle::scoped`].
    pub(super) fn buffer(&self, label: &str, bytes: u64, usage: BufferUsages) -> Buffer {
        let usage = usage | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        // Bindings are of whole fours, and not empty.
        let size = bytes.next_multiple_of(16).max(16);
        self.device.create_buffer(&BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        })
    }

    /// A buffer with these numbers. Within [`Handle::scoped`].
    pub(super) fn filled<T: bytemuck::NoUninit>(
        &self,
        label: &str,
        values: &[T],
        usage: BufferUsages,
    ) -> Buffer {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let buffer = self.buffer(label, bytes.len() as u64, usage);
        self.queue.write_buffer(&buffer, 0, bytes);
        buffer
    }

    /// Hands over what was written, and waits until the device has done everything. Within
    /// [`Handle::scoped`].
    pub(super) fn finish(&self) {
        self.queue.submit(None);
        // A timeout cannot be, and what else goes wrong is reported to the scopes and callbacks.
        let _ = self.device.poll(PollType::wait_indefinitely());
    }

    /// Does something with the device, and says what went wrong with it: the only way in which it is used.
    ///
    /// Fails with [`EngineError::Memory`], of so many `wanted` bytes, when the device has no room;
    /// [`EngineError::DeviceLost`] for everything else.
    pub(super) fn scoped<T>(
        &self,
        wanted: u64,
        work: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.alive()?;
        let filters = [ErrorFilter::OutOfMemory, ErrorFilter::Internal, ErrorFilter::Validation];
        let mut scopes = filters.map(|filter| self.device.push_error_scope(filter));
        // wgpu panics where waiting fails because the device is gone.
        let done = panic::catch_unwind(AssertUnwindSafe(work));
        // The innermost is closed first.
        scopes.reverse();
        let [validation, internal, memory] = scopes.map(|scope| pollster::block_on(scope.pop()));
        if memory.is_some() {
            self.alive()?;
            return Err(EngineError::Memory { wanted: wanted as usize, free: 0 });
        }
        if let Some(error) = internal.or(validation) {
            self.alive()?;
            return Err(self.lost(error.to_string()));
        }
        let done = done.map_err(|panic| self.lost(text_of(&*panic)))?;
        self.alive()?;
        done
    }

    fn alive(&self) -> Result<(), EngineError> {
        let trouble = self.trouble.lock();
        trouble.as_ref().map_or(Ok(()), |why| Err(self.lost(why.clone())))
    }

    /// That the device is of no use any more.
    pub(super) fn lost(&self, why: String) -> EngineError {
        EngineError::DeviceLost { device: self.info.to_string(), why }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("its driver failed").to_owned()
}
