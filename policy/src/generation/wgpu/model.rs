//! A model in a device's memory, and its forward pass.
//!
//! What is in this folder may import the rest of `wgpu`, which imports of it only this page and `head`.
//!
//! ```text
//! WgpuModel::load -> matrix, linear, layer, head: weights and kernels on the device
//! WgpuModel::forward -> feeding: the words of a call -> workspace: its buffers
//!   -> layer by layer -> head: logits, or a chosen token -> read back
//! ```

pub(crate) mod feeding;
pub(crate) mod head;
pub(crate) mod layer;
pub(crate) mod linear;
pub(crate) mod matrix;
pub(crate) mod moving;
pub(crate) mod workspace;

use std::sync::Arc;

use parking_lot::Mutex;
use wgpu::{Buffer, BufferUsages, CommandBuffer, CommandEncoderDescriptor, ComputePassDescriptor, MapMode};

use super::cache::{CacheGrowth, GpuCache};
use super::gpu::Gpu;
use super::handle::{Binding, Handle};
use super::kernel::{Dispatch, Kernel, KernelConstant};
use super::model::feeding::Feeding;
use super::model::head::{RowWanted, TokenChoice, WgpuHead};
use super::model::layer::WgpuLayer;
use super::model::linear::dtype_number;
use super::model::matrix::{RowOrder, WgpuMatrix};
use super::model::moving::Moving;
use super::model::workspace::{CHOICE_BYTES, PassBuffers, Sizes};
use super::pages::{PagePool, WgpuPageShape};
use crate::generation::EngineError;
use crate::generation::backend::Feed;
use crate::model::config::ModelConfig;
use crate::model::weights::Weights;
use crate::model::weights::named::tensor;

/// Multiplications that are handed over at a time. Systems take a device away from who keeps it for
/// seconds: long calls come in parts.
const SUBMITTED_OPERATIONS: usize = 100_000_000_000;

const EMBED: Kernel = Kernel {
    name: "embed",
    threads: 64,
    // For the words that name a thread.
    reduces: true,
    sources: &[
        include_str!("shaders/weights.wgsl"),
        include_str!("shaders/shard.wgsl"),
        include_str!("shaders/embed.wgsl"),
    ],
    bindings: &[Binding::Uniform, Binding::Read, Binding::Read, Binding::Write],
};

const COPY: Kernel = Kernel {
    name: "copy",
    threads: 256,
    reduces: false,
    sources: &[include_str!("shaders/copy.wgsl")],
    bindings: &[Binding::Read, Binding::Write],
};

/// A row of logits that was wanted.
pub(super) struct WantedRow<'a> {
    /// What was chosen; zeros where nothing was wished for.
    pub(super) choice: TokenChoice,
    /// The logits, where they were wanted.
    pub(super) logits: &'a [f32],
}

/// What is wanted of the logits of a call: of each row, what to choose and whether to
/// have the logits themselves.
pub(super) struct Wanted<'a> {
    /// After which of the call's tokens.
    pub(super) rows: Vec<usize>,
    /// Empty where nothing is to be chosen.
    pub(super) wishes: Vec<RowWanted>,
    pub(super) whole: &'a dyn Fn(usize) -> bool,
}

pub(super) struct WgpuModel {
    pub(super) gpu: Arc<Gpu>,
    handle: Arc<Handle>,
    pub(super) pool: Arc<PagePool>,
    sizes: Sizes,
    inv_freq: Vec<f32>,
    room: PassBuffers,
    embed: Vec<Dispatch>,
    layers: Vec<WgpuLayer>,
    head: WgpuHead,
    /// Multiplications of a token in a layer.
    layer_operations: usize,
    vocab: usize,
    moving: Mutex<Moving>,
}

