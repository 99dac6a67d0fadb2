//! One layer of the decoder on the device: eight dispatches, where no weight has several shards.

use wgpu::{Buffer, BufferUsages, ComputePass};

use crate::generation::EngineError;
use crate::generation::wgpu::handle::{Binding, Handle};
use crate::generation::wgpu::kernel::{Dispatch, Kernel, KernelConstant};
use crate::generation::wgpu::model::linear::{Flow, Update, WgpuLinear};
use crate::generation::wgpu::model::matrix::{RowOrder, WgpuMatrix, width};
use crate::generation::wgpu::model::workspace::{PassBuffers, Sizes};
use crate::generation::wgpu::pages::WgpuPageShape;
use crate::model::config::ModelConfig;
use crate::model::weights::named::{tensor, vector};
use crate::model::weights::{Weights, WeightsError};

const NORM: Kernel = Kernel {
    name: "norm",
    threads: 256,
    reduces: true,
    sources: &[include_str!("../shaders/norm.wgsl")],
    bindings: &[Binding::Read, Binding::Read, Binding::Read, Binding::Write],
};

const HEADS: Kernel = Kernel {
    name: "heads",
    threads: 64,
    reduces: true,
    sources: &[include_str!("../shaders/pages.wgsl"), include_str!("../shaders/heads.wgsl")],
    bindings: &[
        Binding::Read,
        Binding::Read,
        Binding::Read,
        Binding::Read,
        Binding::Read,
        Binding::Write,
        Binding::Write,
    ],
};

const ATTENTION: Kernel = Kernel {
    name: "attention",
    threads: 64,
    reduces: false,
    sources: &[
        include_str!("../shaders/numbers.wgsl"),
        include_str!("../shaders/pages.wgsl"),
        include_str!("../shaders/attention.wgsl"),
    ],
    bindings: &[Binding::Read, Binding::Read, Binding::Read, Binding::Read, Binding::Read, Binding::Write],
};

/// The RMS norm of the rows of `x` that `rows` name. Within [`Handle::scoped`].
pub(crate) fn norm(
    gpu: &Handle,
    config: &ModelConfig,
    room: &PassBuffers,
    rows: &Buffer,
    weight: &[f32],
) -> Dispatch {
    let weight = gpu.filled("norm", weight, BufferUsages::STORAGE);
    let constants = [
        ("HIDDEN", KernelConstant::U32(config.hidden_size)),
        ("STRIDE", KernelConstant::U32(width(config.hidden_size))),
        ("EPS", KernelConstant::F32(config.rms_norm_eps as f32)),
    ];
    Dispatch::new(gpu, &NORM, &constants, &[rows, &room.x, &weight, &room.normed])
}

/// The weights of one layer, and what they work on.
pub(crate) struct WgpuLayer {
    input_norm: Dispatch,
    qkv: WgpuLinear,
    /// Weights of the norms of queries and keys; one 0 where there are none.
    head_norms: Buffer,
    o: WgpuLinear,
    post_norm: Dispatch,
    gate_up: WgpuLinear,
    down: WgpuLinear,
}

