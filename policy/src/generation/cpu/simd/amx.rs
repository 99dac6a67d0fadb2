//! The matrix unit of Intel's processors (AMX): products of tiles of bf16.
//!
//! A tile of weights is sixteen rows of 32 numbers, as they lie in memory. A tile of activations is
//! those 32 numbers of sixteen tokens, transposed: line k has the numbers 2k and 2k + 1 of each.
//! Their product is a tile of sums, a line for each row with a lane for each token.

#[cfg(target_arch = "x86_64")]
mod intel;
#[cfg(not(target_arch = "x86_64"))]
mod none;

#[cfg(target_arch = "x86_64")]
pub(crate) use intel::{Amx, Unit};
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use none::{Amx, Unit};

use super::{LANES, Line};

/// Rows of weights, tokens of activations, and lines of either in a tile.
pub(crate) const TILE: usize = 16;
/// Rows, and tokens, that are multiplied at a time.
pub(crate) const PAIR: usize = 2 * TILE;
/// Inputs of a tile.
pub(crate) const INPUTS: usize = 2 * LANES;

/// A tile in memory.
pub(crate) type Tile = [Line; TILE];
/// The sums of [`PAIR`] rows with the tokens of two tiles: for each tile of tokens, for each tile of rows.
pub(crate) type Sums = [[Tile; 2]; 2];

/// [`PAIR`] rows of weights.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "nobody reads them"))]
pub(crate) enum AmxRows<'a> {
    /// As they lie in a weight of which a cache has them: the nth and the one sixteen further on
    /// are read side by side.
    Near {
        /// From the first one on.
        bytes: &'a [u8],
        /// Bytes from one to the next.
        stride: usize,
    },
    /// As they lie in a weight that has yet to be read: those with even numbers, then those with
    /// odd ones. With rows of half a page, each page is read from its beginning to its end so, and
    /// processors look ahead in it; they do not where it is read in two places by turns.
    Far {
        /// From the first one on.
        bytes: &'a [u8],
        /// Bytes from one to the next.
        stride: usize,
    },
    /// Tile by tile, which are read in half of the time where rows do not begin with a line of the cache.
    Tiles([&'a [Tile]; 2]),
}

/// What becomes of numbers where sums go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Sums replace the numbers that are there.
    Set,
    /// They are replaced, in memory: for more of them than caches hold, which would first
    /// be read for nothing.
    Stream,
    /// Sums are added to the numbers that are there.
    Add,
}
