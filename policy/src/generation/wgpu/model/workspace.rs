//! The buffers that a model's calls work in, for the largest call that there may be.

use wgpu::{Buffer, BufferUsages};

use crate::generation::backend::MAX_CALL_TOKENS;
use crate::generation::wgpu::handle::Handle;
use crate::generation::wgpu::model::matrix::width;
use crate::generation::wgpu::pages::WgpuPageShape;
use crate::model::config::ModelConfig;

/// Most rows of logits that exist at a time.
const LOGIT_ROWS: usize = 64;
/// Tokens of a block of the vocabulary, whose mass is one number; BLOCK in the kernels that choose.
pub(crate) const BLOCK: usize = 1024;
/// Bytes of what is told of a row, and of what comes of it: `Pick` and `Choice` in the kernels.
pub(crate) const PICK_BYTES: usize = 16;
pub(crate) const CHOICE_BYTES: usize = 32;

/// Sizes that follow from a configuration.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// Numbers of queries, keys and values of a token.
    pub(crate) qkv: usize,
    /// Query heads of a key-value head.
    pub(crate) group: usize,
    /// Rows of attention that a workgroup does where a call feeds one token to each sequence, and elsewhere.
    pub(crate) rows: [usize; 2],
    /// Rows of logits at a time.
    pub(crate) logit_rows: usize,
    /// Blocks of the vocabulary.
    pub(crate) blocks: usize,
}

impl Sizes {
    pub(crate) fn of(config: &ModelConfig, binding_bytes: u64) -> Self {
        let group = config.num_attention_heads / config.num_key_value_heads;
        let padded = WgpuPageShape::of(config).padded;
        // Queries take up to 8 KiB of workgroup memory.
        let most = (2048 / padded).clamp(1, 8);
        let fit = binding_bytes as usize / (4 * config.vocab_size);
        Self {
            qkv: config.q_dim() + 2 * config.kv_dim(),
            group,
            rows: [group.min(most), most],
            logit_rows: fit.clamp(1, LOGIT_ROWS),
            blocks: config.vocab_size.div_ceil(BLOCK),
        }
    }
}

/// Buffers of f32, but where something else is said.
pub(crate) struct PassBuffers {
    /// u32: tokens of the call.
    pub(crate) tokens_count: Buffer,
    /// u32: rows of logits of the block.
    pub(crate) rows_count: Buffer,
    /// Words of each token: see [`crate::generation::wgpu::model::feeding`].
    pub(crate) tokens: Buffer,
    pub(crate) tiles: Buffer,
    /// `[token][cos, sin][head_dim / 2]`.
    pub(crate) rotary: Buffer,
    /// u32: 0, 1, 2, …
    pub(crate) all_rows: Buffer,
    /// u32: tokens that logits are wanted after.
    pub(crate) logit_rows: Buffer,
    /// The residual stream, `[token, width]`, and what of it is normalised.
    pub(crate) x: Buffer,
    pub(crate) normed: Buffer,
    pub(crate) qkv: Buffer,
    /// Rotated queries, `[token][query head][padded]`.
    pub(crate) queries: Buffer,
    pub(crate) attended: Buffer,
    pub(crate) inner: Buffer,
    pub(crate) logits: Buffer,
    pub(crate) picks: Buffer,
    /// Sums of blocks, `[row][block][4]`.
    pub(crate) blocks: Buffer,
    pub(crate) choices: Buffer,
}

impl PassBuffers {
    /// Allocates all of them. Within [`Handle::scoped`].
    pub(crate) fn new(gpu: &Handle, config: &ModelConfig, sizes: &Sizes) -> Self {
        let (tokens, rows) = (MAX_CALL_TOKENS, sizes.logit_rows);
        let storage = |label, numbers: usize| gpu.buffer(label, 4 * numbers as u64, BufferUsages::STORAGE);
        let count = |label| gpu.buffer(label, 4, BufferUsages::UNIFORM);
        let hidden = width(config.hidden_size);
        let all: Vec<u32> = (0..tokens as u32).collect();
        let tiles = tokens * (1 + sizes.group);
        Self {
            tokens_count: count("tokens of the call"),
            rows_count: count("rows of logits"),
            tokens: storage("tokens", 4 * tokens),
            tiles: storage("tiles", 4 * tiles),
            rotary: storage("rotary", tokens * config.head_dim),
            all_rows: gpu.filled("all rows", &all, BufferUsages::STORAGE),
            logit_rows: storage("rows that logits are wanted after", rows),
            x: storage("x", tokens * hidden),
            normed: storage("normed", tokens * hidden),
            qkv: storage("qkv", tokens * sizes.qkv),
            queries: storage(
                "queries",
                tokens * config.num_attention_heads * WgpuPageShape::of(config).padded,
            ),
            attended: storage("attended", tokens * width(config.q_dim())),
            inner: storage("inner", tokens * width(config.intermediate_size)),
            logits: storage("logits", rows * config.vocab_size),
            picks: storage("picks", rows * PICK_BYTES / 4),
            blocks: storage("blocks", rows * sizes.blocks * 4),
            choices: storage("choices", rows * CHOICE_BYTES / 4),
        }
    }
}
