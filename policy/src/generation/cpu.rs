//! The CPU backend.
//!
//! In f32, weights stay as they were published, bf16, f16 or f32, in the memory or the file that
//! they came in, and are widened on their way into products; everything else is f32. Other
//! precisions change what products multiply, and nothing else: see [`Precision`].
//!
//! **What holds about numbers.** The logits after a token are the same, bit for bit, whether the
//! token was fed alone or in a batch, in one call with its prompt or in a later one, with a shared
//! or an own cache, and with any number of threads. Every reduction runs in an order that depends
//! on the model's shape alone, so processors with different vector units agree as well; but in bf16
//! some of them take numbers and sums nearer to zero than 2⁻¹²⁶ for zero, and those with a matrix
//! unit add in its order.

mod attention;
mod forward_pass;
pub mod kv_cache;
mod layer;
mod linear;
mod matmul;
mod matrix;
mod process_pool;
mod self_test;
mod shared_slice;
pub(crate) mod simd;
mod thread_team;

use std::sync::OnceLock;

use super::backend::{Backend, Feed, Logits, MAX_CALL_TOKENS, Pick, TokenClaim, Want};
use super::cpu::kv_cache::{CpuPageShape, KvCache, PAGE_TOKENS};
use super::{EngineError, call};
use crate::math;
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::model::weights::named;
use crate::model::weights::{DType, TensorSpec, WeightTensor, Weights, WeightsError, expected_tensors};
use crate::sampling;
use crate::sampling::{Interval, Sampled};
pub use self_test::computes_as_known;

use attention::{Sights, VisibleTokens};
use forward_pass::{Buffers, CpuPass};
use layer::CpuLayer;
use linear::CpuLinear;
use matmul::{OutputUpdate, Packing};
use matrix::CpuMatrix;
use process_pool::ComputePool;
use shared_slice::SharedSlice;
use simd::Processor;
use thread_team::TeamMember;

/// The table of embeddings.
const EMBEDDING: &str = "model.embed_tokens.weight";
/// Rows of logits that exist at a time.
const LOGIT_ROWS: usize = 128;

/// A model on the CPU. It shares the bytes of its weights, unless its precision makes others of them.
pub struct CpuBackend {
    config: ModelConfig,
    precision: Precision,
    processor: Processor,
    inv_freq: Vec<f32>,
    /// `[vocab, hidden]`, as it was published.
    embedding: WeightTensor,
    layers: Vec<CpuLayer>,
    norm: Vec<f32>,
    head: CpuLinear,
}

impl CpuBackend {
    /// Takes over weights, to compute in f32; matrices are shared, not copied.
    ///
    /// # Errors
    /// When the weights are not those of `config`.
    pub fn load(config: &ModelConfig, weights: &Weights) -> Result<Self, EngineError> {
        Self::load_as(config, weights, Precision::F32)
    }

    /// Takes over weights, to compute in `precision`. In int8 and int4 it makes matrices of its own
    /// of them, some 1.06 and 0.56 bytes a weight, and shares but the table of embeddings; in bf16
    /// it copies what was not published in bf16.
    ///
    /// # Errors
    /// Those that [`CpuBackend::load`] fails with.
    pub fn load_as(
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<Self, EngineError> {
        Self::load_on(Processor::best(), config, weights, precision)
    }

    /// Bytes of memory that [`CpuBackend::load_as`] takes for matrices of its own, where those of
    /// `config` are all stored as `stored`.
    #[must_use]
    pub fn copied_bytes(config: &ModelConfig, stored: DType, precision: Precision) -> usize {
        let head = format!("{}.weight", Self::head(config));
        let copied = |spec: TensorSpec| {
            let precision = if spec.name == head { precision.of_head() } else { precision };
            match spec.shape[..] {
                // Rows of the table are widened where they lie.
                [_, _] if spec.name == EMBEDDING && spec.name != head => 0,
                [outputs, inputs] => CpuMatrix::copied_bytes(outputs, inputs, stored, precision),
                _ => 0,
            }
        };
        expected_tensors(config).into_iter().map(copied).sum()
    }

    /// Whose rows the output projection has.
    fn head(config: &ModelConfig) -> &'static str {
        if config.tie_word_embeddings { "model.embed_tokens" } else { "lm_head" }
    }

