//! One forward pass: what is launched, in order.

use super::driver::{Address, Launch};
use super::kernels::{Attention, Draw, Embed, Heads, Norm, Outcome, RowPick, SwiGlu};
use super::model::{CudaLayer, CudaModel};
use super::tokens::{AttentionSplit, Tokens};
use super::workspace::{Letter, MemoryPlan, at};
use super::{cache::CudaPageShape, device::CudaDevice, draw};
use crate::generation::EngineError;
use crate::model::weights::DType;

/// Rows of logits that exist at a time.
const LOGIT_ROWS: usize = 64;
/// Threads of most kernels' blocks.
const THREADS: u32 = 256;

/// What is made of the wanted rows of logits.
pub(super) enum LogitsWanted<'a> {
    /// They come to the host, `[rows, vocab]`.
    Logits(&'a mut Vec<f32>),
    /// A token is drawn or found in each.
    Tokens(&'a [RowPick], &'a mut Vec<Outcome>),
}

/// Where the pass keeps what.
struct Places {
    x: Address,
    normed: Address,
    qkv: Address,
    attended: Address,
    gate_up: Address,
    inner: Address,
    logits: Address,
    tops: Address,
    masses: Address,
    partial: Address,
    stats: Address,
    ids: Address,
    visible: Address,
    first_page: Address,
    pages: Address,
    tasks: Address,
    rows: Address,
    picks: Address,
    outcomes: Address,
    cos: Address,
    sin: Address,
}

/// A pass that is about to be launched.
pub(super) struct CudaPass<'a> {
    model: &'a CudaModel,
    shape: CudaPageShape,
    tokens: &'a Tokens,
    deal: AttentionSplit,
    places: Places,
}

impl<'a> CudaPass<'a> {
    /// Finds memory, and tells the device about the tokens and the wanted rows among them. The turn
    /// has to be the caller's.
    ///
    /// Fails when there is no room, or the device fails.
    pub(super) fn new(
        model: &'a CudaModel,
        shape: CudaPageShape,
        tokens: &'a Tokens,
        rows: &[u32],
        wish: &LogitsWanted<'_>,
    ) -> Result<Self, EngineError> {
        let (config, recipe) = (&model.config, model.recipe);
        let deal = AttentionSplit::new(model, shape, tokens);
        let [cos, sin] = model.angles(tokens.longest())?;
        let picks = match wish {
            LogitsWanted::Logits(_) => &[][..],
            LogitsWanted::Tokens(picks, _) => picks,
        };
        let mut letter = Letter::default();
        let ids = letter.add(&tokens.ids);
        let visible = letter.add(&tokens.visible);
        let first_page = letter.add(&tokens.first_page);
        let pages = letter.add(&tokens.pages);
        let tasks = letter.add(&deal.tasks);
        let wanted = letter.add(rows);
        let orders = letter.add(picks);
        let outcomes = letter.add(&vec![<Outcome as bytemuck::Zeroable>::zeroed(); picks.len()]);

        let mut plan = MemoryPlan::default();
        plan.part::<u8>(letter.bytes().len());
        // Rounded, so that memory grows a few times and not with every longer call.
        let count = tokens.count().next_power_of_two();
        let at_once = rows.len().next_power_of_two().min(LOGIT_ROWS);
        let blocks = config.vocab_size.div_ceil(draw::BLOCK);
        let hidden = recipe.padded(config.hidden_size);
        let x = plan.part::<f32>(count * hidden);
        let normed = plan.part::<f32>(count.max(at_once) * hidden);
        let qkv = plan.part::<f32>(count * (config.q_dim() + 2 * config.kv_dim()));
        let attended = plan.part::<f32>(count * recipe.padded(config.q_dim()));
        let gate_up = plan.part::<f32>(count * 2 * config.intermediate_size);
        let inner = plan.part::<f32>(count * recipe.padded(config.intermediate_size));
        let logits = plan.part::<f32>(at_once * config.vocab_size);
        let tops = plan.part::<f32>(at_once * blocks);
        let masses = plan.part::<u64>(at_once * blocks * 2);
        let parts =
            if deal.split { tokens.count() * config.num_attention_heads * deal.partitions } else { 0 };
        let partial = plan.part::<f32>(parts * shape.stored_dim());
        let stats = plan.part::<f32>(parts * 2);

        let base = model.device.workspace(plan.bytes())?;
        model.device.upload(letter.bytes(), base)?;
        let place = |part| at(base, part);
        let places = Places {
            x: place(x),
            normed: place(normed),
            qkv: place(qkv),
            attended: place(attended),
            gate_up: place(gate_up),
            inner: place(inner),
            logits: place(logits),
            tops: place(tops),
            masses: place(masses),
            partial: place(partial),
            stats: place(stats),
            ids: place(ids),
            visible: place(visible),
            first_page: place(first_page),
            pages: place(pages),
            tasks: place(tasks),
            rows: place(wanted),
            picks: place(orders),
            outcomes: place(outcomes),
            cos,
            sin,
        };
        Ok(Self { model, shape, tokens, deal, places })
    }

