//! The kernels: their sources, what was compiled of them, and the structures that they take.
//!
//! Volunteers have a driver and no compiler. So the kernels are shipped as PTX for compute
//! capability 8.0, which the driver compiles for the GPU that is there. It is the output of NVRTC
//! 12.0: its form of PTX (8.0) is read by every driver from 525 on.

use std::path::{Path, PathBuf};

use bytemuck::{Pod, Zeroable};

use super::driver::Address;

/// The sources, in the order in which they are one program.
pub const SOURCES: [(&str, &str); 7] = [
    ("device.cuh", include_str!("kernels/device.cuh")),
    ("rows.cu", include_str!("kernels/rows.cu")),
    ("linear.cu", include_str!("kernels/linear.cu")),
    ("mma.cu", include_str!("kernels/mma.cu")),
    ("heads.cu", include_str!("kernels/heads.cu")),
    ("attention.cu", include_str!("kernels/attention.cu")),
    ("draw.cu", include_str!("kernels/draw.cu")),
];

/// The one program that the sources make.
#[must_use]
pub fn program() -> String {
    SOURCES.iter().map(|(name, text)| format!("#line 1 \"{name}\"\n{text}")).collect()
}

/// What NVRTC made of the program, packed, after a line with [`fingerprint`].
const SHIPPED: &[u8] = include_bytes!("kernels/kernels.ptx.zst");
/// More than the kernels are.
const MOST_BYTES: usize = 16 << 20;

/// The architecture that the shipped kernels are compiled for; drivers take them to every later one.
pub const ARCHITECTURE: &str = "compute_80";
/// How NVRTC is told to compile the program. Nothing is contracted that is not written so: see `device.cuh`.
pub const OPTIONS: [&str; 2] = ["--fmad=false", "--std=c++17"];

/// What tells one program from another: BLAKE3 of its text and the options, in hexadecimal.
#[must_use]
pub fn fingerprint() -> String {
    let text = [program(), OPTIONS.concat(), ARCHITECTURE.to_owned()].concat();
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// The shipped kernels, and in front of them, as a comment, the fingerprint of what they were compiled from.
///
/// # Errors
/// When they cannot be unpacked.
pub fn shipped() -> std::io::Result<String> {
    let bytes = zstd::bulk::decompress(SHIPPED, MOST_BYTES)?;
    String::from_utf8(bytes).map_err(std::io::Error::other)
}

/// The file of the shipped kernels in a checkout of the workspace.
/// The example `kernels` writes it, and this crate includes it when it is built.
#[must_use]
pub fn shipped_path() -> PathBuf {
    // The compiler is given this file's path from the workspace's root.
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file!());
    here.with_extension("").join("kernels.ptx.zst")
}

/// PTX as it is shipped: with the fingerprint in front, and packed.
///
/// # Errors
/// When it cannot be packed.
pub fn pack(ptx: &str) -> std::io::Result<Vec<u8>> {
    zstd::bulk::compress(format!("// {}\n{ptx}", fingerprint()).as_bytes(), 19)
}

/// The names of the kernels in PTX.
pub fn names(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.lines().filter_map(|line| line.strip_prefix(".visible .entry ")?.split('(').next())
}

/// Bytes of a structure that a kernel takes.
pub(super) trait Arguments: Pod {}

macro_rules! arguments {
    ($($(#[$note:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$note])*
        #[repr(C)]
        #[derive(Clone, Copy, Pod, Zeroable)]
        pub(super) struct $name { $(pub(super) $field: $kind),* }
        impl Arguments for $name {}
    )*};
}

// Fields as in the kernels' sources, which describe them.
arguments! {
    /// Looks up rows of the embedding: in `rows.cu`.
    Embed { table: Address, ids: Address, x: Address, width: u32, stride: u32 }
    /// RMS norms of rows: in `rows.cu`.
    Norm {
        x: Address, weight: Address, y: Address, rows: Address,
        width: u32, x_stride: u32, y_stride: u32, epsilon: f32,
    }
    /// silu(gate) · up, in `rows.cu`.
    SwiGlu { gate_up: Address, y: Address, inner: u32, stride: u32 }
    /// In `linear.cu`, and for `mma.cu`.
    Linear {
        weight: Address, bias: Address, x: Address, y: Address,
        inputs: u32, outputs: u32, tokens: u32, y_stride: u32, add: u32, unused: u32,
    }
    /// Norms, rotates and caches heads: in `heads.cu`.
    Heads {
        qkv: Address, q_norm: Address, k_norm: Address, cos: Address, sin: Address,
        visible: Address, first_page: Address, pages: Address, attended: Address,
        heads: u32, kv_heads: u32, dim: u32, stored_dim: u32, keys: u32, values: u32,
        attended_width: u32, attended_stride: u32, epsilon: f32, scale: f32,
    }
    /// Attention over pages of the caches: in `attention.cu`.
    Attention {
        qkv: Address, visible: Address, pages: Address, tasks: Address, attended: Address,
        partial: Address, stats: Address,
        heads: u32, kv_heads: u32, dim: u32, stored_dim: u32, keys: u32, values: u32,
        attended_stride: u32, partitions: u32,
    }
    /// In `attention.cu`: a block's work.
    Task { token: u32, row: u32, rows: u32, first_page: u32 }
    /// Chooses tokens of rows of logits: in `draw.cu`.
    Draw {
        logits: Address, picks: Address, outcomes: Address, tops: Address, masses: Address,
        vocab: u32, blocks: u32,
    }
    /// In `draw.cu`: a row's order.
    RowPick { u: u64, factor: f32, top_p: f32, top_k: u32, token: u32, greedy: u32, unused: u32 }
    /// In `draw.cu`: what came of a row.
    Outcome {
        before: u64, mass: u64, total: u64, raw_total: u64, enough: u64, ahead: u64,
        top: f32, logit: f32, floor: f32, ranked_floor: f32,
        status: u32, token: u32, last: u32, ranked_last: u32, has_cut: u32, has_ranked: u32,
    }
}
