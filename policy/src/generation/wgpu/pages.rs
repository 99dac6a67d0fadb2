//! The pages of key-value caches in a device's memory. Policies of one shape share them.
//!
//! Each layer has one buffer, in which page n is at the same place as in the others: so a call
//! binds one buffer a layer whatever sequences it is about, and what a binding may span bounds a
//! layer's pages, not all of them. The buffers grow to twice their size when pages run out.

use std::sync::Arc;

use parking_lot::Mutex;
use wgpu::{Buffer, BufferUsages, CommandEncoderDescriptor};

use super::handle::Handle;
use crate::generation::EngineError;
use crate::model::config::ModelConfig;

/// Tokens of one page; PAGE in the kernels.
pub(super) const PAGE_TOKENS: usize = 32;

/// Pages that are made first.
const FIRST_PAGES: usize = 16;

/// The sizes of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WgpuPageShape {
    pub(super) layers: usize,
    kv_heads: usize,
    /// Numbers of a head's keys or values, with zeros up to whole fours.
    pub(super) padded: usize,
}

impl WgpuPageShape {
    pub(super) fn of(config: &ModelConfig) -> Self {
        let padded = config.head_dim.next_multiple_of(4);
        Self { layers: config.num_hidden_layers, kv_heads: config.num_key_value_heads, padded }
    }

    /// Fours of numbers of a page in one layer.
    pub(super) fn fours(self) -> usize {
        2 * self.kv_heads * self.padded * PAGE_TOKENS / 4
    }

    /// Bytes of a page in one layer.
    fn layer_bytes(self) -> usize {
        self.fours() * 16
    }

    /// Bytes of a page in all layers.
    pub(super) fn bytes(self) -> usize {
        self.layers * self.layer_bytes()
    }
}

/// A page that somebody has. It goes back when nobody has it any more.
pub(super) struct WgpuPage {
    index: u32,
    pool: Arc<PagePool>,
}

impl WgpuPage {
    /// Its number, in the buffers of all layers.
    pub(super) fn index(&self) -> u32 {
        self.index
    }
}

impl Drop for WgpuPage {
    fn drop(&mut self) {
        self.pool.state.lock().free.push(self.index);
    }
}

/// All pages of one shape on a device.
pub(super) struct PagePool {
    gpu: Arc<Handle>,
    shape: WgpuPageShape,
    /// Most pages that there may be.
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By layer. Each has room for the pages that there are, at least.
    layers: Vec<Buffer>,
    /// Pages that there are.
    pages: usize,
    free: Vec<u32>,
    /// Whether the device had no room for more.
    full: bool,
    /// Counts how often buffers were replaced.
    generation: u64,
}

impl PagePool {
    pub(super) fn new(gpu: Arc<Handle>, shape: WgpuPageShape) -> Self {
        let most = (gpu.binding_bytes() as usize / shape.layer_bytes())
            .min(gpu.cache_bytes() as usize / shape.bytes());
        Self { gpu, shape, most, state: Mutex::default() }
    }

    pub(super) fn shape(&self) -> WgpuPageShape {
        self.shape
    }

    /// Bytes that caches may still grow by.
    pub(super) fn free_bytes(&self) -> usize {
        let state = self.state.lock();
        let unmade = if state.full { 0 } else { self.most.saturating_sub(state.pages) };
        (state.free.len() + unmade).saturating_mul(self.shape.bytes())
    }

    /// Forgets that the device had no room: what else was on it may be gone.
    pub(super) fn reconsider(&self) {
        self.state.lock().full = false;
    }

    /// The buffers by layer, and a number that changes when they do.
    pub(super) fn layers(&self) -> (Vec<Buffer>, u64) {
        let state = self.state.lock();
        (state.layers.clone(), state.generation)
    }

    /// Pages that nobody else has; what is in them is anything.
    ///
    /// Fails when there are not as many, and none are taken; or when the device is lost.
    pub(super) fn take(self: &Arc<Self>, count: usize) -> Result<Vec<Arc<WgpuPage>>, EngineError> {
        let mut state = self.state.lock();
        if let Some(missing) = count.checked_sub(state.free.len()).filter(|missing| *missing > 0) {
            let needed = state.pages + missing;
            let generous = needed.max(2 * state.pages).max(FIRST_PAGES).min(self.most);
            let grown = if needed > self.most {
                Err(EngineError::Memory { wanted: 0, free: 0 })
            } else {
                self.grow(&mut state, generous).or_else(|error| match error {
                    EngineError::Memory { .. } if generous > needed => self.grow(&mut state, needed),
                    error => Err(error),
                })
            };
            if let Err(error) = grown {
                if !matches!(error, EngineError::Memory { .. }) {
                    return Err(error);
                }
                state.full |= needed <= self.most;
                let (wanted, free) = (count * self.shape.bytes(), state.free.len() * self.shape.bytes());
                return Err(EngineError::Memory { wanted, free });
            }
        }
        let rest = state.free.len() - count;
        let taken = state.free.split_off(rest);
        Ok(taken.into_iter().map(|index| Arc::new(WgpuPage { index, pool: Arc::clone(self) })).collect())
    }

    /// Makes the buffers larger, layer by layer, so that only one of them is there twice at a time.
    fn grow(&self, state: &mut State, pages: usize) -> Result<(), EngineError> {
        let bytes = (pages * self.shape.layer_bytes()) as u64;
        for layer in 0..self.shape.layers {
            let old = state.layers.get(layer).cloned();
            if old.as_ref().is_some_and(|old| old.size() >= bytes) {
                continue;
            }
            let new = self.gpu.scoped(bytes, || {
                let new = self.gpu.buffer("keys and values", bytes, BufferUsages::STORAGE);
                if let Some(old) = &old {
                    let mut encoder =
                        self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
                    encoder.copy_buffer_to_buffer(old, 0, &new, 0, old.size());
                    self.gpu.queue.submit([encoder.finish()]);
                }
                self.gpu.finish();
                Ok(new)
            })?;
            state.generation += 1;
            match state.layers.get_mut(layer) {
                Some(slot) => *slot = new,
                None => state.layers.push(new),
            }
        }
        state.free.extend(state.pages as u32..pages as u32);
        state.pages = pages;
        Ok(())
    }
}
