//! Keys and values of one sequence on a GPU: pages that copies of a sequence share until one of them writes.

use std::sync::Arc;

use super::device::{CudaDevice, CudaPage};
use crate::generation::EngineError;
use crate::model::config::ModelConfig;

/// Tokens of a page, as in `device.cuh`.
pub(super) const PAGE_TOKENS: usize = 32;

/// What a page holds: `[layer][keys, values][kv_head]` of blocks for [`PAGE_TOKENS`] tokens.
///
/// A block of keys is `[dimension / 4][token][dimension % 4]`, one of values `[token][dimension]`.
/// Numbers are f32 in every precision. Dimensions are padded to multiples of eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CudaPageShape {
    layers: usize,
    kv_heads: usize,
    stored_dim: usize,
}

impl CudaPageShape {
    pub(super) fn of(config: &ModelConfig) -> Self {
        Self {
            layers: config.num_hidden_layers,
            kv_heads: config.num_key_value_heads,
            stored_dim: config.head_dim.next_multiple_of(8),
        }
    }

    /// Dimensions of a head with what they are padded by.
    pub(super) fn stored_dim(self) -> usize {
        self.stored_dim
    }

    /// At which numbers of a page the keys and the values of a layer begin.
    pub(super) fn layer(self, layer: usize) -> [u32; 2] {
        let part = self.kv_heads * self.stored_dim * PAGE_TOKENS;
        [2 * layer * part, (2 * layer + 1) * part].map(|start| start as u32)
    }

    /// Numbers of a page.
    pub(super) fn numbers(self) -> usize {
        2 * self.layers * self.kv_heads * self.stored_dim * PAGE_TOKENS
    }

    /// Bytes of a page.
    pub(super) fn bytes(self) -> usize {
        self.numbers() * size_of::<f32>()
    }
}

/// The key-value cache of one sequence in a GPU's memory. Clones share its pages.
#[derive(Clone)]
pub struct CudaCache {
    device: Arc<CudaDevice>,
    shape: CudaPageShape,
    tokens: usize,
    pages: Vec<Arc<CudaPage>>,
}

impl CudaCache {
    pub(super) fn new(device: &Arc<CudaDevice>, shape: CudaPageShape) -> Self {
        Self { device: Arc::clone(device), shape, tokens: 0, pages: Vec::new() }
    }

    /// Tokens whose keys and values are cached.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens
    }

    /// Whether no token is cached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    pub(super) fn is_of(&self, device: &Arc<CudaDevice>, shape: CudaPageShape) -> bool {
        Arc::ptr_eq(&self.device, device) && self.shape == shape
    }

    /// The pages that the cache would have with so many more tokens: none of those to be written to
    /// is another cache's. Nothing is changed.
    ///
    /// Fails when the device has no room for them, or fails.
    pub(super) fn grown(&self, tokens: usize) -> Result<Vec<Arc<CudaPage>>, EngineError> {
        let mut pages = self.pages[..self.tokens.div_ceil(PAGE_TOKENS)].to_vec();
        if !self.tokens.is_multiple_of(PAGE_TOKENS)
            && let Some(last) = pages.last_mut()
            // This cache's own, and the one here.
            && Arc::strong_count(last) > 2
        {
            let own = self.device.page(self.shape.bytes())?;
            self.device.copy_page(last, &own)?;
            *last = Arc::new(own);
        }
        while pages.len() < (self.tokens + tokens).div_ceil(PAGE_TOKENS) {
            pages.push(Arc::new(self.device.page(self.shape.bytes())?));
        }
        Ok(pages)
    }

    /// Takes pages from [`CudaCache::grown`], to which keys and values of so many more tokens are written.
    pub(super) fn advance(&mut self, pages: Vec<Arc<CudaPage>>, tokens: usize) {
        self.pages = pages;
        self.tokens += tokens;
    }
}

impl std::fmt::Debug for CudaCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaCache").field("tokens", &self.tokens).field("pages", &self.pages.len()).finish()
    }
}
