//! Weights on a device.

use std::sync::Arc;

use super::device::{CudaDevice, DeviceBuffer};
use super::driver::{Address, Launch};
use super::kernels::Linear;
use crate::generation::EngineError;
use crate::model::precision::Precision;
use crate::model::weights::named::{tensor, vector};
use crate::model::weights::{DType, RawTensor, WeightTensor, Weights};

/// Bytes that are made ready at a time.
const STAGE: usize = 16 << 20;

/// How a precision lays out its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OperandLayout(Precision);

impl OperandLayout {
    /// Only for [`Precision::F32`] and [`Precision::Bf16`].
    pub(super) fn new(precision: Precision) -> Option<Self> {
        matches!(precision, Precision::F32 | Precision::Bf16).then_some(Self(precision))
    }

    pub(super) fn precision(self) -> Precision {
        self.0
    }

    pub(super) fn is_bf16(self) -> bool {
        self.0 == Precision::Bf16
    }

    /// Rows of operands are padded to multiples of so many numbers: a chunk of a lane, or two
    /// steps of tensor cores.
    pub(super) fn padded(self, width: usize) -> usize {
        width.next_multiple_of(if self.is_bf16() { 32 } else { 8 })
    }

    /// The kernel of that name that makes operands of this precision.
    pub(super) fn pick(self, f32: &'static str, bf16: &'static str) -> &'static str {
        if self.is_bf16() { bf16 } else { f32 }
    }
}

/// Numbers in f32: a norm or a bias.
pub(super) fn upload_vector(device: &Arc<CudaDevice>, values: &[f32]) -> Result<DeviceBuffer, EngineError> {
    let buffer = device.buffer(size_of_val(values))?;
    device.upload(bytemuck::cast_slice(values), buffer.address())?;
    Ok(buffer)
}

/// One or more weights `[outputs, inputs]` below each other, and their biases.
pub(super) struct CudaMatrix {
    buffer: DeviceBuffer,
    bias: Option<DeviceBuffer>,
    dtype: DType,
    /// As the rows are padded.
    inputs: usize,
    outputs: usize,
    /// Whether tensor cores multiply it.
    tensor_cores: bool,
}

impl CudaMatrix {
    /// The weights `{name}.weight` below each other for products of the recipe,
    /// with `{name}.bias` where `biased`.
    pub(super) fn load(
        device: &Arc<CudaDevice>,
        weights: &Weights,
        names: &[String],
        biased: bool,
        recipe: OperandLayout,
    ) -> Result<Self, EngineError> {
        let dtype = recipe.is_bf16().then_some(DType::BF16);
        let mut matrix = Self::upload(device, weights, names, recipe, dtype)?;
        if biased {
            let biases = names.iter().map(|name| vector(weights, &format!("{name}.bias")));
            let biases = biases.collect::<Result<Vec<_>, _>>()?.concat();
            matrix.bias = Some(upload_vector(device, &biases)?);
        }
        Ok(matrix)
    }

    /// A table of embeddings, whose rows every recipe takes as they were published.
    pub(super) fn load_table(
        device: &Arc<CudaDevice>,
        weights: &Weights,
        name: &str,
        recipe: OperandLayout,
    ) -> Result<Self, EngineError> {
        Self::upload(device, weights, &[name.to_owned()], recipe, None)
    }

    fn upload(
        device: &Arc<CudaDevice>,
        weights: &Weights,
        names: &[String],
        recipe: OperandLayout,
        dtype: Option<DType>,
    ) -> Result<Self, EngineError> {
        let parts = names.iter().map(|name| tensor(weights, &format!("{name}.weight")));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let common = parts[0].dtype();
        let common = if parts.iter().all(|part| part.dtype() == common) { common } else { DType::F32 };
        let dtype = dtype.unwrap_or(common);
        let outputs = parts.iter().map(|part| part.shape()[0]).sum();
        let width = parts[0].shape()[1];
        let inputs = recipe.padded(width);
        let buffer = device.buffer(outputs * inputs * dtype.size())?;
        let mut to = buffer.address();
        for part in parts {
            if part.dtype() == dtype && inputs == width {
                for bytes in part.bytes().chunks(STAGE) {
                    device.upload(bytes, to)?;
                    to += bytes.len() as u64;
                }
                continue;
            }
            let rows = (STAGE / (inputs * 4)).max(1);
            for first in (0..part.shape()[0]).step_by(rows) {
                let count = rows.min(part.shape()[0] - first);
                let bytes = padded_rows(part, first..first + count, inputs, dtype);
                device.upload(&bytes, to)?;
                to += bytes.len() as u64;
            }
        }
        let tensor_cores = recipe.is_bf16() && dtype == DType::BF16;
        Ok(Self { buffer, bias: None, dtype, inputs, outputs, tensor_cores })
    }