    /// Computes all layers, and what is wished for of each wanted row.
    ///
    /// Fails when the device fails.
    pub(super) fn run(&self, rows: usize, wish: LogitsWanted<'_>) -> Result<(), EngineError> {
        self.embed()?;
        for (index, layer) in self.model.layers.iter().enumerate() {
            self.layer(index, layer)?;
        }
        match wish {
            LogitsWanted::Logits(values) => {
                let vocab = self.model.config.vocab_size;
                for first in (0..rows).step_by(LOGIT_ROWS) {
                    let count = LOGIT_ROWS.min(rows - first);
                    self.logits(first, count)?;
                    let start = values.len();
                    values.resize(start + count * vocab, 0.0);
                    self.device()
                        .download(self.places.logits, bytemuck::cast_slice_mut(&mut values[start..]))?;
                }
            }
            LogitsWanted::Tokens(picks, outcomes) => {
                for first in (0..rows).step_by(LOGIT_ROWS) {
                    let count = LOGIT_ROWS.min(rows - first);
                    self.logits(first, count)?;
                    self.draw(first, count, picks[first..first + count].iter().any(draw::cuts))?;
                }
                outcomes.resize(rows, bytemuck::Zeroable::zeroed());
                self.device().download(self.places.outcomes, bytemuck::cast_slice_mut(outcomes))?;
            }
        }
        Ok(())
    }

    fn device(&self) -> &CudaDevice {
        &self.model.device
    }

    fn embed(&self) -> Result<(), EngineError> {
        let embedding = self.model.embedding();
        let kernel = match embedding.dtype() {
            DType::F32 => "embed_f32",
            DType::BF16 => "embed_bf16",
            DType::F16 => "embed_f16",
        };
        let arguments = Embed {
            table: embedding.address(),
            ids: self.places.ids,
            x: self.places.x,
            width: self.model.config.hidden_size as u32,
            stride: embedding.inputs() as u32,
        };
        // SAFETY: the ids were checked, and x has a row for each.
        unsafe { self.device().launch(kernel, blocks(self.tokens.count(), 1, 1), &arguments) }
    }

    fn layer(&self, index: usize, layer: &CudaLayer) -> Result<(), EngineError> {
        let Places { x, normed, qkv, attended, gate_up, inner, .. } = self.places;
        let (config, device, tokens) = (&self.model.config, self.device(), self.tokens.count());
        let hidden = self.model.embedding().inputs();
        let norm = self.model.recipe.pick("norm_f32", "norm_bf16");
        self.norm(norm, layer.input_norm.address(), 0, tokens)?;
        layer.qkv.multiply(device, normed, qkv, tokens, layer.qkv.outputs(), false)?;
        self.place_heads(index, layer)?;
        self.attend(index)?;
        layer.o.multiply(device, attended, x, tokens, hidden, true)?;
        self.norm(norm, layer.post_norm.address(), 0, tokens)?;
        layer.gate_up.multiply(device, normed, gate_up, tokens, layer.gate_up.outputs(), false)?;
        let stride = layer.down.inputs();
        let arguments =
            SwiGlu { gate_up, y: inner, inner: config.intermediate_size as u32, stride: stride as u32 };
        let launch = blocks(stride.div_ceil(THREADS as usize), tokens, 1);
        // SAFETY: both have a row for each token.
        unsafe { device.launch(self.model.recipe.pick("swiglu_f32", "swiglu_bf16"), launch, &arguments)? };
        layer.down.multiply(device, inner, x, tokens, hidden, true)
    }

    /// Normalises rows of the residual stream: all of them, or those whose numbers lie behind an address.
    fn norm(&self, kernel: &str, weight: Address, rows: Address, count: usize) -> Result<(), EngineError> {
        let config = &self.model.config;
        let stride = self.model.embedding().inputs() as u32;
        let arguments = Norm {
            x: self.places.x,
            weight,
            y: self.places.normed,
            rows,
            width: config.hidden_size as u32,
            x_stride: stride,
            y_stride: stride,
            epsilon: config.rms_norm_eps as f32,
        };
        // SAFETY: there are so many rows, and as many fit.
        unsafe { self.device().launch(kernel, blocks(count, 1, 1), &arguments) }
    }