impl WgpuModel {
    /// Copies a model to the device.
    pub(super) fn load(gpu: &Arc<Gpu>, config: &ModelConfig, weights: &Weights) -> Result<Self, EngineError> {
        weights.check(config)?;
        let pool = gpu.pool(WgpuPageShape::of(config));
        let (owner, gpu) = (gpu, gpu.handle());
        let sizes = Sizes::of(config, gpu.binding_bytes());
        gpu.scoped(weights.total_bytes() as u64, || {
            let room = PassBuffers::new(gpu, config, &sizes);
            let table =
                WgpuMatrix::load(gpu, &[tensor(weights, "model.embed_tokens.weight")?], RowOrder::Stacked)?;
            let embed = table.shards.iter().map(|shard| {
                let words = gpu.filled("shard", &shard.words(table.width, 0, false), BufferUsages::UNIFORM);
                let constants = [("DTYPE", KernelConstant::U32(dtype_number(table.dtype)))];
                Dispatch::new(gpu, &EMBED, &constants, &[&words, &room.tokens, &shard.weights, &room.x])
            });
            let embed = embed.collect();
            let layers = (0..config.num_hidden_layers)
                .map(|index| WgpuLayer::load(gpu, config, &room, index, weights));
            let layers: Vec<_> = layers.collect::<Result<_, _>>()?;
            let projection = if config.tie_word_embeddings {
                table
            } else {
                WgpuMatrix::load(gpu, &[tensor(weights, "lm_head.weight")?], RowOrder::Stacked)?
            };
            let head = WgpuHead::load(gpu, config, (&room, &sizes), &projection, weights)?;
            gpu.finish();
            let attention = config.hidden_size * (2 * config.q_dim() + 2 * config.kv_dim());
            Ok(Self {
                gpu: Arc::clone(owner),
                handle: Arc::clone(gpu),
                pool,
                sizes,
                inv_freq: config.inv_freq(),
                room,
                embed,
                layers,
                head,
                layer_operations: attention + 3 * config.hidden_size * config.intermediate_size,
                vocab: config.vocab_size,
                moving: Mutex::default(),
            })
        })
    }

