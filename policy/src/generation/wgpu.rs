//! The decoder on GPUs, in compute shaders through Vulkan, Metal or DX12.
//!
//! Weights stay as they were published and are widened in the kernels; everything else is f32. A
//! [`Gpu`] is a device that was opened once; each version of a policy is a [`WgpuBackend`] on it,
//! and goes on with the caches that another one of its shape filled.
//!
//! **What holds about numbers.** On one device with one driver, the logits after a token are the
//! same, bit for bit, whether the token was fed alone or in a batch, in one call with its prompt or
//! in a later one, with a shared or an own cache. Every reduction runs in an order that depends on
//! the model's shape alone. Between devices, and against the CPU, they differ in their last bits:
//! compilers may choose how divisions and roots are rounded.
//!
//! **What goes where.** A call writes a few words about its tokens, is handed over at once, and
//! reads back 32 bytes a row: which token was drawn, and what its log-probs are made of. Logits
//! leave the device when a caller wants them, and when top-k or top-p cut a distribution: that cut
//! is made on the CPU, by [`crate::sampling`] itself.

mod adapter;
mod cache;
mod error;
mod gpu;
mod handle;
mod kernel;
mod model;
mod pages;

use std::sync::Arc;

use super::backend::{Backend, Feed, Logits, Pick, TokenClaim, Want};
use super::{EngineError, call};
use crate::model::config::ModelConfig;
use crate::model::weights::Weights;
use crate::sampling;
use crate::sampling::{Interval, Sampled};
use model::head::{RowWanted, needs_row};
use model::{Wanted, WantedRow, WgpuModel};
use pages::{PAGE_TOKENS, WgpuPageShape};

pub use adapter::{AdapterChoice, AdapterInfo, AdapterKind, adapters};
pub use cache::GpuCache;
pub use error::GpuError;
pub use gpu::Gpu;
pub use handle::GpuOptions;

/// A model on a GPU.
pub struct WgpuBackend {
    config: ModelConfig,
    model: WgpuModel,
}

impl WgpuBackend {
    /// Copies weights to the device.
    ///
    /// # Errors
    /// When the weights are not those of `config`, the device has no room for them, or it is lost.
    pub fn load(gpu: &Arc<Gpu>, config: &ModelConfig, weights: &Weights) -> Result<Self, EngineError> {
        Ok(Self { config: config.clone(), model: WgpuModel::load(gpu, config, weights)? })
    }

    /// Device that the weights were copied to.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.model.gpu
    }

    /// Feeds tokens and makes something of each row of the wanted logits.
    fn rows<T>(
        &self,
        feeds: &mut [Feed<'_, GpuCache>],
        wanted: &Wanted<'_>,
        make: impl Fn(usize, WantedRow<'_>) -> Result<T, EngineError>,
    ) -> Result<Vec<T>, EngineError> {
        if call::check(self, feeds)? == 0 {
            return Ok(Vec::new());
        }
        let mut made = Vec::with_capacity(wanted.rows.len());
        self.model.forward(&self.config, feeds, wanted, |row, found| made.push(make(row, found)))?;
        made.into_iter().collect()
    }
}

impl Backend for WgpuBackend {
    type Cache = GpuCache;

    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn new_cache(&self) -> GpuCache {
        GpuCache::new(Arc::clone(&self.model.pool))
    }

    fn cached_tokens(&self, cache: &GpuCache) -> usize {
        cache.len()
    }

    fn cache_bytes_per_token(&self) -> usize {
        WgpuPageShape::of(&self.config).bytes() / PAGE_TOKENS
    }

    fn cache_granule(&self) -> usize {
        PAGE_TOKENS
    }

    fn free_cache_bytes(&self) -> usize {
        self.model.pool.free_bytes()
    }

    fn accepts(&self, cache: &GpuCache) -> bool {
        cache.is_of(&self.model.pool)
    }

    fn forward(&self, feeds: &mut [Feed<'_, GpuCache>], want: Want) -> Result<Logits, EngineError> {
        let wanted = Wanted { rows: call::wanted_rows(feeds, want), wishes: Vec::new(), whole: &|_| true };
        let rows = self.rows(feeds, &wanted, |_, row| Ok(row.logits.to_vec()))?;
        Ok(Logits::new(self.config.vocab_size, rows.concat()))
    }

    fn draw(
        &self,
        feeds: &mut [Feed<'_, GpuCache>],
        picks: &[Pick<'_>],
    ) -> Result<Vec<Sampled>, EngineError> {
        assert_eq!(feeds.len(), picks.len(), "a pick for each feed");
        let on_host = |row: usize| needs_row(picks[row].params, self.config.vocab_size);
        let wanted = Wanted {
            rows: call::wanted_rows(feeds, Want::Last),
            wishes: picks.iter().map(RowWanted::draw).collect(),
            whole: &on_host,
        };
        self.rows(feeds, &wanted, |row, WantedRow { choice, logits }| {
            choice.check()?;
            let Pick { params, u } = picks[row];
            if !on_host(row) {
                return Ok(choice.sampled(params));
            }
            // The raw log-prob is that of the device's sums, as `place` tells it.
            let sampled = sampling::sample(logits, params, u)?;
            let chosen = choice.of(sampled.token, logits);
            Ok(Sampled { raw_logprob: chosen.raw_logprob(), ..sampled })
        })
    }

    fn place(
        &self,
        feeds: &mut [Feed<'_, GpuCache>],
        claims: &[TokenClaim<'_>],
    ) -> Result<Vec<Interval>, EngineError> {
        let vocab = self.config.vocab_size;
        let tokens: usize = feeds.iter().map(|feed| feed.tokens.len()).sum();
        assert_eq!(tokens, claims.len(), "a claim for each token");
        if let Some(TokenClaim { token, .. }) = claims.iter().find(|claim| claim.token as usize >= vocab) {
            return Err(EngineError::Token { token: *token, vocab });
        }
        let on_host = |row: usize| {
            let params = claims[row].params;
            params.temperature == 0.0 || needs_row(params, vocab)
        };
        let wanted = Wanted {
            rows: call::wanted_rows(feeds, Want::All),
            wishes: claims.iter().map(RowWanted::place).collect(),
            whole: &on_host,
        };
        self.rows(feeds, &wanted, |row, WantedRow { choice, logits }| {
            choice.check()?;
            let TokenClaim { params, token, u } = claims[row];
            if !on_host(row) {
                return Ok(choice.interval(params));
            }
            let placed = sampling::place(logits, params, token, u)?;
            Ok(Interval { raw_logprob: choice.raw_logprob(), ..placed })
        })
    }
}
