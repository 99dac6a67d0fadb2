//! Final norm, output projection and scores, a tile of logits at a time.
//!
//! Where activations are kept for the way back, so are logits, as long as these are [`KEPT_TILES`]
//! at most in all. Of more of them only one tile is there at a time, and all are computed again:
//! memory grows neither with the number of targets nor with the vocabulary.

use rayon::prelude::*;

use super::buffer::fit;
use super::matmul::{MatrixView, Onto, Threads, product};
use super::{rms_norm, task_rows};
use crate::math;
use crate::sampling::logprob::{Distribution, Slope};
use crate::training::decoder::Decoder;
use crate::training::decoder::scored::{Activations, Scores, Slopes};
use crate::training::packed::Target;

/// Targets in a tile.
const TILE_ROWS: usize = 512;
/// Tokens of the vocabulary in a tile.
const TILE_COLUMNS: usize = 2048;
/// Most tiles whose logits are kept, 64 MiB: those of 2,048 targets and a vocabulary of
/// 8,192. That spares such a step one product in sixteen; of many more tiles sixteen would
/// spare next to nothing.
const KEPT_TILES: usize = 16;

/// Buffers of a tile.
#[derive(Default)]
pub(super) struct HeadScratch {
    /// Residual streams of the targets' rows, and normalised.
    x: Vec<f32>,
    normed: Vec<f32>,
    d_normed: Vec<f32>,
    /// Logits of the tiles that are kept, and then of the last one of the others.
    tiles: Vec<Vec<f32>>,
}

impl HeadScratch {
    /// Where the logits of a tile lie while the first `kept` ones are kept.
    fn tile(&mut self, index: usize, kept: usize) -> &mut Vec<f32> {
        let place = index.min(kept);
        if self.tiles.len() <= place {
            self.tiles.resize_with(place + 1, Vec::new);
        }
        &mut self.tiles[place]
    }
}

/// The head with its values.
pub(super) struct DecoderHead<'a> {
    norm: &'a [f32],
    /// Weight of the output projection, `[vocabulary, hidden]`.
    weight: &'a [f32],
    norm_place: usize,
    weight_place: usize,
    eps: f32,
    /// 1 / temperature, which multiplies the logits.
    sharpness: f32,
    tile_rows: usize,
    tile_columns: usize,
    /// Most tiles whose logits the way back finds.
    most_kept: usize,
}

