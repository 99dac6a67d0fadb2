//! The decoder on NVIDIA GPUs, in kernels of our own.
//!
//! Nothing of CUDA is linked: [`devices`] looks for the driver, which compiles the shipped PTX for
//! the GPU that is there. A [`CudaDevice`] is opened once; each version of a policy is a
//! [`CudaBackend`] on it, and goes on with the caches that another one of its shape filled.
//!
//! **Precisions.** [`Precision::F32`]: weights as they were published, everything else f32,
//! products of fused multiply-adds.
//! In [`Precision::Bf16`], the operands of products with weights are bf16, multiplied on tensor
//! cores with sums in f32. Norms, keys and values, softmax and draws are f32 or wider in both: the
//! recipes are those that whoever checks the tokens repeats on a processor.
//!
//! **What holds about numbers.** The logits after a token are the same, bit for bit, whether the
//! token was fed alone or in a batch, in one call with its prompt or in a later one, with a shared
//! or an own cache. Every sum has an order that depends on the model's shape alone: inputs are
//! dealt to lanes, slices and partitions by their number. In f32 that holds between GPUs as well.
//!
//! **What goes where.** A call sends one letter about its tokens and reads back the sums of each
//! row, of which [`crate::sampling`]'s results are made: 88 bytes a row. Logits leave the device
//! only when a caller wants them.
//!
//! **Without a GPU.** The device is behind a trait, [`CudaDriver`]: tests compile the kernels for
//! the processor and run the whole backend on it.

mod cache;
mod device;
mod draw;
mod driver;
mod error;
pub mod kernels;
mod matrix;
mod model;
mod nvidia;
mod pass;
mod tokens;
mod workspace;

use std::sync::Arc;

use super::backend::{Backend, Feed, Logits, Pick, TokenClaim, Want};
use super::{EngineError, call};
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::model::weights::Weights;
use crate::sampling;
use crate::sampling::{Interval, Sampled};
use cache::CudaPageShape;
use kernels::{Outcome, RowPick};
use matrix::OperandLayout;
use model::CudaModel;
use pass::{CudaPass, LogitsWanted};
use tokens::Tokens;

pub use cache::CudaCache;
pub use device::CudaDevice;
pub use driver::{Address, CudaDriver, DeviceMemory, DriverError, Launch};
pub use error::CudaError;
pub use nvidia::{DeviceInfo, LEAST_CAPABILITY, OLDEST_DRIVER, devices, open};

/// Widest head that the attention's shared memory has room for.
pub const MAX_HEAD_DIM: usize = 256;

/// A model on an NVIDIA GPU.
pub struct CudaBackend {
    model: CudaModel,
    shape: CudaPageShape,
}