    /// Feeds tokens, and hands over each row of logits that is wanted, with its number.
    ///
    /// The tokens are in the caches when this returns, but where the device had no room or was lost.
    pub(super) fn forward(
        &self,
        config: &ModelConfig,
        feeds: &mut [Feed<'_, GpuCache>],
        wanted: &Wanted<'_>,
        mut take: impl FnMut(usize, WantedRow<'_>),
    ) -> Result<(), EngineError> {
        let _turn = self.handle.turn();
        let growths = self.growths(feeds)?;
        let feeding = Feeding::new(feeds, &growths, &self.sizes, &self.inv_freq);
        let mut moving = self.moving.lock();
        let bytes = self.readback_bytes(wanted) + 4 * feeding.table.len() as u64;
        let done = self.handle.scoped(bytes, || {
            self.prepare(config, &feeding, &mut moving);
            let mut pending = self.record_layers(&feeding, &moving);
            if wanted.rows.is_empty() {
                self.handle.queue.submit(pending);
                self.handle.finish();
                return Ok(());
            }
            for (block, rows) in wanted.rows.chunks(self.sizes.logit_rows).enumerate() {
                let start = block * self.sizes.logit_rows;
                self.logits(std::mem::take(&mut pending), start, rows, wanted, &mut moving, &mut take)?;
            }
            Ok(())
        });
        if done.is_err() {
            // A buffer that there was no room for is of no use later either.
            *moving = Moving::default();
        }
        done?;
        for (feed, growth) in feeds.iter_mut().zip(growths) {
            feed.cache.commit(growth, feed.tokens.len());
        }
        Ok(())
    }

    /// What becomes of the caches: all have room, or none is changed.
    fn growths(&self, feeds: &[Feed<'_, GpuCache>]) -> Result<Vec<CacheGrowth>, EngineError> {
        let missing = feeds.iter().map(|feed| feed.cache.missing(feed.tokens.len())).sum();
        let mut fresh = self.pool.take(missing)?.into_iter();
        Ok(feeds.iter().map(|feed| feed.cache.grow(feed.tokens.len(), &mut fresh)).collect())
    }

    /// Writes what kernels are told, and sees that they look at the pages that there are.
    fn prepare(&self, config: &ModelConfig, feeding: &Feeding, moving: &mut Moving) {
        let (gpu, room) = (&*self.handle, &self.room);
        let write = |buffer: &Buffer, bytes: &[u8]| gpu.queue.write_buffer(buffer, 0, bytes);
        write(&room.tokens_count, bytemuck::bytes_of(&(feeding.tokens.len() as u32)));
        write(&room.tokens, bytemuck::cast_slice(&feeding.tokens));
        write(&room.tiles, bytemuck::cast_slice(&feeding.tiles));
        write(&room.rotary, bytemuck::cast_slice(&feeding.rotary));
        moving.follow(gpu, config, (room, &self.sizes), &feeding.table, &self.pool, &self.layers);
    }

    /// All layers; what is too much for one submission is on its way when this returns.
    fn record_layers(&self, feeding: &Feeding, moving: &Moving) -> Vec<CommandBuffer> {
        let (gpu, tokens) = (&*self.handle, feeding.tokens.len());
        let at_once = (SUBMITTED_OPERATIONS / (self.layer_operations * tokens)).max(1);
        let copies = (!feeding.copies.is_empty()).then(|| {
            let jobs = gpu.filled("copies", &feeding.copies, BufferUsages::STORAGE);
            let constants = [("PAGE_FOURS", KernelConstant::U32(self.pool.shape().fours()))];
            let (pages, _) = self.pool.layers();
            pages
                .iter()
                .map(|pages| Dispatch::new(gpu, &COPY, &constants, &[&jobs, pages]))
                .collect::<Vec<_>>()
        });
        let mut pending: Vec<CommandBuffer> = Vec::new();
        let layers: Vec<_> = self.layers.iter().zip(&moving.sights).collect();
        for (number, layers) in layers.chunks(at_once).enumerate() {
            gpu.queue.submit(pending.drain(..));
            let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
            let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
            if number == 0 {
                for copy in copies.iter().flatten() {
                    copy.record(&mut pass, feeding.copies.len(), 1);
                }
                for shard in &self.embed {
                    shard.record(&mut pass, tokens, 1);
                }
            }
            for (layer, sight) in layers {
                layer.record(gpu, &mut pass, sight, (tokens, feeding.tiles.len(), feeding.single));
            }
            drop(pass);
            pending.push(encoder.finish());
        }
        pending
    }

    /// Makes one block of rows of logits after what is `pending`, and reads what is wanted of it.
    fn logits(
        &self,
        pending: Vec<CommandBuffer>,
        start: usize,
        rows: &[usize],
        wanted: &Wanted<'_>,
        moving: &mut Moving,
        take: &mut impl FnMut(usize, WantedRow<'_>),
    ) -> Result<(), EngineError> {
        let (gpu, room) = (&*self.handle, &self.room);
        let numbers: Vec<u32> = rows.iter().map(|row| *row as u32).collect();
        gpu.queue.write_buffer(&room.rows_count, 0, bytemuck::bytes_of(&(rows.len() as u32)));
        gpu.queue.write_buffer(&room.logit_rows, 0, bytemuck::cast_slice(&numbers));
        let chooses = !wanted.wishes.is_empty();
        if chooses {
            let wishes = &wanted.wishes[start..start + rows.len()];
            gpu.queue.write_buffer(&room.picks, 0, bytemuck::cast_slice(wishes));
        }
        let readback = moving.take_readback(gpu, self.readback_bytes(wanted));
        let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
        self.head.record(gpu, &mut pass, rows.len(), chooses);
        drop(pass);
        let choices = (rows.len() * CHOICE_BYTES) as u64;
        encoder.copy_buffer_to_buffer(&room.choices, 0, &readback, 0, choices);
        let row_bytes = 4 * self.vocab as u64;
        let whole: Vec<usize> = (0..rows.len()).filter(|row| (wanted.whole)(start + row)).collect();
        let mut end = choices;
        for row in &whole {
            encoder.copy_buffer_to_buffer(&room.logits, *row as u64 * row_bytes, &readback, end, row_bytes);
            end += row_bytes;
        }
        gpu.queue.submit(pending.into_iter().chain([encoder.finish()]));
        // Whether it was mapped shows when its bytes are asked for.
        readback.map_async(MapMode::Read, 0..end, |_| ());
        gpu.finish();
        {
            let bytes = readback.get_mapped_range(0..end).map_err(|error| gpu.lost(error.to_string()))?;
            let (choices, logits) = bytes.split_at(choices as usize);
            let choices: &[TokenChoice] = bytemuck::cast_slice(choices);
            let mut logits = bytemuck::cast_slice::<u8, f32>(logits).chunks_exact(self.vocab);
            for (row, choice) in choices.iter().enumerate() {
                let logits = if whole.contains(&row) { logits.next().unwrap_or_default() } else { &[] };
                take(start + row, WantedRow { choice: *choice, logits });
            }
        }
        readback.unmap();
        moving.keep_readback(readback);
        Ok(())
    }

    /// Bytes that are read at a time.
    fn readback_bytes(&self, wanted: &Wanted<'_>) -> u64 {
        let rows = wanted.rows.len().min(self.sizes.logit_rows);
        let blocks = (0..wanted.rows.len()).step_by(self.sizes.logit_rows.max(1)).map(|start| {
            (start..wanted.rows.len().min(start + rows)).filter(|row| (wanted.whole)(*row)).count()
        });
        (rows * CHOICE_BYTES + blocks.max().unwrap_or(0) * 4 * self.vocab) as u64
    }
}
