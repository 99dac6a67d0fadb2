//! What is made anew when it is too small, or when pages move.

use wgpu::{Buffer, BufferDescriptor, BufferUsages};

use crate::generation::wgpu::handle::Handle;
use crate::generation::wgpu::model::layer::{PageDispatches, WgpuLayer};
use crate::generation::wgpu::model::workspace::{PassBuffers, Sizes};
use crate::generation::wgpu::pages::PagePool;
use crate::model::config::ModelConfig;

#[derive(Default)]
pub(crate) struct Moving {
    /// u32: the pages of the call's sequences.
    table: Option<Buffer>,
    /// What the device's answers are copied to.
    readback: Option<Buffer>,
    /// By layer, and of which generation of the pages.
    pub(crate) sights: Vec<PageDispatches>,
    generation: u64,
}

impl Moving {
    /// Writes the table of a call, and sees that layers look at it and at the pages that
    /// there are. Within [`Handle::scoped`].
    pub(crate) fn follow(
        &mut self,
        gpu: &Handle,
        config: &ModelConfig,
        room: (&PassBuffers, &Sizes),
        words: &[u32],
        pool: &PagePool,
        layers: &[WgpuLayer],
    ) {
        let bytes = 4 * words.len() as u64;
        let table = match self.table.take().filter(|table| table.size() >= bytes) {
            Some(table) => table,
            None => {
                self.sights.clear();
                gpu.buffer("pages of sequences", 2 * bytes, BufferUsages::STORAGE)
            }
        };
        gpu.queue.write_buffer(&table, 0, bytemuck::cast_slice(words));
        let (pages, generation) = pool.layers();
        if self.sights.is_empty() || self.generation != generation {
            let sight = |(layer, pages)| PageDispatches::new(gpu, config, room, (&table, pages), layer);
            (self.sights, self.generation) = (layers.iter().zip(&pages).map(sight).collect(), generation);
        }
        self.table = Some(table);
    }

    /// A buffer that so many bytes can be read from. Within [`Handle::scoped`].
    pub(crate) fn take_readback(&mut self, gpu: &Handle, bytes: u64) -> Buffer {
        self.readback.take().filter(|buffer| buffer.size() >= bytes).unwrap_or_else(|| {
            gpu.device.create_buffer(&BufferDescriptor {
                label: Some("readback"),
                size: bytes,
                usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        })
    }

    /// Keeps it for the next call.
    pub(crate) fn keep_readback(&mut self, buffer: Buffer) {
        self.readback = Some(buffer);
    }
}