impl CudaBackend {
    /// Copies weights to the device, to compute with them in a precision.
    ///
    /// # Errors
    /// When the weights are not those of `config`, the precision is another one than f32 and bf16,
    /// the model's heads are too wide, the device has no room for the weights, or it is lost.
    pub fn load(
        device: &Arc<CudaDevice>,
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<Self, EngineError> {
        let Some(recipe) = OperandLayout::new(precision) else {
            return Err(EngineError::Precision { precision, wanted: "f32 or bf16" });
        };
        let shape = CudaPageShape::of(config);
        for (what, value, limit) in [
            ("head_dim", config.head_dim, MAX_HEAD_DIM),
            ("vocab_size", config.vocab_size, draw::MOST_TOKENS),
            ("numbers in a page of the cache", shape.numbers(), u32::MAX as usize),
        ] {
            if value > limit {
                return Err(EngineError::Limit { what, value, limit });
            }
        }
        Ok(Self { model: CudaModel::load(device, config, weights, recipe)?, shape })
    }

    /// Device that the weights were copied to.
    pub fn device(&self) -> &Arc<CudaDevice> {
        &self.model.device
    }

    /// Feeds tokens, and has what is wished for of the wanted rows.
    fn feed(
        &self,
        feeds: &mut [Feed<'_, CudaCache>],
        want: Want,
        wish: LogitsWanted<'_>,
    ) -> Result<(), EngineError> {
        if call::check(self, feeds)? == 0 {
            return Ok(());
        }
        let _turn = self.model.device.take_turn();
        let mut tokens = Tokens::new();
        let mut grown = Vec::with_capacity(feeds.len());
        for feed in feeds.iter() {
            let pages = feed.cache.grown(feed.tokens.len())?;
            tokens.add(feed.tokens, feed.cache.len(), pages.iter().map(|page| page.address()));
            grown.push(pages);
        }
        let rows: Vec<u32> = call::wanted_rows(feeds, want).into_iter().map(|row| row as u32).collect();
        let pass = CudaPass::new(&self.model, self.shape, &tokens, &rows, &wish)?;
        pass.run(rows.len(), wish)?;
        for (feed, pages) in feeds.iter_mut().zip(grown) {
            feed.cache.advance(pages, feed.tokens.len());
        }
        Ok(())
    }

    /// Feeds tokens, and draws or finds a token in each of the wanted rows.
    fn outcomes(
        &self,
        feeds: &mut [Feed<'_, CudaCache>],
        want: Want,
        picks: &[RowPick],
    ) -> Result<Vec<Outcome>, EngineError> {
        let mut outcomes = Vec::new();
        self.feed(feeds, want, LogitsWanted::Tokens(picks, &mut outcomes))?;
        Ok(outcomes)
    }
}

impl Backend for CudaBackend {
    type Cache = CudaCache;

    fn config(&self) -> &ModelConfig {
        &self.model.config
    }

    fn precision(&self) -> Precision {
        self.model.recipe.precision()
    }

    fn new_cache(&self) -> CudaCache {
        CudaCache::new(&self.model.device, self.shape)
    }

    fn cached_tokens(&self, cache: &CudaCache) -> usize {
        cache.len()
    }

    fn cache_bytes_per_token(&self) -> usize {
        self.shape.bytes() / cache::PAGE_TOKENS
    }

    fn cache_granule(&self) -> usize {
        cache::PAGE_TOKENS
    }

    fn free_cache_bytes(&self) -> usize {
        self.model.device.free_page_bytes(self.shape.bytes())
    }

    fn accepts(&self, cache: &CudaCache) -> bool {
        cache.is_of(&self.model.device, self.shape)
    }

    fn forward(&self, feeds: &mut [Feed<'_, CudaCache>], want: Want) -> Result<Logits, EngineError> {
        let mut values = Vec::new();
        self.feed(feeds, want, LogitsWanted::Logits(&mut values))?;
        Ok(Logits::new(self.model.config.vocab_size, values))
    }

    fn draw(
        &self,
        feeds: &mut [Feed<'_, CudaCache>],
        picks: &[Pick<'_>],
    ) -> Result<Vec<Sampled>, EngineError> {
        assert_eq!(feeds.len(), picks.len(), "a pick for each feed");
        if picks.iter().any(|pick| pick.params.is_race()) {
            // No kernel runs races: the rows come to the host.
            let logits = self.forward(feeds, Want::Last)?;
            let drawn = logits.rows().zip(picks);
            return drawn.map(|(row, pick)| Ok(sampling::sample(row, pick.params, pick.u)?)).collect();
        }
        let rows: Vec<_> = picks.iter().map(draw::of_pick).collect();
        let outcomes = self.outcomes(feeds, Want::Last, &rows)?;
        outcomes.iter().zip(picks).map(|(outcome, pick)| Ok(draw::sampled(outcome, pick.params)?)).collect()
    }

    fn place(
        &self,
        feeds: &mut [Feed<'_, CudaCache>],
        claims: &[TokenClaim<'_>],
    ) -> Result<Vec<Interval>, EngineError> {
        let tokens: usize = feeds.iter().map(|feed| feed.tokens.len()).sum();
        assert_eq!(tokens, claims.len(), "a claim for each token");
        let vocab = self.model.config.vocab_size;
        if let Some(claim) = claims.iter().find(|claim| claim.token as usize >= vocab) {
            return Err(EngineError::Token { token: claim.token, vocab });
        }
        if claims.iter().any(|claim| claim.params.is_race()) {
            let logits = self.forward(feeds, Want::All)?;
            let placed = logits.rows().zip(claims);
            return placed
                .map(|(row, claim)| Ok(sampling::place(row, claim.params, claim.token, claim.u)?))
                .collect();
        }
        let rows: Vec<_> = claims.iter().map(draw::of_claim).collect();
        let outcomes = self.outcomes(feeds, Want::All, &rows)?;
        outcomes
            .iter()
            .zip(claims)
            .map(|(outcome, claim)| Ok(draw::interval(outcome, claim.params)?))
            .collect()
    }
}