impl<'a> DecoderHead<'a> {
    pub(super) fn new(decoder: &Decoder, weights: &[&'a [f32]], activations: Option<Activations>) -> Self {
        let (norm_place, weight_place) = (decoder.places.norm, decoder.places.head);
        let (norm, weight) = (weights[norm_place], weights[weight_place]);
        let eps = decoder.config.rms_norm_eps as f32;
        let (tile_rows, tile_columns) = (TILE_ROWS, TILE_COLUMNS);
        let sharpness = 1.0 / decoder.temperature;
        let most_kept = if activations == Some(Activations::Keep) { KEPT_TILES } else { 0 };
        Self { norm, weight, norm_place, weight_place, eps, sharpness, tile_rows, tile_columns, most_kept }
    }

    fn hidden(&self) -> usize {
        self.norm.len()
    }

    fn vocab(&self) -> usize {
        self.weight.len() / self.hidden()
    }

    /// How many tiles' logits the way back finds for so many targets: all or none.
    fn kept(&self, targets: usize) -> usize {
        let tiles = targets.div_ceil(self.tile_rows) * self.vocab().div_ceil(self.tile_columns);
        if tiles <= self.most_kept { tiles } else { 0 }
    }

    /// Tiles of a chunk of the targets: the index of each, the token at which it starts, and its
    /// rows of the weight.
    fn tiles(&self, chunk: usize) -> impl Iterator<Item = (usize, usize, MatrixView<'a>)> {
        let (hidden, columns) = (self.hidden(), self.tile_columns);
        let tiles = self.weight.chunks(columns * hidden);
        let first = chunk * tiles.len();
        tiles.enumerate().map(move |(index, tile)| {
            (first + index, index * columns, MatrixView::new(tile, tile.len() / hidden, hidden))
        })
    }

    /// Logits of some rows of the residual stream `x`.
    pub(super) fn logits(&self, x: &[f32], rows: &[usize]) -> Vec<f32> {
        let mut scratch = HeadScratch::default();
        self.gather(x, rows.iter().copied(), &mut scratch);
        let mut logits = vec![0.0; rows.len() * self.vocab()];
        let normed = MatrixView::new(&scratch.normed, rows.len(), self.hidden());
        let weight = MatrixView::new(self.weight, self.vocab(), self.hidden());
        product(normed, weight.t(), &mut logits, Onto::Replace, Threads::All);
        logits
    }

    /// Scores of the targets, and the normalisers of their logits.
    pub(super) fn score(
        &self,
        x: &[f32],
        targets: &[Target],
        scratch: &mut HeadScratch,
    ) -> (Scores, Vec<f32>) {
        let mut scores = Scores::default();
        let mut normalisers = Vec::with_capacity(targets.len());
        let kept = self.kept(targets.len());
        for (chunk, targets) in targets.chunks(self.tile_rows).enumerate() {
            self.gather_sharpened(x, targets, scratch);
            let mut seen = vec![(Distribution::default(), 0.0f32); targets.len()];
            for (tile, start, weight) in self.tiles(chunk) {
                let logits = self.tile_logits(tile, kept, weight, targets.len(), scratch);
                absorb(logits, weight.rows(), start, targets, &mut seen);
            }
            for (distribution, logit) in seen {
                scores.logp.push(distribution.logprob(logit));
                scores.entropy.push(distribution.entropy());
                normalisers.push(distribution.normaliser());
            }
        }
        (scores, normalisers)
    }

    /// Adds the gradients of norm and weight, and that of the residual stream to `d`.
    pub(super) fn backward(
        &self,
        x: &[f32],
        normalisers: &[f32],
        slopes: Slopes<'_>,
        d: &mut [f32],
        gradients: &mut [&mut [f32]],
        scratch: &mut HeadScratch,
    ) {
        let (hidden, kept) = (self.hidden(), self.kept(slopes.targets.len()));
        for (chunk, targets) in slopes.targets.chunks(self.tile_rows).enumerate() {
            let first = chunk * self.tile_rows;
            let slope = |index: usize| Slope {
                normaliser: normalisers[first + index],
                entropy: slopes.scores.entropy[first + index],
                d_logp: slopes.d_logp[first + index],
                d_entropy: slopes.d_entropy(first + index),
            };
            let slopes: Vec<Slope> = (0..targets.len()).map(slope).collect();
            self.gather_sharpened(x, targets, scratch);
            fit(&mut scratch.d_normed, targets.len() * hidden);
            for (tile, start, weight) in self.tiles(chunk) {
                if tile >= kept {
                    self.tile_logits(tile, kept, weight, targets.len(), scratch);
                }
                let columns = weight.rows();
                let logits = scratch.tile(tile, kept);
                descend(logits, columns, start, targets, &slopes);
                let logits = std::mem::take(logits);
                let d_logits = MatrixView::new(&logits, targets.len(), columns);
                let normed = MatrixView::new(&scratch.normed, targets.len(), hidden);
                let onto = if start == 0 { Onto::Replace } else { Onto::Add };
                product(d_logits, weight, &mut scratch.d_normed, onto, Threads::All);
                let d_weight = &mut gradients[self.weight_place][start * hidden..(start + columns) * hidden];
                product(d_logits.t(), normed, d_weight, Onto::Add, Threads::All);
                *scratch.tile(tile, kept) = logits;
            }
            let HeadScratch { x, d_normed, .. } = &mut *scratch;
            self.sharpen(d_normed);
            let d_norm = &mut *gradients[self.norm_place];
            let rows = x.chunks_exact(hidden).zip(d_normed.chunks_exact_mut(hidden)).zip(targets);
            for ((x, d_normed), target) in rows {
                math::wide(
                    #[inline(always)]
                    || rms_norm::row_backward(x, self.norm, self.eps, d_normed, d_norm),
                );
                math::axpy(&mut d[target.row * hidden..(target.row + 1) * hidden], 1.0, d_normed);
            }
        }
    }

    /// Computes a tile's logits from the normalised rows.
    fn tile_logits<'s>(
        &self,
        tile: usize,
        kept: usize,
        weight: MatrixView<'_>,
        rows: usize,
        scratch: &'s mut HeadScratch,
    ) -> &'s [f32] {
        let mut logits = std::mem::take(scratch.tile(tile, kept));
        fit(&mut logits, rows * weight.rows());
        let normed = MatrixView::new(&scratch.normed, rows, self.hidden());
        product(normed, weight.t(), &mut logits, Onto::Replace, Threads::All);
        let place = scratch.tile(tile, kept);
        *place = logits;
        place
    }

    /// The same with targets' rows, so that their products with the weight are logits over the temperature.
    fn gather_sharpened(&self, x: &[f32], targets: &[Target], scratch: &mut HeadScratch) {
        self.gather(x, targets.iter().map(|target| target.row), scratch);
        self.sharpen(&mut scratch.normed);
    }

    fn sharpen(&self, values: &mut [f32]) {
        if self.sharpness != 1.0 {
            values.iter_mut().for_each(|value| *value *= self.sharpness);
        }
    }

    /// Copies rows of the residual stream out, and normalises them.
    fn gather(&self, x: &[f32], rows: impl ExactSizeIterator<Item = usize>, scratch: &mut HeadScratch) {
        let hidden = self.hidden();
        fit(&mut scratch.x, rows.len() * hidden);
        fit(&mut scratch.normed, rows.len() * hidden);
        for (copy, row) in scratch.x.chunks_exact_mut(hidden).zip(rows) {
            copy.copy_from_slice(&x[row * hidden..(row + 1) * hidden]);
        }
        rms_norm::forward(&scratch.x, self.norm, self.eps, &mut scratch.normed);
    }
}

