//! Which tokens top-k and top-p leave: selection, where a sort would order a whole vocabulary to
//! look at its first few.
//!
//! Tokens stand in order of falling logit, and of rising id among equals. A bound below which the
//! border cannot lie comes from the sums over blocks; what is above goes into bins by its logit.
//! The border's bin alone is sorted.

use std::cmp::Ordering;

use super::SamplingParams;
use super::blocks::{BLOCK, LogitsRow, weight};
use super::border::Border;
use crate::math;

/// Bins between the largest logit and the bound.
const BINS: usize = 1024;

/// What top-k and top-p leave of a distribution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Last token that stays under all rules.
    pub(super) border: Border,
    /// What top-k alone leaves, where it is on.
    ranked: Option<Border>,
    /// With top-p: the mass that is enough.
    enough: Option<f64>,
}

impl Cut {
    /// The cut of greedy sampling: only the likeliest token stays.
    pub(super) fn best(row: &LogitsRow<'_>) -> Self {
        let border = Border { floor: row.top, last: row.best() };
        Self { border, ranked: Some(border), enough: None }
    }

    /// None where all tokens stay.
    pub(super) fn new(row: &LogitsRow<'_>, params: &SamplingParams) -> Option<Self> {
        let (k, vocab) = (params.top_k as usize, row.logits.len());
        let top_k = (k > 0 && k < vocab).then_some(k);
        let top_p = (params.top_p < 1.0).then(|| f64::from(params.top_p));
        let order = match (top_k, top_p) {
            (None, None) => return None,
            (Some(k), _) => Order::new(row, floor_of_rank(row, k)),
            (None, Some(p)) => Order::new(row, floor_of_tail(row, 1.0 - p)),
        };
        let ranked = top_k.and_then(|k| order.first(|count, _| count >= k));
        let Some(p) = top_p else {
            let (border, _) = ranked?;
            return Some(Self { border, ranked: Some(border), enough: None });
        };
        let enough = p * ranked.map_or_else(|| row.total(), |(_, mass)| mass);
        // Rounding may leave less than is enough: then nothing is cut.
        let nucleus = order.first(|_, mass| mass >= enough).map(|(border, _)| border);
        let ranked = ranked.map(|(border, _)| border);
        let border = match (nucleus, ranked) {
            (Some(nucleus), Some(ranked)) if ranked.keeps(nucleus.last, nucleus.floor) => nucleus,
            (Some(nucleus), None) => nucleus,
            (_, ranked) => ranked?,
        };
        Some(Self { border, ranked, enough: Some(enough) })
    }

    /// How far the logits would have to move, divided by the temperature, for a token to be on the
    /// other side of the border; negative where it is ruled out, and for one that stays how far it
    /// is above the last that does.
    ///
    /// Of a token whose logit is not −∞. Two ways lead back in: past the last token that stays, or,
    /// with top-p, by as much as there is too much mass before it.
    pub(super) fn distance(&self, row: &LogitsRow<'_>, token: usize) -> f32 {
        let logit = row.logits[token];
        let to_floor = row.depth(logit) - row.depth(self.border.floor);
        let in_rank = self.ranked.is_none_or(|ranked| ranked.keeps(token, logit));
        let out = in_rank && !self.border.keeps(token, logit);
        let Some(enough) = self.enough.filter(|_| out) else { return to_floor as f32 };
        // The tokens up to this one, and this one out again.
        let before = row.mass_within(&Border { floor: logit, last: token }) - libm::exp(row.depth(logit));
        to_floor.max(libm::log(enough / before).min(0.0)) as f32
    }
}

/// A logit that at least `k` tokens reach, as high as the blocks tell; the lowest possible token's
/// where they do not.
fn floor_of_rank(row: &LogitsRow<'_>, k: usize) -> f32 {
    if k <= row.blocks.len() {
        let mut tops: Vec<f32> = row.blocks.iter().map(|block| block.top).collect();
        let (_, floor, _) = tops.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
        if *floor > f32::NEG_INFINITY {
            return *floor;
        }
    }
    let possible = row.logits.iter().filter(|logit| **logit > f32::NEG_INFINITY);
    possible.fold(row.top, |least, logit| least.min(*logit))
}

