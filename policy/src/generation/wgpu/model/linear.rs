//! Products of a matrix with the rows of a buffer.

use std::sync::OnceLock;

use wgpu::{BindGroup, Buffer, BufferUsages, ComputePass, ComputePipeline};

use crate::generation::wgpu::handle::{Binding, Handle};
use crate::generation::wgpu::kernel::{Kernel, KernelConstant};
use crate::generation::wgpu::model::matrix::WgpuMatrix;
use crate::model::weights::DType;

const BINDINGS: &[Binding] =
    &[Binding::Uniform, Binding::Uniform, Binding::Read, Binding::Read, Binding::Read, Binding::Write];

const FEW: Kernel = Kernel {
    name: "few columns",
    threads: 128,
    reduces: false,
    sources: &[
        include_str!("../shaders/numbers.wgsl"),
        include_str!("../shaders/weights.wgsl"),
        include_str!("../shaders/shard.wgsl"),
        include_str!("../shaders/linear.wgsl"),
        include_str!("../shaders/gemv.wgsl"),
    ],
    bindings: BINDINGS,
};

const MANY: Kernel = Kernel {
    name: "many columns",
    threads: 128,
    reduces: false,
    sources: &[
        include_str!("../shaders/numbers.wgsl"),
        include_str!("../shaders/weights.wgsl"),
        include_str!("../shaders/shard.wgsl"),
        include_str!("../shaders/linear.wgsl"),
        include_str!("../shaders/gemm.wgsl"),
    ],
    bindings: BINDINGS,
};

/// How many columns a kernel is for, and what a workgroup of it makes.
struct Shape {
    /// Most columns that it is chosen for.
    most: usize,
    rows: usize,
    columns: usize,
    /// Rows that a thread has a span of; 0 for [`MANY`].
    each: usize,
}

/// The kernel for few columns in three sizes, and the one for many.
const SHAPES: [Shape; 4] = [
    Shape { most: 1, rows: 8, columns: 1, each: 1 },
    Shape { most: 4, rows: 16, columns: 4, each: 2 },
    Shape { most: 32, rows: 16, columns: 16, each: 2 },
    Shape { most: usize::MAX, rows: 64, columns: 64, each: 0 },
];

/// What is done with products: UPDATE in the kernels.
#[derive(Clone, Copy)]
pub(crate) enum Update {
    /// They replace what was there.
    Set,
    /// They are added to it.
    Add,
    /// Rows stand in pairs of gate and up, of which silu(gate) · up is written.
    Swiglu,
}

/// A matrix with its input and its output.
pub(crate) struct WgpuLinear {
    /// Rows of each shard.
    shards: Vec<(usize, BindGroup)>,
    constants: [(&'static str, KernelConstant); 2],
    pipelines: [OnceLock<ComputePipeline>; SHAPES.len()],
}

/// Where products come from and go to.
pub(crate) struct Flow<'a> {
    /// The number of columns: rows of `x`.
    pub(crate) call: &'a Buffer,
    /// Inputs of the product, `[columns, width]`.
    pub(crate) x: &'a Buffer,
    /// Outputs of the product, `[columns, stride]`.
    pub(crate) y: &'a Buffer,
    pub(crate) stride: usize,
    pub(crate) update: Update,
}

/// The number that kernels know a type of weights by: DTYPE there.
pub(crate) fn dtype_number(dtype: DType) -> usize {
    match dtype {
        DType::F32 => 0,
        DType::BF16 => 1,
        DType::F16 => 2,
    }
}

impl WgpuLinear {
    /// Products of `matrix`, and a bias. Within [`Handle::scoped`].
    pub(crate) fn new(gpu: &Handle, matrix: &WgpuMatrix, bias: Option<&[f32]>, flow: &Flow<'_>) -> Self {
        let biases = gpu.filled("bias", bias.unwrap_or(&[0.0]), BufferUsages::STORAGE);
        let shards = matrix.shards.iter().map(|shard| {
            let words = shard.words(matrix.width, flow.stride, bias.is_some());
            let words = gpu.filled("shard", &words, BufferUsages::UNIFORM);
            let buffers = [flow.call, &words, &shard.weights, &biases, flow.x, flow.y];
            (shard.rows, FEW.bind(gpu, &buffers))
        });
        let constants = [
            ("DTYPE", KernelConstant::U32(dtype_number(matrix.dtype))),
            ("UPDATE", KernelConstant::U32(flow.update as usize)),
        ];
        Self { shards: shards.collect(), constants, pipelines: Default::default() }
    }

    /// Multiplies so many columns. Within [`Handle::scoped`].
    pub(crate) fn record(&self, gpu: &Handle, pass: &mut ComputePass<'_>, columns: usize) {
        let chosen = SHAPES.iter().position(|shape| columns <= shape.most).unwrap_or(SHAPES.len() - 1);
        let shape = &SHAPES[chosen];
        let pipeline = self.pipelines[chosen].get_or_init(|| {
            let [dtype, update] = self.constants;
            if shape.each == 0 {
                return MANY.compile(gpu, &[dtype, update]);
            }
            let sizes = [
                ("COLUMNS", KernelConstant::U32(shape.columns)),
                ("ROWS_EACH", KernelConstant::U32(shape.each)),
            ];
            FEW.compile(gpu, &[dtype, update, sizes[0], sizes[1]])
        });
        pass.set_pipeline(pipeline);
        for (rows, bound) in &self.shards {
            pass.set_bind_group(0, bound, &[]);
            let (wide, high) = (rows.div_ceil(shape.rows), columns.div_ceil(shape.columns));
            pass.dispatch_workgroups(wide as u32, high as u32, 1);
        }
    }
}
