//! What kernels are told of a call: its tokens, where the pages of their sequences are, and how
//! attention is cut into tiles.

use crate::generation::backend::Feed;
use crate::generation::wgpu::cache::{CacheGrowth, GpuCache};
use crate::generation::wgpu::model::workspace::Sizes;
use crate::math;

/// The words of a call.
#[derive(Default)]
pub(crate) struct Feeding {
    /// Of each token: `Token` in the kernels.
    pub(crate) tokens: Vec<[u32; 4]>,
    /// Numbers of pages, sequence after sequence.
    pub(crate) table: Vec<u32>,
    /// Of each workgroup of attention: `Tile` there.
    pub(crate) tiles: Vec<[u32; 4]>,
    /// `[token][cos, sin][head_dim / 2]`.
    pub(crate) rotary: Vec<f32>,
    /// Pages that are copied first: from which to which.
    pub(crate) copies: Vec<[u32; 2]>,
    /// Whether every sequence is fed one token.
    pub(crate) single: bool,
}

impl Feeding {
    pub(crate) fn new(
        feeds: &[Feed<'_, GpuCache>],
        growths: &[CacheGrowth],
        sizes: &Sizes,
        inv_freq: &[f32],
    ) -> Self {
        let single = feeds.iter().all(|feed| feed.tokens.len() == 1);
        let rows = sizes.rows[usize::from(!single)];
        let mut all = Self { single, ..Self::default() };
        for (feed, growth) in feeds.iter().zip(growths) {
            let (first, start) = (all.tokens.len() as u32, all.table.len() as u32);
            all.table.extend(growth.table());
            all.copies.extend(growth.copy);
            for (position, token) in (feed.cache.len()..).zip(feed.tokens) {
                all.tokens.push([*token, position as u32, start, 0]);
                all.turn(position, inv_freq);
            }
            let fed = feed.tokens.len() * sizes.group;
            let tiles = (0..fed).step_by(rows);
            all.tiles.extend(tiles.map(|row| [first, row as u32, rows.min(fed - row) as u32, 0]));
        }
        all
    }

    /// Appends the angles of a position: computed here, since devices' sines are not exact.
    fn turn(&mut self, position: usize, inv_freq: &[f32]) {
        let start = self.rotary.len();
        self.rotary.resize(start + 2 * inv_freq.len(), 0.0);
        let (cos, sin) = self.rotary[start..].split_at_mut(inv_freq.len());
        math::rope_row(position, inv_freq, cos, sin);
    }
}