/// Takes a tile of logits, of `columns` tokens from `start`, into what is known of each target.
fn absorb(
    logits: &[f32],
    columns: usize,
    start: usize,
    targets: &[Target],
    seen: &mut [(Distribution, f32)],
) {
    let task = task_rows(columns);
    let tasks =
        logits.par_chunks(task * columns).zip(targets.par_chunks(task)).zip(seen.par_chunks_mut(task));
    tasks.for_each(|((logits, targets), seen)| {
        for ((logits, target), (distribution, logit)) in logits.chunks_exact(columns).zip(targets).zip(seen) {
            math::wide(
                #[inline(always)]
                || distribution.absorb(logits),
            );
            if let Some(found) = column(target, start, columns) {
                *logit = logits[found];
            }
        }
    });
}

/// Turns a tile of logits into their gradients.
fn descend(logits: &mut [f32], columns: usize, start: usize, targets: &[Target], slopes: &[Slope]) {
    let task = task_rows(columns);
    let tasks =
        logits.par_chunks_mut(task * columns).zip(targets.par_chunks(task)).zip(slopes.par_chunks(task));
    tasks.for_each(|((logits, targets), slopes)| {
        for ((logits, target), slope) in logits.chunks_exact_mut(columns).zip(targets).zip(slopes) {
            math::wide(
                #[inline(always)]
                || slope.apply(logits),
            );
            if let Some(found) = column(target, start, columns) {
                logits[found] += slope.d_logp;
            }
        }
    });
}

/// Where a target's token stands in a tile, if it does.
fn column(target: &Target, start: usize, columns: usize) -> Option<usize> {
    (target.token as usize).checked_sub(start).filter(|column| *column < columns)
}

#[cfg(test)]
mod tests;
