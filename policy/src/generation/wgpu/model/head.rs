//! From the residual stream to logits, and from logits to tokens.

use bytemuck::{Pod, Zeroable};
use wgpu::ComputePass;

use crate::generation::EngineError;
use crate::generation::backend::{Pick, TokenClaim};
use crate::generation::wgpu::handle::{Binding, Handle};
use crate::generation::wgpu::kernel::{Dispatch, Kernel, KernelConstant};
use crate::generation::wgpu::model::layer::norm;
use crate::generation::wgpu::model::linear::{Flow, Update, WgpuLinear};
use crate::generation::wgpu::model::matrix::WgpuMatrix;
use crate::generation::wgpu::model::workspace::{CHOICE_BYTES, PICK_BYTES, PassBuffers, Sizes};
use crate::model::config::ModelConfig;
use crate::model::weights::Weights;
use crate::model::weights::named::vector;
use crate::sampling::{Interval, Sampled, SamplingError, SamplingParams};

const MASS: Kernel = Kernel {
    name: "mass",
    threads: 256,
    reduces: true,
    sources: &[
        include_str!("../shaders/numbers.wgsl"),
        include_str!("../shaders/sampling.wgsl"),
        include_str!("../shaders/mass.wgsl"),
    ],
    bindings: &[Binding::Read, Binding::Read, Binding::Write],
};

const PICK: Kernel = Kernel {
    name: "pick",
    threads: 256,
    reduces: true,
    sources: &[
        include_str!("../shaders/numbers.wgsl"),
        include_str!("../shaders/sampling.wgsl"),
        include_str!("../shaders/pick.wgsl"),
    ],
    bindings: &[Binding::Read, Binding::Read, Binding::Read, Binding::Write],
};

/// What kernels write for the largest logit where no token is possible; what no logit is below.
const IMPOSSIBLE: f32 = f32::MIN;

/// What is wanted of a row of logits: `Pick` in the kernels.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RowWanted {
    u: f32,
    sharpness: f32,
    wanted: u32,
    token: u32,
}

const DRAW: u32 = 0;
const LIKELIEST: u32 = 1;
const PLACE: u32 = 2;

const _: () = assert!(size_of::<RowWanted>() == PICK_BYTES);

impl RowWanted {
    /// That a token is drawn. Where some are ruled out, the row is wanted too: see [`needs_row`].
    pub(crate) fn draw(pick: &Pick<'_>) -> Self {
        let greedy = pick.params.temperature == 0.0;
        let wanted = if greedy { LIKELIEST } else { DRAW };
        Self { u: pick.u as f32, sharpness: sharpness(pick.params) as f32, wanted, token: 0 }
    }

    /// That a token's interval is wanted.
    pub(crate) fn place(claim: &TokenClaim<'_>) -> Self {
        Self { u: 0.0, sharpness: sharpness(claim.params) as f32, wanted: PLACE, token: claim.token }
    }
}

/// 1 / temperature, as f32 holds it; 1 for greedy sampling.
fn sharpness(params: &SamplingParams) -> f64 {
    if params.temperature == 0.0 {
        1.0
    } else {
        (1.0 / f64::from(params.temperature)).min(f64::from(f32::MAX))
    }
}

/// Whether top-k or top-p rule tokens out, or tokens race. The device does not know how; it is done
/// with a copy of the row.
pub(crate) fn needs_row(params: &SamplingParams, vocab: usize) -> bool {
    let few = params.top_k > 0 && (params.top_k as usize) < vocab;
    params.is_race() || (params.temperature > 0.0 && (few || params.top_p < 1.0))
}

/// What came of a row: `Choice` in the kernels.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct TokenChoice {
    token: u32,
    wrong: f32,
    logit: f32,
    top: f32,
    raw: f32,
    total: f32,
    low: f32,
    weight: f32,
}

const _: () = assert!(size_of::<TokenChoice>() == CHOICE_BYTES);

