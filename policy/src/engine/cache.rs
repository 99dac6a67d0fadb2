//! Keys and values of one sequence, with a part that may be shared between the samples of a group.

use std::sync::Arc;

#[derive(Debug, Clone, Default)]
struct Segment {
    tokens: usize,
    /// Per layer, `[tokens, kv_dim]`.
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl Segment {
    fn new(layers: usize) -> Self {
        Self { tokens: 0, keys: vec![Vec::new(); layers], values: vec![Vec::new(); layers] }
    }
}

/// The key-value cache of one sequence on the CPU, in f32.
#[derive(Debug, Clone)]
pub struct KvCache {
    kv_dim: usize,
    shared: Option<Arc<Segment>>,
    own: Segment,
}

impl KvCache {
    pub(super) fn new(layers: usize, kv_dim: usize) -> Self {
        Self { kv_dim, shared: None, own: Segment::new(layers) }
    }

    /// Tokens cached.
    pub fn len(&self) -> usize {
        self.shared.as_ref().map_or(0, |s| s.tokens) + self.own.tokens
    }

    /// Whether no token is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn fits(&self, layers: usize, kv_dim: usize) -> bool {
        self.kv_dim == kv_dim && self.own.keys.len() == layers
    }

    /// Moves all tokens into the part that clones share.
    pub(super) fn freeze(&mut self) {
        if self.own.tokens == 0 {
            return;
        }
        let layers = self.own.keys.len();
        let own = std::mem::replace(&mut self.own, Segment::new(layers));
        let merged = match self.shared.take() {
            None => own,
            Some(shared) => {
                let mut merged = Arc::unwrap_or_clone(shared);
                merged.tokens += own.tokens;
                for (to, from) in merged.keys.iter_mut().zip(&own.keys) {
                    to.extend_from_slice(from);
                }
                for (to, from) in merged.values.iter_mut().zip(&own.values) {
                    to.extend_from_slice(from);
                }
                merged
            }
        };
        self.shared = Some(Arc::new(merged));
    }

    pub(super) fn push(&mut self, layer: usize, key: &[f32], value: &[f32]) {
        self.own.keys[layer].extend_from_slice(key);
        self.own.values[layer].extend_from_slice(value);
    }

    /// Counts tokens whose keys and values were pushed to every layer.
    pub(super) fn advance(&mut self, tokens: usize) {
        self.own.tokens += tokens;
    }

    /// Keys of one layer: the shared part, then the rest, each `[tokens, kv_dim]`.
    pub(super) fn keys(&self, layer: usize) -> [&[f32]; 2] {
        [self.shared.as_ref().map_or(&[], |s| s.keys[layer].as_slice()), &self.own.keys[layer]]
    }

    /// Values of one layer, as [`KvCache::keys`].
    pub(super) fn values(&self, layer: usize) -> [&[f32]; 2] {
        [self.shared.as_ref().map_or(&[], |s| s.values[layer].as_slice()), &self.own.values[layer]]
    }
}
