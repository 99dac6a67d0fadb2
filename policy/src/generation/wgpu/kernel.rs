//! Kernels: WGSL with constants of a model's shape before it, compiled once for all models of that shape.

use std::fmt::{self, Display, Write as _};

use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, Buffer, ComputePass, ComputePipeline,
    ComputePipelineDescriptor, PipelineCompilationOptions, PipelineLayoutDescriptor, ShaderModuleDescriptor,
    ShaderRuntimeChecks, ShaderSource,
};

use super::handle::{Binding, Handle};

/// A number that a kernel is compiled with.
#[derive(Debug, Clone, Copy)]
pub(super) enum KernelConstant {
    U32(usize),
    F32(f32),
}

impl Display for KernelConstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U32(value) => write!(f, "u32 = {value}u"),
            Self::F32(value) => write!(f, "f32 = {value:e}f"),
        }
    }
}

/// A kernel's source, before constants are put in front.
pub(super) struct Kernel {
    pub(super) name: &'static str,
    /// Threads of a workgroup: THREADS in the source.
    pub(super) threads: usize,
    /// Whether threads reduce among each other, by subgroups or through workgroup memory.
    pub(super) reduces: bool,
    pub(super) sources: &'static [&'static str],
    pub(super) bindings: &'static [Binding],
}

impl Kernel {
    fn source(&self, subgroups: bool, constants: &[(&str, KernelConstant)]) -> String {
        let mut text = String::new();
        for (name, value) in [("THREADS", KernelConstant::U32(self.threads))].iter().chain(constants) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "const {name}: {value};");
        }
        if self.reduces {
            text.push_str(if subgroups {
                include_str!("shaders/reduce_subgroup.wgsl")
            } else {
                include_str!("shaders/reduce_memory.wgsl")
            });
        }
        text.extend(self.sources.iter().copied());
        text
    }

    /// The kernel with these constants. Within [`Handle::scoped`].
    pub(super) fn compile(&self, gpu: &Handle, constants: &[(&str, KernelConstant)]) -> ComputePipeline {
        let source = self.source(gpu.uses_subgroups(), constants);
        let mut pipelines = gpu.pipelines.lock();
        if let Some(pipeline) = pipelines.get(&source) {
            return pipeline.clone();
        }
        let descriptor =
            ShaderModuleDescriptor { label: Some(self.name), source: ShaderSource::Wgsl((&source).into()) };
        // Accesses stay checked. A counter in every loop would be most of the work of the smallest.
        let checks = ShaderRuntimeChecks { force_loop_bounding: false, ..ShaderRuntimeChecks::checked() };
        // SAFETY: every loop of the kernels counts up or down to a bound that it does not change.
        let module = unsafe { gpu.device.create_shader_module_trusted(descriptor, checks) };
        let layout = gpu.layout(self.bindings);
        let layout = gpu.device.create_pipeline_layout(&PipelineLayoutDescriptor {
            label: Some(self.name),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = gpu.device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: Some(self.name),
            layout: Some(&layout),
            module: &module,
            entry_point: Some("main"),
            // Every kernel writes workgroup memory before it reads it.
            compilation_options: PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..PipelineCompilationOptions::default()
            },
            cache: None,
        });
        pipelines.insert(source, pipeline.clone());
        pipeline
    }

    /// The buffers that it works on, in the order of its bindings. Within [`Handle::scoped`].
    pub(super) fn bind(&self, gpu: &Handle, buffers: &[&Buffer]) -> BindGroup {
        debug_assert_eq!(buffers.len(), self.bindings.len(), "{}", self.name);
        let entries: Vec<_> = (0..)
            .zip(buffers)
            .map(|(binding, buffer)| BindGroupEntry { binding, resource: buffer.as_entire_binding() })
            .collect();
        let layout = gpu.layout(self.bindings);
        gpu.device.create_bind_group(&BindGroupDescriptor {
            label: Some(self.name),
            layout: &layout,
            entries: &entries,
        })
    }
}

/// A kernel and what it works on.
pub(super) struct Dispatch {
    pub(super) pipeline: ComputePipeline,
    pub(super) bound: BindGroup,
}

impl Dispatch {
    pub(super) fn new(
        gpu: &Handle,
        kernel: &Kernel,
        constants: &[(&str, KernelConstant)],
        buffers: &[&Buffer],
    ) -> Self {
        Self { pipeline: kernel.compile(gpu, constants), bound: kernel.bind(gpu, buffers) }
    }

    /// Has so many workgroups do it.
    pub(super) fn record(&self, pass: &mut ComputePass<'_>, wide: usize, high: usize) {
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.bound, &[]);
        pass.dispatch_workgroups(wide as u32, high as u32, 1);
    }
}
