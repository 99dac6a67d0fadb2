//! The tokens of a pass, and how its attention is dealt to blocks.

use super::cache::{CudaPageShape, PAGE_TOKENS};
use super::driver::Address;
use super::kernels::Task;
use super::model::CudaModel;

/// Positions of a partition of the attention, as in `attention.cu`.
const PARTITION: usize = 256;
/// Quarters of a partition, as in `attention.cu`.
const SUBPARTS: usize = 4;
/// Bytes that partitions of the attention may take between its two kernels.
const PARTIAL_BYTES: usize = 64 << 20;
/// Most blocks in the last direction of a grid.
const MOST_SPLITS: usize = 65_535;

/// The tokens of a pass.
pub(super) struct Tokens {
    pub(super) ids: Vec<u32>,
    /// How many tokens each sees, itself included.
    pub(super) visible: Vec<u32>,
    /// Where the pages of each token's sequence begin among `pages`.
    pub(super) first_page: Vec<u32>,
    pub(super) pages: Vec<Address>,
    /// The first token and the number of tokens of each sequence.
    spans: Vec<(usize, usize)>,
}

/// How the attention's rows are dealt to blocks.
pub(super) struct AttentionSplit {
    pub(super) tasks: Vec<Task>,
    /// Most rows of a block.
    pub(super) rows: usize,
    /// Partitions that the longest sequence has.
    pub(super) partitions: usize,
    /// Whether a block takes one of them.
    pub(super) split: bool,
}

impl Tokens {
    pub(super) fn new() -> Self {
        let (ids, visible, first_page) = (Vec::new(), Vec::new(), Vec::new());
        Self { ids, visible, first_page, pages: Vec::new(), spans: Vec::new() }
    }

    /// Adds the tokens that follow `before` others in a sequence with these pages.
    pub(super) fn add(&mut self, tokens: &[u32], before: usize, pages: impl Iterator<Item = Address>) {
        self.spans.push((self.ids.len(), tokens.len()));
        self.ids.extend_from_slice(tokens);
        self.visible.extend((1..=tokens.len()).map(|new| (before + new) as u32));
        self.first_page.extend(tokens.iter().map(|_| self.pages.len() as u32));
        self.pages.extend(pages);
        debug_assert!(self.pages.len() * PAGE_TOKENS >= before + tokens.len());
    }

    pub(super) fn count(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn longest(&self) -> usize {
        self.visible.iter().max().map_or(0, |visible| *visible as usize)
    }
}

impl AttentionSplit {
    pub(super) fn new(model: &CudaModel, shape: CudaPageShape, tokens: &Tokens) -> Self {
        let config = &model.config;
        let (heads, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
        let group = heads / kv_heads;
        // Wide heads leave shared memory for fewer rows.
        let most = if shape.stored_dim() <= 128 { 8 } else { 4 };
        let longest_span = tokens.spans.iter().map(|(_, count)| count * group).max().unwrap_or(1);
        let rows = longest_span.next_power_of_two().clamp(2, most);
        let mut tasks = Vec::new();
        for &(token, count) in &tokens.spans {
            for row in (0..count * group).step_by(rows) {
                tasks.push(Task {
                    token: token as u32,
                    row: row as u32,
                    rows: rows.min(count * group - row) as u32,
                    first_page: tokens.first_page[token],
                });
            }
        }
        let partitions = tokens.longest().div_ceil(PARTITION);
        let idle = tasks.len() * kv_heads < 2 * model.device.processors();
        let bytes = tokens.count() * heads * partitions * (shape.stored_dim() + 2) * size_of::<f32>();
        let split = idle && (2..=MOST_SPLITS).contains(&partitions) && bytes <= PARTIAL_BYTES;
        Self { tasks, rows, partitions, split }
    }

    /// Bytes of shared memory that a block is given: queries, outputs and its quarters' outputs,
    /// and the weights of a partition.
    pub(super) fn shared_bytes(&self, stored_dim: usize) -> usize {
        self.rows * ((2 + SUBPARTS) * stored_dim + PARTITION) * size_of::<f32>()
    }
}
