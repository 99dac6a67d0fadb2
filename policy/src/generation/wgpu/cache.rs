//! Keys and values of one sequence: pages that copies of a sequence share until one of them writes.

use std::sync::Arc;

use super::pages::{PAGE_TOKENS, PagePool, WgpuPage};

/// The key-value cache of one sequence in a device's memory, in f32. Clones share its pages.
#[derive(Clone)]
pub struct GpuCache {
    pool: Arc<PagePool>,
    tokens: usize,
    pages: Vec<Arc<WgpuPage>>,
}

/// What becomes of a cache when the device has computed what is fed to it.
pub(super) struct CacheGrowth {
    pages: Vec<Arc<WgpuPage>>,
    /// A page whose tokens have to be copied to another one first, where another cache goes on from it too.
    pub(super) copy: Option<[u32; 2]>,
}

impl CacheGrowth {
    /// The pages that the device works with.
    pub(super) fn table(&self) -> impl ExactSizeIterator<Item = u32> {
        self.pages.iter().map(|page| page.index())
    }
}

impl GpuCache {
    pub(super) fn new(pool: Arc<PagePool>) -> Self {
        Self { pool, tokens: 0, pages: Vec::new() }
    }

    /// Tokens whose keys and values are cached.
    pub fn len(&self) -> usize {
        self.tokens
    }

    /// Whether no token is cached.
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    pub(super) fn is_of(&self, pool: &Arc<PagePool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// The last page with tokens, if it has room for more and somebody else has it as well.
    fn shared_page(&self) -> Option<&Arc<WgpuPage>> {
        let partial = !self.tokens.is_multiple_of(PAGE_TOKENS);
        let last = self.pages.get(self.tokens / PAGE_TOKENS).filter(|_| partial);
        last.filter(|page| Arc::strong_count(page) > 1)
    }

    /// Pages that so many more tokens need.
    pub(super) fn missing(&self, tokens: usize) -> usize {
        let whole = self.tokens.div_ceil(PAGE_TOKENS);
        (self.tokens + tokens).div_ceil(PAGE_TOKENS) - whole + usize::from(self.shared_page().is_some())
    }

    /// How it grows by so many tokens, with as many of `fresh` as are missing. It is
    /// as before until [`GpuCache::commit`].
    pub(super) fn grow(&self, tokens: usize, fresh: &mut impl Iterator<Item = Arc<WgpuPage>>) -> CacheGrowth {
        let missing = self.missing(tokens);
        let shared = self.shared_page().map(|page| page.index());
        // From here on, this has every page as well.
        let mut pages = self.pages[..self.tokens.div_ceil(PAGE_TOKENS)].to_vec();
        if shared.is_some() {
            pages.pop();
        }
        pages.extend(fresh.take(missing));
        let copy = shared.map(|from| [from, pages[self.tokens / PAGE_TOKENS].index()]);
        CacheGrowth { pages, copy }
    }

    /// Counts the tokens whose keys and values are there now.
    pub(super) fn commit(&mut self, growth: CacheGrowth, tokens: usize) {
        self.pages = growth.pages;
        self.tokens += tokens;
    }
}