/// A logit so low that all tokens below it have at most half of the share `tail` of the mass.
fn floor_of_tail(row: &LogitsRow<'_>, tail: f64) -> f32 {
    let depth = libm::log(tail / 2.0 * row.total() / row.logits.len() as f64);
    (f64::from(row.top) + depth / f64::from(row.factor())) as f32
}

/// The tokens above a bound, from the likeliest on, by bins.
struct Order<'a> {
    row: &'a LogitsRow<'a>,
    /// Bins for a difference of 1 in the logit.
    scale: f32,
    bins: Vec<Bin>,
}

#[derive(Clone, Copy, Default)]
struct Bin {
    tokens: usize,
    /// Σ exp((logit − top) / temperature).
    mass: f64,
}

impl<'a> Order<'a> {
    fn new(row: &'a LogitsRow<'a>, bound: f32) -> Self {
        // Finite and positive, so that the largest logit is in bin 0 where the bound is no lower
        // than it (and where one of them is −0).
        let scale = ((BINS - 1) as f32 / (row.top - bound).abs()).min(f32::MAX);
        let mut bins = vec![Bin::default(); BINS];
        let mut order = Self { row, scale, bins: Vec::new() };
        order.visit(|bin, weight, _, _| {
            if let Some(bin) = bins.get_mut(bin as usize) {
                bin.tokens += 1;
                bin.mass += f64::from(weight);
            }
        });
        order.bins = bins;
        order
    }

    /// The bin of a logit, the lower the larger it is; [`BINS`] below the bound.
    #[inline(always)]
    fn bin(&self, logit: f32) -> u32 {
        // Added to a number, leaves the nearest integer in the low bits of the mantissa.
        const MAGIC: f32 = 8_388_608.0;
        let place = (self.row.top - logit) * self.scale;
        let place = if place < BINS as f32 { place } else { BINS as f32 };
        (place + MAGIC).to_bits() - MAGIC.to_bits()
    }

    /// Shows bin, weight, id and logit of each token, but of blocks below the bound.
    fn visit(&self, mut see: impl FnMut(u32, f32, usize, f32)) {
        let (mut bins, mut weights) = ([0; BLOCK], [0.0; BLOCK]);
        let (top, factor) = (self.row.top, self.row.factor());
        for (index, block) in self.row.blocks.iter().enumerate() {
            if self.bin(block.top) as usize >= BINS {
                continue;
            }
            let logits = self.row.ids(index);
            math::wide(
                #[inline(always)]
                || {
                    for (bin, logit) in bins.iter_mut().zip(logits) {
                        *bin = self.bin(*logit);
                    }
                    for (result, logit) in weights.iter_mut().zip(logits) {
                        *result = weight((logit - top) * factor);
                    }
                },
            );
            for (((id, bin), weight), logit) in (index * BLOCK..).zip(&bins).zip(&weights).zip(logits) {
                see(*bin, *weight, id, *logit);
            }
        }
    }

    /// The first token in order at which `reached`, told the tokens up to and with it and their
    /// mass, holds; and that mass.
    fn first(&self, reached: impl Fn(usize, f64) -> bool) -> Option<(Border, f64)> {
        let (mut count, mut mass) = (0, 0.0);
        let found = self.bins.iter().position(|bin| {
            let there = bin.tokens > 0 && reached(count + bin.tokens, mass + bin.mass);
            if !there {
                count += bin.tokens;
                mass += bin.mass;
            }
            there
        })?;
        let mut tokens = Vec::with_capacity(self.bins[found].tokens);
        self.visit(|bin, weight, id, logit| {
            if bin as usize == found {
                tokens.push((id, logit, weight));
            }
        });
        // Not total_cmp, for which −0 is below 0; there is no NaN.
        tokens.sort_unstable_by(|(a, x, _), (b, y, _)| {
            y.partial_cmp(x).unwrap_or(Ordering::Equal).then(a.cmp(b))
        });
        let enough = tokens.iter().position(|(_, _, weight)| {
            count += 1;
            mass += f64::from(*weight);
            reached(count, mass)
        });
        // Added up in another order, the bin's mass may be short by a rounding.
        let (last, floor, _) = *tokens.get(enough.unwrap_or(tokens.len() - 1))?;
        Some((Border { floor, last }, mass))
    }
}