impl WgpuLayer {
    /// Copies a layer to the device. Within [`Handle::scoped`].
    ///
    /// Fails when a weight is missing.
    pub(crate) fn load(
        gpu: &Handle,
        config: &ModelConfig,
        room: &PassBuffers,
        index: usize,
        weights: &Weights,
    ) -> Result<Self, EngineError> {
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let weight = |part: &str| vector(weights, &format!("{}.weight", name(part)));
        let linear = |parts: &[&str], biased: bool, order: RowOrder, flow: &Flow<'_>| {
            let of = |part: &&str| tensor(weights, &format!("{}.weight", name(part)));
            let tensors = parts.iter().map(of).collect::<Result<Vec<_>, WeightsError>>()?;
            let bias = |part: &&str| vector(weights, &format!("{}.bias", name(part)));
            let biases = parts.iter().filter(|_| biased).map(bias);
            let biases = biases.collect::<Result<Vec<_>, WeightsError>>()?;
            let bias: Vec<f32> = order.of(&biases, Vec::len).map(|(bias, row)| bias[row]).collect();
            let matrix = WgpuMatrix::load(gpu, &tensors, order)?;
            Ok::<_, EngineError>(WgpuLinear::new(gpu, &matrix, biased.then_some(&bias), flow))
        };
        let call = &room.tokens_count;
        let (x, normed) = (&room.x, &room.normed);
        let hidden = width(config.hidden_size);
        let inner = width(config.intermediate_size);
        let to_qkv = Flow {
            call,
            x: normed,
            y: &room.qkv,
            stride: config.q_dim() + 2 * config.kv_dim(),
            update: Update::Set,
        };
        let from_heads = Flow { call, x: &room.attended, y: x, stride: hidden, update: Update::Add };
        let to_inner = Flow { call, x: normed, y: &room.inner, stride: inner, update: Update::Swiglu };
        let from_inner = Flow { call, x: &room.inner, y: x, stride: hidden, update: Update::Add };
        let head_norms = if config.has_qk_norm() {
            [weight("self_attn.q_norm")?, weight("self_attn.k_norm")?].concat()
        } else {
            vec![0.0]
        };
        let norm = |weight: &[f32]| norm(gpu, config, room, &room.all_rows, weight);
        let qkv = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
        Ok(Self {
            input_norm: norm(&weight("input_layernorm")?),
            qkv: linear(&qkv, config.has_qkv_bias(), RowOrder::Stacked, &to_qkv)?,
            head_norms: gpu.filled("norms of heads", &head_norms, BufferUsages::STORAGE),
            o: linear(&["self_attn.o_proj"], config.has_o_bias(), RowOrder::Stacked, &from_heads)?,
            post_norm: norm(&weight("post_attention_layernorm")?),
            gate_up: linear(&["mlp.gate_proj", "mlp.up_proj"], config.mlp_bias, RowOrder::Paired, &to_inner)?,
            down: linear(&["mlp.down_proj"], config.mlp_bias, RowOrder::Stacked, &from_inner)?,
        })
    }

    /// Adds the layer to the residual stream of so many tokens, and its keys and values to
    /// their pages. Within [`Handle::scoped`].
    pub(crate) fn record(
        &self,
        gpu: &Handle,
        pass: &mut ComputePass<'_>,
        sight: &PageDispatches,
        (tokens, tiles, single): (usize, usize, bool),
    ) {
        self.input_norm.record(pass, tokens, 1);
        self.qkv.record(gpu, pass, tokens);
        sight.heads.record(pass, tokens, sight.all_heads);
        sight.attention[usize::from(!single)].record(pass, tiles, sight.kv_heads);
        self.o.record(gpu, pass, tokens);
        self.post_norm.record(pass, tokens, 1);
        self.gate_up.record(gpu, pass, tokens);
        self.down.record(gpu, pass, tokens);
    }
}

/// What a layer does with its pages: made anew when these move.
pub(crate) struct PageDispatches {
    heads: Dispatch,
    /// For calls that feed one token to each sequence, and for others.
    attention: [Dispatch; 2],
    /// Heads of queries, keys and values.
    all_heads: usize,
    kv_heads: usize,
}

impl PageDispatches {
    /// Binds a layer to the pages. Within [`Handle::scoped`].
    pub(crate) fn new(
        gpu: &Handle,
        config: &ModelConfig,
        (room, sizes): (&PassBuffers, &Sizes),
        (table, pages): (&Buffer, &Buffer),
        layer: &WgpuLayer,
    ) -> Self {
        let (queries, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
        let heads = [
            ("HEAD", KernelConstant::U32(config.head_dim)),
            ("PADDED", KernelConstant::U32(WgpuPageShape::of(config).padded)),
            ("QUERIES", KernelConstant::U32(queries)),
            ("KV_HEADS", KernelConstant::U32(kv_heads)),
        ];
        let placing = [
            ("STRIDE", KernelConstant::U32(sizes.qkv)),
            ("NORMED", KernelConstant::U32(usize::from(config.has_qk_norm()))),
            ("EPS", KernelConstant::F32(config.rms_norm_eps as f32)),
        ];
        let attention = |rows: usize| {
            let attending = [
                ("STRIDE", KernelConstant::U32(width(config.q_dim()))),
                ("ROWS", KernelConstant::U32(rows)),
                ("SCALE", KernelConstant::F32(1.0 / (config.head_dim as f32).sqrt())),
            ];
            let buffers = [&room.tokens, table, &room.tiles, &room.queries, pages, &room.attended];
            Dispatch::new(gpu, &ATTENTION, &[heads.as_slice(), &attending].concat(), &buffers)
        };
        let placed = [&room.tokens, table, &room.rotary, &room.qkv, &layer.head_norms, &room.queries, pages];
        Self {
            heads: Dispatch::new(gpu, &HEADS, &[heads.as_slice(), &placing].concat(), &placed),
            attention: sizes.rows.map(attention),
            all_heads: queries + 2 * kv_heads,
            kv_heads,
        }
    }
}
