//! A backend without a model: what follows is a hash of what was fed, by whom, in which order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::generation::EngineError;
use crate::generation::backend::{Backend, Feed, Logits, MAX_CALL_TOKENS, Want};
use crate::generation::policy::Policy;
use crate::model::config::ModelConfig;

/// Token ids there are.
pub(super) const VOCAB: usize = 8;

/// What comes of the call with this number, if it fails.
type Trouble = dyn FnMut(usize) -> Option<EngineError> + Send;

/// What policies share, and what is to be seen of them.
#[derive(Default)]
pub(super) struct Device {
    /// Tokens in all caches; clones share nothing here.
    held: AtomicUsize,
    /// Most tokens in all caches together.
    pub(super) capacity: usize,
    /// Tokens that were fed to be drawn from, and tokens that were not.
    pub(super) decoded: AtomicUsize,
    pub(super) filled: AtomicUsize,
    /// The most of the latter in one call.
    pub(super) most_filled: AtomicUsize,
    /// Tokens that were fed beside another version.
    pub(super) beside: AtomicUsize,
    calls: AtomicUsize,
    /// What comes of a call, by its number.
    pub(super) trouble: Mutex<Option<Box<Trouble>>>,
}

impl Device {
    pub(super) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity, ..Self::default() })
    }

    /// One whose calls fail as `trouble` says.
    pub(super) fn troubled(
        capacity: usize,
        trouble: impl FnMut(usize) -> Option<EngineError> + Send + 'static,
    ) -> Arc<Self> {
        let trouble = Mutex::new(Some(Box::new(trouble) as Box<_>));
        Arc::new(Self { capacity, trouble, ..Self::default() })
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Version `version` of the policy, on this device.
    pub(super) fn policy(self: &Arc<Self>, version: u64) -> Arc<Policy<Fake>> {
        let config = format!(
            r#"{{"model_type":"qwen3","vocab_size":{VOCAB},"hidden_size":2,"intermediate_size":2,"num_hidden_layers":1,
            "num_attention_heads":1,"num_key_value_heads":1,"head_dim":2,"max_position_embeddings":4096}}"#
        );
        let config = ModelConfig::from_json(&config).unwrap();
        Arc::new(Policy::new(version, Fake { config, version, device: Arc::clone(self) }))
    }
}

pub(super) struct Fake {
    config: ModelConfig,
    version: u64,
    device: Arc<Device>,
}

/// What the fake "computes" of each token: it holds its version, the token, and all that came before.
pub(super) struct Entries {
    pub(super) entries: Vec<u64>,
    device: Arc<Device>,
}

impl Clone for Entries {
    fn clone(&self) -> Self {
        self.device.held.fetch_add(self.entries.len(), Relaxed);
        Self { entries: self.entries.clone(), device: Arc::clone(&self.device) }
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        self.device.held.fetch_sub(self.entries.len(), Relaxed);
    }
}

pub(super) fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(32)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// What version `version` makes of `token` after `before`.
pub(super) fn entry(version: u64, token: u32, before: u64) -> u64 {
    mix(mix(version, u64::from(token)), before)
}

pub(super) fn logits(version: u64, entry: u64) -> Vec<f32> {
    (0..VOCAB as u64).map(|id| (mix(mix(entry, version), id) % 1000) as f32 / 250.0).collect()
}

impl Backend for Fake {
    type Cache = Entries;

    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn new_cache(&self) -> Entries {
        Entries { entries: Vec::new(), device: Arc::clone(&self.device) }
    }

    fn cached_tokens(&self, cache: &Entries) -> usize {
        cache.entries.len()
    }

    fn cache_bytes_per_token(&self) -> usize {
        1
    }

    fn accepts(&self, cache: &Entries) -> bool {
        Arc::ptr_eq(&self.device, &cache.device)
    }

    fn forward(&self, feeds: &mut [Feed<'_, Entries>], want: Want) -> Result<Logits, EngineError> {
        let device = &self.device;
        let total: usize = feeds.iter().map(|feed| feed.tokens.len()).sum();
        assert!(total > 0 && total <= MAX_CALL_TOKENS, "{total}");
        assert!(feeds.iter().all(|feed| !feed.tokens.is_empty() && self.accepts(feed.cache)));
        let call = device.calls.fetch_add(1, Relaxed);
        if let Some(error) = device.trouble.lock().as_mut().and_then(|trouble| trouble(call)) {
            return Err(error);
        }
        let free = device.capacity.saturating_sub(device.held());
        if total > free {
            return Err(EngineError::Memory { wanted: total, free });
        }
        device.held.fetch_add(total, Relaxed);
        let mut rows = Vec::new();
        for feed in feeds {
            for token in feed.tokens {
                let before = feed.cache.entries.last().copied().unwrap_or(0);
                feed.cache.entries.push(entry(self.version, *token, before));
            }
            rows.extend(logits(self.version, *feed.cache.entries.last().unwrap()));
        }
        if want == Want::Nothing {
            device.filled.fetch_add(total, Relaxed);
            device.most_filled.fetch_max(total, Relaxed);
            return Ok(Logits::new(VOCAB, Vec::new()));
        }
        assert_eq!(want, Want::Last);
        device.decoded.fetch_add(total, Relaxed);
        Ok(Logits::new(VOCAB, rows))
    }

    fn forward_beside(&self, feeds: &mut [Feed<'_, Entries>]) -> Result<(), EngineError> {
        let total = feeds.iter().map(|feed| feed.tokens.len()).sum();
        self.forward(feeds, Want::Nothing)?;
        self.device.beside.fetch_add(total, Relaxed);
        Ok(())
    }
}
