//! Lossless deltas: a chunk expressed against the same chunk of an older snapshot.
//!
//! ```
//! use echo_protocol::snapshot::delta::{Width, apply, encode};
//! let old = vec![0x3c; 4096];
//! let mut new = old.clone();
//! new[100] += 1;
//! let delta = encode(&old, &new, Width::Two).expect("one byte changed");
//! assert!(delta.len() < 64);
//! assert_eq!(apply(old, &delta, new.len())?, new);
//! # Ok::<(), echo_protocol::snapshot::delta::DeltaError>(())
//! ```
//!
//! A delta is good for any bytes of any lengths; it is *small* where little-endian numbers moved
//! little. It names neither of the two chunks: whoever applies it knows both from the manifest, and
//! checks the result against its content id.
//!
//! A delta begins with its kind and the bytes that belong to no whole number. What became of the
//! numbers comes behind them: in `sparse` or in `byte_planes`.

mod byte_planes;
mod change_mask;
mod change_rates;
mod distributions;
mod elements;
mod encoding;
mod level;
mod rans;
mod sparse;

use crate::run::tensor_type::TensorType;
use elements::{Element, ElementLayout};
use encoding::DeltaReader;
use std::borrow::Cow;

/// A delta is kept only when it is no longer than this share of the chunk, in percent. Beyond, the
/// chunk itself is as good.
pub const MAX_PERCENT: usize = 98;
/// The format's version, in the upper half of the first byte.
const VERSION: u8 = 1;

/// Bytes of the numbers that a chunk mostly consists of. A hint: it decides how small a delta gets,
/// not whether it is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// One byte, as in text and booleans.
    One,
    /// Two bytes, as in bf16 and f16.
    Two,
    /// Four bytes, as in f32.
    Four,
}

/// How a delta says what changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeltaKind {
    /// Positions and differences of the elements that changed.
    Sparse,
    /// The differences of all elements, byte plane by byte plane, compressed by zstd.
    Planes,
}

/// Bytes that are no delta of this base.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// The first byte names no format that is known here.
    #[error("delta of the unknown format {0:#04x}: fetch the whole chunk")]
    Format(u8),
    /// The bytes end before the delta is complete.
    #[error("the delta ends too early: fetch the whole chunk")]
    Truncated,
    /// Its parts contradict each other, or the base.
    #[error("the delta is damaged or belongs to another base ({0}): fetch the whole chunk")]
    Damaged(&'static str),
}

impl Width {
    /// Bytes of one element: 1, 2 or 4.
    pub fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }
}

impl From<TensorType> for Width {
    fn from(dtype: TensorType) -> Self {
        match dtype {
            TensorType::F32 => Self::Four,
            TensorType::Bf16 | TensorType::F16 => Self::Two,
        }
    }
}

/// The delta that makes `new` of `old`. `None` when the chunk itself is as cheap: above
/// [`MAX_PERCENT`] of its length.
pub fn encode(old: &[u8], new: &[u8], width: Width) -> Option<Vec<u8>> {
    let old = &fitted(old, new.len());
    let layout = ElementLayout::detect(old, new, width);
    let delta = match layout.width {
        Width::One => encode_as::<u8>(layout, old, new),
        Width::Two => encode_as::<u16>(layout, old, new),
        Width::Four => encode_as::<u32>(layout, old, new),
    };
    (delta.len() * 100 <= new.len() * MAX_PERCENT).then_some(delta)
}

fn encode_as<E: Element>(layout: ElementLayout, old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut delta = vec![header(DeltaKind::Sparse), layout.to_byte()];
    let elements = layout.write_loose(new, &mut delta);
    let (old, new) = (&old[elements.clone()], &new[elements]);
    if !sparse::encode::<E>(old, new, &mut delta) {
        delta[0] = header(DeltaKind::Planes);
        byte_planes::encode::<E>(old, new, &mut delta);
    }
    delta
}

/// The chunk of `out_len` bytes that `delta` makes of `old`, in place. Allocates what `old` is
/// shorter and a constant, whatever `delta` says.
///
/// # Errors
/// [`DeltaError`] when `delta` is not well formed. A delta that belongs to another base may go
/// unnoticed: check the content id.
pub fn apply(old: Vec<u8>, delta: &[u8], out_len: usize) -> Result<Vec<u8>, DeltaError> {
    let mut reader = DeltaReader::new(delta);
    let kind = kind_of(reader.byte()?)?;
    let layout = ElementLayout::from_byte(reader.byte()?)?;
    let mut chunk = old;
    chunk.reserve_exact(out_len.saturating_sub(chunk.len()));
    chunk.resize(out_len, 0);
    let elements = layout.read_loose(&mut chunk, &mut reader)?;
    match layout.width {
        Width::One => apply_as::<u8>(kind, elements, &mut reader)?,
        Width::Two => apply_as::<u16>(kind, elements, &mut reader)?,
        Width::Four => apply_as::<u32>(kind, elements, &mut reader)?,
    }
    if reader.is_empty() { Ok(chunk) } else { Err(DeltaError::Damaged("further bytes behind its end")) }
}

fn apply_as<E: Element>(
    kind: DeltaKind,
    elements: &mut [u8],
    reader: &mut DeltaReader<'_>,
) -> Result<(), DeltaError> {
    match kind {
        DeltaKind::Sparse => sparse::apply::<E>(elements, reader),
        DeltaKind::Planes => byte_planes::apply::<E>(elements, reader),
    }
}

/// Which kind of delta it is.
///
/// # Errors
/// When the first byte is missing or of no known format.
pub fn kind(delta: &[u8]) -> Result<DeltaKind, DeltaError> {
    kind_of(DeltaReader::new(delta).byte()?)
}

/// `old`, cut or continued by zeros to `length` bytes.
fn fitted(old: &[u8], length: usize) -> Cow<'_, [u8]> {
    if let Some(cut) = old.get(..length) {
        return Cow::Borrowed(cut);
    }
    let mut continued = Vec::with_capacity(length);
    continued.extend_from_slice(old);
    continued.resize(length, 0);
    Cow::Owned(continued)
}

fn header(kind: DeltaKind) -> u8 {
    VERSION << 4
        | match kind {
            DeltaKind::Sparse => 0,
            DeltaKind::Planes => 1,
        }
}

fn kind_of(header: u8) -> Result<DeltaKind, DeltaError> {
    [DeltaKind::Sparse, DeltaKind::Planes]
        .into_iter()
        .find(|kind| self::header(*kind) == header)
        .ok_or(DeltaError::Format(header))
}

#[cfg(test)]
mod tests;
