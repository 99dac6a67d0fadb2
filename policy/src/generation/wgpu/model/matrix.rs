//! Weights in a device's memory, as they were published, in shards of whole rows.

use std::iter;

use wgpu::{Buffer, BufferUsages};

use crate::generation::EngineError;
use crate::generation::wgpu::handle::Handle;
use crate::model::weights::{DType, WeightTensor};

/// Partial sums of every product: spans of a row.
const SPANS: usize = 16;
/// Rows are zero from their inputs up to whole multiples of this: each span has whole eights.
const GRANULE: usize = SPANS * 8;
/// Most rows of a shard: the smallest tiles of a kernel that does one have eight, and there may
/// be 65,535 of them.
const MOST_ROWS: usize = 1 << 18;
/// Bytes that are put together before they are handed to the device, and that it is given to copy at a time.
const PIECE: usize = 8 << 20;
const UNFINISHED: usize = 64 << 20;

/// Numbers between rows of so many, in weights and activations alike.
pub(crate) fn width(inputs: usize) -> usize {
    inputs.next_multiple_of(GRANULE)
}

/// In which order the rows of several tensors stand.
#[derive(Clone, Copy)]
pub(crate) enum RowOrder {
    /// One tensor after the other.
    Stacked,
    /// One row of each in turn.
    Paired,
}

impl RowOrder {
    /// The tensor, and which of its rows, of each row.
    pub(crate) fn of<'a, T>(
        self,
        parts: &'a [T],
        rows: impl Fn(&T) -> usize + 'a,
    ) -> Box<dyn Iterator<Item = (&'a T, usize)> + 'a> {
        match self {
            Self::Stacked => {
                Box::new(parts.iter().flat_map(move |part| (0..rows(part)).map(move |row| (part, row))))
            }
            Self::Paired => {
                let all = parts.first().map_or(0, &rows);
                Box::new((0..all).flat_map(move |row| parts.iter().map(move |part| (part, row))))
            }
        }
    }
}

/// Some rows of a matrix.
pub(crate) struct Shard {
    /// Which row of the matrix is its first.
    pub(crate) first: usize,
    pub(crate) rows: usize,
    pub(crate) weights: Buffer,
}

impl Shard {
    /// What kernels are told of it: `Shard` there.
    pub(crate) fn words(&self, width: usize, stride: usize, biased: bool) -> [u32; 8] {
        let span = width / SPANS;
        [self.rows, self.first, width, span, stride, usize::from(biased), 0, 0].map(|word| word as u32)
    }
}

/// One or more weights `[out, in]` with the same inputs.
pub(crate) struct WgpuMatrix {
    pub(crate) dtype: DType,
    pub(crate) width: usize,
    pub(crate) shards: Vec<Shard>,
}

impl WgpuMatrix {
    /// Copies weights to the device. Where they are of different types, they are widened
    /// to f32. Within [`Handle::scoped`].
    ///
    /// Fails when the device has no room.
    pub(crate) fn load(gpu: &Handle, parts: &[&WeightTensor], order: RowOrder) -> Result<Self, EngineError> {
        let same = parts.windows(2).all(|pair| pair[0].dtype() == pair[1].dtype());
        let dtype = if same { parts[0].dtype() } else { DType::F32 };
        let inputs = parts[0].shape()[1];
        let width = width(inputs);
        let row_bytes = width * dtype.size();
        let total: usize = parts.iter().map(|part| part.shape()[0]).sum();
        // Kernels take rows by pairs.
        let limit = (gpu.shard_bytes() as usize / row_bytes).clamp(2, MOST_ROWS) / 2 * 2;
        let mut rows = order.of(parts, |part| part.shape()[0]);
        let mut shards = Vec::new();
        for first in (0..total).step_by(limit) {
            let count = limit.min(total - first);
            let weights = gpu.buffer("weights", (count * row_bytes) as u64, BufferUsages::STORAGE);
            let (mut piece, mut written, mut unfinished) = (Vec::new(), 0, 0);
            for (number, (part, row)) in rows.by_ref().take(count).enumerate() {
                append_row(part, row, dtype, &mut piece);
                piece.extend(iter::repeat_n(0, (width - inputs) * dtype.size()));
                if piece.len() >= PIECE || number + 1 == count {
                    gpu.queue.write_buffer(&weights, written, &piece);
                    written += piece.len() as u64;
                    unfinished += piece.len();
                    piece.clear();
                }
                if unfinished >= UNFINISHED {
                    gpu.finish();
                    unfinished = 0;
                }
            }
            gpu.finish();
            shards.push(Shard { first, rows: count, weights });
        }
        Ok(Self { dtype, width, shards })
    }
}

fn append_row(part: &WeightTensor, row: usize, dtype: DType, to: &mut Vec<u8>) {
    let inputs = part.shape()[1];
    if part.dtype() == dtype {
        let bytes = inputs * dtype.size();
        to.extend_from_slice(&part.bytes()[row * bytes..(row + 1) * bytes]);
        return;
    }
    let mut values = vec![0.0f32; inputs];
    part.row_to_f32(row, &mut values);
    to.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}
