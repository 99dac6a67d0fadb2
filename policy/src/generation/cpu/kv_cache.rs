//! Keys and values of one sequence on the CPU: pages that copies of a sequence share until
//! one of them writes.

use std::sync::Arc;

use crate::generation::cpu::simd::{LANES, Line};
use crate::model::config::ModelConfig;

/// Tokens of one page.
pub(crate) const PAGE_TOKENS: usize = 32;

/// Lines of one row of a block of keys: one number for each token of a page.
pub(crate) const PAGE_LINES: usize = PAGE_TOKENS / LANES;

/// Where a cache keeps what: the shape of a page, in lines.
///
/// A page is `[layer][keys, values][kv_head]` of blocks for [`PAGE_TOKENS`] tokens. A block of keys
/// is `[head_dim][token]`, so that the scores of a query grow along its dimensions, all tokens side
/// by side; one of values is `[token][head_dim]`, so that its attention grows along the tokens.
/// Dimensions are padded to whole lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuPageShape {
    layers: usize,
    kv_heads: usize,
    /// Lines of one token's values.
    head_lines: usize,
}

impl CpuPageShape {
    pub(crate) fn of(config: &ModelConfig) -> Self {
        let (layers, kv_heads) = (config.num_hidden_layers, config.num_key_value_heads);
        Self { layers, kv_heads, head_lines: config.head_dim.div_ceil(LANES) }
    }

    /// Lines of one token's values in one head.
    pub(crate) fn head_lines(self) -> usize {
        self.head_lines
    }

    /// Lines of one block: a head's keys or values of one layer.
    pub(crate) fn block(self) -> usize {
        self.head_lines * PAGE_TOKENS
    }

    /// Where the keys of a head begin in a page.
    pub(crate) fn keys(self, layer: usize, kv_head: usize) -> usize {
        (2 * layer * self.kv_heads + kv_head) * self.block()
    }

    /// Where the values of a head begin in a page.
    pub(crate) fn values(self, layer: usize, kv_head: usize) -> usize {
        ((2 * layer + 1) * self.kv_heads + kv_head) * self.block()
    }

    /// Bytes that one cached token takes.
    pub(crate) fn token_bytes(self) -> usize {
        self.page() * size_of::<Line>() / PAGE_TOKENS
    }

    /// Lines of a page.
    pub(crate) fn page(self) -> usize {
        2 * self.layers * self.kv_heads * self.block()
    }
}

/// The key-value cache of one sequence on the CPU, in f32. Clones share its pages.
#[derive(Debug, Clone)]
pub struct KvCache {
    shape: CpuPageShape,
    tokens: usize,
    pages: Vec<Arc<[Line]>>,
}

impl KvCache {
    pub(crate) fn new(shape: CpuPageShape) -> Self {
        Self { shape, tokens: 0, pages: Vec::new() }
    }

    /// Tokens whose keys and values are cached.
    pub fn len(&self) -> usize {
        self.tokens
    }

    /// Whether no token is cached.
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    pub(crate) fn shape(&self) -> CpuPageShape {
        self.shape
    }

    /// Makes room for `tokens` more tokens, in pages that no other cache sees.
    pub(crate) fn reserve(&mut self, tokens: usize) {
        let end = self.tokens + tokens;
        // What was reserved before and came to nothing may be shared with clones by now.
        self.pages.truncate(self.tokens.div_ceil(PAGE_TOKENS));
        if !self.tokens.is_multiple_of(PAGE_TOKENS)
            && let Some(last) = self.pages.last_mut()
        {
            // Copies the page where another cache goes on from it.
            Arc::make_mut(last);
        }
        self.pages.resize_with(end.div_ceil(PAGE_TOKENS), || {
            // An allocator that has zeros, fresh from the system, need not write them: pages of
            // real models are megabytes. SAFETY: a line is numbers, which may all be zeros.
            unsafe { Arc::new_zeroed_slice(self.shape.page()).assume_init() }
        });
    }

    /// Where the pages lie; those of reserved positions may be written by whoever has the cache.
    pub(crate) fn pages(&self) -> impl ExactSizeIterator<Item = *mut Line> {
        self.pages.iter().map(|page| Arc::as_ptr(page).cast::<Line>().cast_mut())
    }

    /// Counts tokens whose keys and values were written for every layer.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.tokens += tokens;
    }
}

#[cfg(test)]
mod tests;