impl TokenChoice {
    /// Whether there is anything to draw from.
    ///
    /// Fails when the logits hold a NaN or +∞, or are all −∞.
    pub(crate) fn check(&self) -> Result<(), SamplingError> {
        let broken = |found| Err(SamplingError::Logits { found });
        match self.wrong {
            1.0 => broken("a value that is not a number"),
            2.0 => broken("an infinite value"),
            _ if self.top == IMPOSSIBLE => broken("no possible token"),
            _ => Ok(()),
        }
    }

    /// The same of another token of the row, as far as log-probs at temperature 1 go.
    pub(crate) fn of(self, token: u32, logits: &[f32]) -> Self {
        Self { token, logit: logits[token as usize], ..self }
    }

    /// log softmax(logits) of the token.
    pub(crate) fn raw_logprob(&self) -> f32 {
        (self.depth() - libm::log(f64::from(self.raw))) as f32
    }

    fn depth(&self) -> f64 {
        f64::from(self.logit) - f64::from(self.top)
    }

    fn logprob(&self, params: &SamplingParams) -> f32 {
        (self.depth() * sharpness(params) - libm::log(f64::from(self.total))) as f32
    }

    /// The token that was drawn.
    pub(crate) fn sampled(&self, params: &SamplingParams) -> Sampled {
        let logprob = if params.temperature == 0.0 { 0.0 } else { self.logprob(params) };
        Sampled { token: self.token, logprob, raw_logprob: self.raw_logprob() }
    }

    /// Where the token lies.
    pub(crate) fn interval(&self, params: &SamplingParams) -> Interval {
        let possible = self.logit > f32::NEG_INFINITY;
        let (low, total) = (f64::from(self.low), f64::from(self.total));
        Interval {
            low: low / total,
            high: (low + f64::from(self.weight)) / total,
            logprob: if possible { self.logprob(params) } else { f32::NEG_INFINITY },
            raw_logprob: self.raw_logprob(),
            cut: if possible { f32::INFINITY } else { f32::NEG_INFINITY },
            lead: None,
        }
    }
}

/// The last norm, the output projection, and the choice of tokens.
pub(crate) struct WgpuHead {
    norm: Dispatch,
    projection: WgpuLinear,
    mass: Dispatch,
    pick: Dispatch,
    blocks: usize,
}

impl WgpuHead {
    /// Copies the norm and binds the output projection. Within [`Handle::scoped`].
    ///
    /// Fails when a weight is missing.
    pub(crate) fn load(
        gpu: &Handle,
        config: &ModelConfig,
        (room, sizes): (&PassBuffers, &Sizes),
        projection: &WgpuMatrix,
        weights: &Weights,
    ) -> Result<Self, EngineError> {
        let flow = Flow {
            call: &room.rows_count,
            x: &room.normed,
            y: &room.logits,
            stride: config.vocab_size,
            update: Update::Set,
        };
        let vocab = [("VOCAB", KernelConstant::U32(config.vocab_size))];
        let picked = [&room.picks, &room.logits, &room.blocks, &room.choices];
        Ok(Self {
            norm: norm(gpu, config, room, &room.logit_rows, &vector(weights, "model.norm.weight")?),
            projection: WgpuLinear::new(gpu, projection, None, &flow),
            mass: Dispatch::new(gpu, &MASS, &vocab, &picked[..3]),
            pick: Dispatch::new(gpu, &PICK, &vocab, &picked),
            blocks: sizes.blocks,
        })
    }

    /// Makes so many rows of logits, and chooses where that is wanted. Within [`Handle::scoped`].
    pub(crate) fn record(&self, gpu: &Handle, pass: &mut ComputePass<'_>, rows: usize, chooses: bool) {
        self.norm.record(pass, rows, 1);
        self.projection.record(gpu, pass, rows);
        if chooses {
            self.mass.record(pass, self.blocks, rows);
            self.pick.record(pass, rows, 1);
        }
    }
}