    fn place_heads(&self, index: usize, layer: &CudaLayer) -> Result<(), EngineError> {
        let (config, places) = (&self.model.config, &self.places);
        let [keys, values] = self.shape.layer(index);
        let norms = layer.qk_norm.as_ref();
        let arguments = Heads {
            qkv: places.qkv,
            q_norm: norms.map_or(0, |(q, _)| q.address()),
            k_norm: norms.map_or(0, |(_, k)| k.address()),
            cos: places.cos,
            sin: places.sin,
            visible: places.visible,
            first_page: places.first_page,
            pages: places.pages,
            attended: places.attended,
            heads: config.num_attention_heads as u32,
            kv_heads: config.num_key_value_heads as u32,
            dim: config.head_dim as u32,
            stored_dim: self.shape.stored_dim() as u32,
            keys,
            values,
            attended_width: config.q_dim() as u32,
            attended_stride: layer.o.inputs() as u32,
            epsilon: config.rms_norm_eps as f32,
            scale: 1.0 / (config.head_dim as f32).sqrt(),
        };
        let launch = Launch { blocks: [self.tokens.count() as u32, 1, 1], threads: 128, shared: 0 };
        // SAFETY: every sequence has pages for its tokens, and the places where they are written
        // to are its own.
        unsafe { self.device().launch(self.model.recipe.pick("heads_f32", "heads_bf16"), launch, &arguments) }
    }

    fn attend(&self, index: usize) -> Result<(), EngineError> {
        let (config, places, deal) = (&self.model.config, &self.places, &self.deal);
        let (recipe, dim) = (self.model.recipe, self.shape.stored_dim());
        let [keys, values] = self.shape.layer(index);
        let arguments = Attention {
            qkv: places.qkv,
            visible: places.visible,
            pages: places.pages,
            tasks: places.tasks,
            attended: places.attended,
            partial: if deal.split { places.partial } else { 0 },
            stats: places.stats,
            heads: config.num_attention_heads as u32,
            kv_heads: config.num_key_value_heads as u32,
            dim: config.head_dim as u32,
            stored_dim: dim as u32,
            keys,
            values,
            attended_stride: self.model.layers[index].o.inputs() as u32,
            partitions: deal.partitions as u32,
        };
        let kernel = match deal.rows {
            2 => recipe.pick("attend_f32_2", "attend_bf16_2"),
            4 => recipe.pick("attend_f32_4", "attend_bf16_4"),
            _ => recipe.pick("attend_f32_8", "attend_bf16_8"),
        };
        let split = if deal.split { deal.partitions } else { 1 };
        let launch = Launch {
            shared: deal.shared_bytes(dim) as u32,
            ..blocks(deal.tasks.len(), config.num_key_value_heads, split)
        };
        // SAFETY: tasks name tokens of the pass and pages of their sequences.
        unsafe { self.device().launch(kernel, launch, &arguments)? };
        if !deal.split {
            return Ok(());
        }
        let launch = blocks(self.tokens.count(), config.num_attention_heads, 1);
        // SAFETY: every partition of every token and head was written.
        unsafe { self.device().launch(recipe.pick("merge_f32", "merge_bf16"), launch, &arguments) }
    }

    /// The logits of `count` of the wanted rows from `first` on.
    fn logits(&self, first: usize, count: usize) -> Result<(), EngineError> {
        let rows = self.places.rows + (first * size_of::<u32>()) as u64;
        let norm = self.model.recipe.pick("norm_f32", "norm_bf16");
        self.norm(norm, self.model.norm.address(), rows, count)?;
        let (head, vocab) = (self.model.head(), self.model.config.vocab_size);
        head.multiply(self.device(), self.places.normed, self.places.logits, count, vocab, false)
    }

    /// Draws from these logits.
    fn draw(&self, first: usize, count: usize, cuts: bool) -> Result<(), EngineError> {
        let vocab = self.model.config.vocab_size;
        let ids = vocab.div_ceil(draw::BLOCK);
        let arguments = Draw {
            logits: self.places.logits,
            picks: self.places.picks + (first * size_of::<RowPick>()) as u64,
            outcomes: self.places.outcomes + (first * size_of::<Outcome>()) as u64,
            tops: self.places.tops,
            masses: self.places.masses,
            vocab: vocab as u32,
            blocks: ids as u32,
        };
        let borders = Launch { threads: 1024, ..blocks(count, 1, 1) };
        // SAFETY: there is a pick and an outcome for each row, and room for each block's sums.
        unsafe {
            self.device().launch("draw_tops", blocks(ids, count, 1), &arguments)?;
            if cuts {
                self.device().launch("draw_borders", borders, &arguments)?;
            }
            self.device().launch("draw_masses", blocks(ids, count, 1), &arguments)?;
            self.device().launch("draw_tokens", blocks(count, 1, 1), &arguments)
        }
    }
}

/// So many blocks of [`THREADS`] threads.
fn blocks(x: usize, y: usize, z: usize) -> Launch {
    Launch { blocks: [x as u32, y as u32, z as u32], threads: THREADS, shared: 0 }
}