    /// The vector instructions that it computes with, for people.
    pub fn instructions(&self) -> &'static str {
        self.processor.name()
    }

    fn load_on(
        processor: Processor,
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<Self, EngineError> {
        weights.check(config)?;
        let layers =
            (0..config.num_hidden_layers).map(|index| CpuLayer::load(config, index, weights, precision));
        Ok(Self {
            config: config.clone(),
            precision,
            processor,
            inv_freq: config.inv_freq(),
            embedding: named::tensor(weights, EMBEDDING)?.clone(),
            layers: layers.collect::<Result<_, WeightsError>>()?,
            norm: named::vector(weights, "model.norm.weight")?,
            head: CpuLinear::load(weights, &[Self::head(config).to_owned()], false, precision.of_head())?,
        })
    }

    /// Feeds tokens and hands each row of the wanted logits to `each`, with its number, on
    /// any thread. `is_beside` is what [`Backend::forward_beside`] asks for.
    fn pass(
        &self,
        feeds: &mut [Feed<'_, KvCache>],
        want: Want,
        is_beside: bool,
        each: impl Fn(usize, &[f32]) + Sync,
    ) -> Result<(), EngineError> {
        let total = call::check(self, feeds)?;
        if total == 0 {
            return Ok(());
        }
        let shape = CpuPageShape::of(&self.config);
        let (mut ids, mut tokens, mut pages) = (Vec::new(), Vec::new(), Vec::new());
        for (sequence, feed) in feeds.iter_mut().enumerate() {
            feed.cache.reserve(feed.tokens.len());
            let before = feed.cache.len();
            ids.extend_from_slice(feed.tokens);
            tokens
                .extend((1..=feed.tokens.len()).map(|new| VisibleTokens { sequence, visible: before + new }));
            // SAFETY: the caches are borrowed until the pass is over. It writes to the reserved
            // places alone, which no other cache has.
            let shared = feed.cache.pages().map(|page| unsafe { SharedSlice::from_raw(page, shape.page()) });
            pages.push(shared.collect());
        }
        let rows = call::wanted_rows(feeds, want);
        let (head_dim, group) =
            (self.config.head_dim, self.config.num_attention_heads / self.config.num_key_value_heads);
        let sights = Sights { tokens, pages, shape, head_dim, group };
        ComputePool::enter(self.operations(total, rows.len()), self.processor, |room| {
            let (workspace, runner) = room.split();
            let packing = Packing::of(self.precision, self.processor);
            let (buffers, logits) =
                workspace.buffers(&self.config, packing, total, rows.len().min(LOGIT_ROWS));
            let pass =
                CpuPass { config: &self.config, packing, tokens: total, buffers, sights: &sights, is_beside };
            runner.run(self.phases(rows.len()), |worker, tools| {
                self.embed(&ids, &pass, worker);
                for (index, layer) in self.layers.iter().enumerate() {
                    layer.forward(index, &pass, &rows, worker, tools);
                }
                for first in (0..rows.len()).step_by(LOGIT_ROWS) {
                    let (count, vocab) = (LOGIT_ROWS.min(rows.len() - first), self.config.vocab_size);
                    // The last layer left the wanted rows at the front.
                    pass.normalise(worker, tools, &self.norm, count, |row| first + row);
                    let (normed, _) = pass.buffers.normed.split_at(count * pass.packed_hidden());
                    let (logits, _) = logits.split_at(count * vocab);
                    self.head.multiply(
                        &pass,
                        worker,
                        &mut tools.multiplier,
                        normed,
                        logits,
                        OutputUpdate::Set,
                    );
                    worker.each(count, |row| {
                        // SAFETY: logits are not written in this phase.
                        each(first + row, unsafe { logits.read(row * vocab..(row + 1) * vocab) });
                    });
                }
            });
        });
        for feed in feeds.iter_mut() {
            feed.cache.advance(feed.tokens.len());
        }
        Ok(())
    }

    /// Feeds tokens and makes something of each row of the wanted logits.
    fn rows<T: Send + Sync>(
        &self,
        feeds: &mut [Feed<'_, KvCache>],
        want: Want,
        make: impl Fn(usize, &[f32]) -> Result<T, EngineError> + Sync,
    ) -> Result<Vec<T>, EngineError> {
        let made: Vec<_> = call::wanted_rows(feeds, want).iter().map(|_| OnceLock::new()).collect();
        self.pass(feeds, want, false, |row, logits| {
            // Each row comes once.
            let _ = made[row].set(make(row, logits));
        })?;
        made.into_iter().filter_map(OnceLock::into_inner).collect()
    }

    /// Looks up embeddings and angles of all tokens: a phase.
    fn embed(&self, ids: &[u32], pass: &CpuPass<'_>, worker: &TeamMember<'_>) {
        let (hidden, half) = (self.config.hidden_size, self.inv_freq.len());
        worker.each(pass.tokens, |token| {
            let (row, angles) = (token * hidden..(token + 1) * hidden, token * half..(token + 1) * half);
            // SAFETY: these rows of this token are this thread's alone.
            let (x, cos, sin) = unsafe {
                let Buffers { x, cos, sin, .. } = pass.buffers;
                (x.write(row), cos.write(angles.clone()), sin.write(angles))
            };
            self.embedding.row_to_f32(ids[token] as usize, x);
            if pass.is_beside {
                // A row looked at is a megabyte in memory, where the system maps what is around it.
                self.embedding.release();
            }
            math::rope_row(pass.sights.tokens[token].visible - 1, &self.inv_freq, cos, sin);
        });
    }

    /// Most phases of a pass that wants so many rows of logits.
    fn phases(&self, rows: usize) -> usize {
        1 + self.layers.len() * layer::PHASES + rows.div_ceil(LOGIT_ROWS) * 4
    }

    /// Operations of a pass, but for its attention.
    fn operations(&self, tokens: usize, rows: usize) -> usize {
        let embedding = self.config.vocab_size * self.config.hidden_size;
        let parameters = usize::try_from(self.config.parameter_count()).unwrap_or(usize::MAX);
        let layers = parameters.saturating_sub(embedding);
        layers.saturating_mul(2 * tokens).saturating_add(embedding.saturating_mul(2 * rows))
    }
}

impl Backend for CpuBackend {
    type Cache = KvCache;

    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn new_cache(&self) -> KvCache {
        KvCache::new(CpuPageShape::of(&self.config))
    }

    fn cached_tokens(&self, cache: &KvCache) -> usize {
        cache.len()
    }

    fn cache_bytes_per_token(&self) -> usize {
        CpuPageShape::of(&self.config).token_bytes()
    }

    fn cache_granule(&self) -> usize {
        PAGE_TOKENS
    }

    fn accepts(&self, cache: &KvCache) -> bool {
        cache.shape() == CpuPageShape::of(&self.config)
    }

    fn forward(&self, feeds: &mut [Feed<'_, KvCache>], want: Want) -> Result<Logits, EngineError> {
        let rows = call::wanted_rows(feeds, want).len();
        let vocab = self.config.vocab_size;
        let mut values = vec![0.0; rows.min(MAX_CALL_TOKENS) * vocab];
        let logits = SharedSlice::new(&mut values);
        self.pass(feeds, want, false, |row, values| {
            // SAFETY: each row is handed out once.
            unsafe { logits.write(row * vocab..(row + 1) * vocab) }.copy_from_slice(values);
        })?;
        Ok(Logits::new(vocab, values))
    }

    fn forward_beside(&self, feeds: &mut [Feed<'_, KvCache>]) -> Result<(), EngineError> {
        self.pass(feeds, Want::Nothing, true, |_, _| {})
    }

    fn draw(&self, feeds: &mut [Feed<'_, KvCache>], picks: &[Pick<'_>]) -> Result<Vec<Sampled>, EngineError> {
        assert_eq!(feeds.len(), picks.len(), "a pick for each feed");
        self.rows(feeds, Want::Last, |row, logits| {
            Ok(sampling::sample(logits, picks[row].params, picks[row].u)?)
        })
    }

    fn place(
        &self,
        feeds: &mut [Feed<'_, KvCache>],
        claims: &[TokenClaim<'_>],
    ) -> Result<Vec<Interval>, EngineError> {
        let tokens: usize = feeds.iter().map(|feed| feed.tokens.len()).sum();
        assert_eq!(tokens, claims.len(), "a claim for each token");
        self.rows(feeds, Want::All, |row, logits| {
            let TokenClaim { params, token, u } = claims[row];
            Ok(sampling::place(logits, params, token, u)?)
        })
    }
}

#[cfg(test)]
mod tests;