    /// Whether products of the recipe take it as it is.
    pub(super) fn is_operand(&self, recipe: OperandLayout) -> bool {
        self.tensor_cores == recipe.is_bf16()
    }

    /// Where the numbers lie.
    pub(super) fn address(&self) -> Address {
        self.buffer.address()
    }

    pub(super) fn dtype(&self) -> DType {
        self.dtype
    }

    /// Numbers of a padded row.
    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// y (+)= x · Wᵀ + b for rows of x that are padded as the weights are; rows of y
    /// are `y_stride` numbers apart.
    pub(super) fn multiply(
        &self,
        device: &CudaDevice,
        x: Address,
        y: Address,
        tokens: usize,
        y_stride: usize,
        add: bool,
    ) -> Result<(), EngineError> {
        let bias = self.bias.as_ref().map_or(0, DeviceBuffer::address);
        let arguments = Linear {
            weight: self.address(),
            bias,
            x,
            y,
            inputs: self.inputs as u32,
            outputs: self.outputs as u32,
            tokens: tokens as u32,
            y_stride: y_stride as u32,
            add: u32::from(add),
            unused: 0,
        };
        let (kernel, launch) = if self.tensor_cores { self.tiles(tokens) } else { self.lanes(tokens) };
        // SAFETY: the callers' buffers have these rows, and the kernels take this structure.
        unsafe { device.launch(kernel, launch, &arguments) }
    }

    /// How so many tokens are multiplied in f32. The choice is of speed alone.
    fn lanes(&self, tokens: usize) -> (&'static str, Launch) {
        const WARPS: usize = 8;
        let (at, rows, columns) = match tokens {
            1 if self.outputs <= 8192 => (0, 1, 1),
            1 => (1, 2, 1),
            2 => (2, 2, 2),
            3 | 4 => (3, 2, 4),
            5..=32 => (4, 4, 8),
            _ => (5, 8, 8),
        };
        let kernels = match self.dtype {
            DType::F32 => [
                "linear_f32_1x1",
                "linear_f32_2x1",
                "linear_f32_2x2",
                "linear_f32_2x4",
                "linear_f32_4x8",
                "linear_f32_8x8",
            ],
            DType::BF16 => [
                "linear_bf16_1x1",
                "linear_bf16_2x1",
                "linear_bf16_2x2",
                "linear_bf16_2x4",
                "linear_bf16_4x8",
                "linear_bf16_8x8",
            ],
            DType::F16 => [
                "linear_f16_1x1",
                "linear_f16_2x1",
                "linear_f16_2x2",
                "linear_f16_2x4",
                "linear_f16_4x8",
                "linear_f16_8x8",
            ],
        };
        let blocks = [self.outputs.div_ceil(WARPS * rows) as u32, tokens.div_ceil(columns) as u32, 1];
        (kernels[at], Launch { blocks, threads: 32 * WARPS as u32, shared: 0 })
    }

    /// How so many tokens are multiplied on tensor cores. The choice is of speed alone.
    fn tiles(&self, tokens: usize) -> (&'static str, Launch) {
        let (kernel, outputs, columns, threads) = match tokens {
            ..=8 => ("mma_few_1", 16, 8, 256),
            9..=16 => ("mma_few_2", 16, 16, 256),
            17..=64 => ("mma_few_4", 16, 32, 256),
            _ => ("mma_many", 128, 64, 128),
        };
        let blocks = [self.outputs.div_ceil(outputs) as u32, tokens.div_ceil(columns) as u32, 1];
        (kernel, Launch { blocks, threads, shared: 0 })
    }
}

/// Rows of a weight with zeros after them, in another type.
fn padded_rows(part: &WeightTensor, rows: std::ops::Range<usize>, padded: usize, dtype: DType) -> Vec<u8> {
    let width = part.shape()[1];
    let mut values = vec![0.0; rows.len() * padded];
    for (row, values) in rows.clone().zip(values.chunks_exact_mut(padded)) {
        part.row_to_f32(row, &mut values[..width]);
    }
    RawTensor::from_f32(part.name(), &[rows.len(), padded], &values, dtype).bytes
}
