//! The weights of one position's tokens, block by block, each relative to the largest logit of its block.
//!
//! A sweep over the logits leaves one sum a block for each temperature. Where a token lies follows
//! from those and from the weights of its own block, which are computed again: nothing as long as
//! the vocabulary is ever stored.

use super::SamplingError;
use super::border::Border;
use crate::math;

/// Tokens of a block.
pub(super) const BLOCK: usize = 1024;

/// A logit this far below the largest of its block has no weight: f32's smallest normal number is e^−87.3.
const DEPTH: f32 = -87.0;

/// One position's logits, with the sums of their blocks.
pub(super) struct LogitsRow<'a> {
    pub(super) logits: &'a [f32],
    /// Largest logit of the row.
    pub(super) top: f32,
    /// What differences of logits are divided by, as a factor: 1 / temperature.
    sharpness: f64,
    pub(super) blocks: Vec<Block>,
    /// log Σ exp(logit − top) of all tokens.
    log_total: f64,
    /// Σ of the blocks' masses.
    total: f64,
}

/// Up to [`BLOCK`] tokens with consecutive ids.
pub(super) struct Block {
    /// Largest logit; −∞ where no token is possible.
    pub(super) top: f32,
    /// Σ exp((logit − the row's top) / temperature) of its tokens that may be drawn.
    mass: f64,
}

/// The weight of a token, of what its logit is below the largest of the block. NaN stays NaN.
#[inline(always)]
pub(super) fn weight(depth: f32) -> f32 {
    if depth < DEPTH { 0.0 } else { math::exp(depth) }
}

/// Σ of the weights of the logits that are not below `floor`.
#[inline(always)]
fn above(logits: &[f32], floor: f32, top: f32, factor: f32) -> f64 {
    let kept = |x: f32| if x >= floor { weight((x - top) * factor) } else { 0.0 };
    let [sum] = math::sums(
        logits,
        #[inline(always)]
        |x| [kept(x)],
    );
    sum
}

/// The factor to multiply f32 logits with. Temperatures near f32's smallest number would make it
/// infinite, and 0 · ∞ is no number.
fn narrow(sharpness: f64) -> f32 {
    sharpness.min(f64::from(f32::MAX)) as f32
}

impl<'a> LogitsRow<'a> {
    /// Reads the logits once.
    ///
    /// Fails when they are empty, hold a NaN or +∞, or are all −∞.
    pub(super) fn new(logits: &'a [f32], temperature: f64) -> Result<Self, SamplingError> {
        let sharpness = 1.0 / temperature;
        let factor = narrow(sharpness);
        let mut sums = Vec::with_capacity(logits.len().div_ceil(BLOCK));
        math::wide(
            #[inline(always)]
            || {
                for ids in logits.chunks(BLOCK) {
                    let top = math::max(ids);
                    let base = if top == f32::NEG_INFINITY { 0.0 } else { top };
                    let [raw, drawn] = if factor == 1.0 {
                        let [raw] = math::sums(
                            ids,
                            #[inline(always)]
                            |x| [weight(x - base)],
                        );
                        [raw, raw]
                    } else {
                        math::sums(
                            ids,
                            #[inline(always)]
                            |x| [weight(x - base), weight((x - base) * factor)],
                        )
                    };
                    sums.push((top, raw, drawn));
                }
            },
        );
        let broken = |found| Err(SamplingError::Logits { found });
        let top = sums.iter().fold(f32::NEG_INFINITY, |top, (block, ..)| top.max(*block));
        if top == f32::INFINITY {
            return broken("an infinite value");
        }
        if sums.iter().any(|(_, raw, _)| raw.is_nan()) {
            return broken("a value that is not a number");
        }
        if top == f32::NEG_INFINITY {
            return broken("no possible token");
        }
        let (mut raw_total, mut blocks) = (0.0, Vec::with_capacity(sums.len()));
        for (block, raw, drawn) in sums {
            let depth = f64::from(block) - f64::from(top);
            let scale = libm::exp(depth);
            raw_total += scale * raw;
            let mass = if sharpness == 1.0 { scale * drawn } else { libm::exp(depth * sharpness) * drawn };
            blocks.push(Block { top: block, mass });
        }
        let total = blocks.iter().map(|block| block.mass).sum();
        Ok(Self { logits, top, sharpness, blocks, log_total: libm::log(raw_total), total })
    }

    /// Σ exp((logit − top) / temperature) of the tokens that may be drawn.
    pub(super) fn total(&self) -> f64 {
        self.total
    }

    /// How far a logit is below the largest, divided by the temperature.
    pub(super) fn depth(&self, logit: f32) -> f64 {
        (f64::from(logit) - f64::from(self.top)) * self.sharpness
    }

    /// log softmax(logits)[token], at temperature 1.
    pub(super) fn raw_logprob(&self, token: usize) -> f32 {
        ((f64::from(self.logits[token]) - f64::from(self.top)) - self.log_total) as f32
    }

    /// The log-probability of a token that may be drawn.
    pub(super) fn logprob(&self, token: usize) -> f32 {
        (self.depth(self.logits[token]) - libm::log(self.total)) as f32
    }

    /// The likeliest token, the lowest id among equals.
    pub(super) fn best(&self) -> usize {
        let index = self.blocks.iter().position(|block| block.top == self.top).unwrap_or(0);
        let within = self.ids(index).iter().position(|logit| *logit == self.top).unwrap_or(0);
        index * BLOCK + within
    }

    /// Σ exp((logit − top) / temperature) of the tokens of one block that `border` keeps.
    fn mass(&self, index: usize, border: &Border) -> f64 {
        let top = self.blocks[index].top;
        if top < border.floor || top == f32::NEG_INFINITY {
            return 0.0;
        }
        let (ids, factor) = (self.ids(index), self.factor());
        let (to, from) = ids.split_at(border.split(index * BLOCK, ids.len()));
        let sum = math::wide(
            #[inline(always)]
            || above(to, border.floor, top, factor) + above(from, border.floor.next_up(), top, factor),
        );
        libm::exp(self.depth(top)) * sum
    }

    /// Σ exp((logit − top) / temperature) of all tokens that `border` keeps.
    pub(super) fn mass_within(&self, border: &Border) -> f64 {
        (0..self.blocks.len()).map(|index| self.mass(index, border)).sum()
    }

    /// Leaves no token beyond `border` any mass.
    pub(super) fn restrict(&mut self, border: &Border) {
        for index in 0..self.blocks.len() {
            self.blocks[index].mass = self.mass(index, border);
        }
        self.total = self.blocks.iter().map(|block| block.mass).sum();
    }

    /// The first token, in the order of ids, up to which more than the share `u` of the mass lies;
    /// the last with any where rounding leaves none.
    pub(super) fn pick(&self, u: f64, border: Option<&Border>) -> usize {
        let target = u * self.total;
        let (mut before, mut found) = (0.0, None);
        for (index, block) in self.blocks.iter().enumerate() {
            if block.mass > 0.0 {
                found = Some((index, before));
                if before + block.mass > target {
                    break;
                }
                before += block.mass;
            }
        }
        let Some((index, before)) = found else { return self.best() };
        let (mut sum, mut last) = (before, None);
        let weights = self.weights(index, border);
        for (id, weight) in (index * BLOCK..).zip(&weights[..self.ids(index).len()]) {
            if *weight > 0.0 {
                sum += weight;
                last = Some(id);
                if sum > target {
                    break;
                }
            }
        }
        last.unwrap_or_else(|| self.best())
    }

    /// The shares of the mass before and up to a token, in the order of ids: between them lie the
    /// `u` for which [`Self::pick`] gives it.
    pub(super) fn span(&self, token: usize, border: Option<&Border>) -> (f64, f64) {
        let index = token / BLOCK;
        let before: f64 = self.blocks[..index].iter().map(|block| block.mass).sum();
        let weights = self.weights(index, border);
        let low = weights[..token % BLOCK].iter().fold(before, |sum, weight| sum + weight);
        (low / self.total, (low + weights[token % BLOCK]) / self.total)
    }

    /// exp((logit − top) / temperature) of one block's tokens that may be drawn, brought to
    /// the block's mass: added one by one they make another sum in its last bits, which would
    /// leave gaps between blocks.
    fn weights(&self, index: usize, border: Option<&Border>) -> [f64; BLOCK] {
        let mut weights = [0.0; BLOCK];
        let (Block { top, mass }, ids) = (&self.blocks[index], self.ids(index));
        if *mass == 0.0 {
            return weights;
        }
        let factor = self.factor();
        math::wide(
            #[inline(always)]
            || {
                for (result, x) in weights.iter_mut().zip(ids) {
                    *result = f64::from(weight((x - top) * factor));
                }
            },
        );
        if let Some(border) = border {
            for ((id, weight), logit) in (index * BLOCK..).zip(&mut weights).zip(ids) {
                if !border.keeps(id, *logit) {
                    *weight = 0.0;
                }
            }
        }
        let scale = mass / weights.iter().sum::<f64>();
        weights.iter_mut().for_each(|weight| *weight *= scale);
        weights
    }

    /// What differences of logits are multiplied with in f32.
    pub(super) fn factor(&self) -> f32 {
        narrow(self.sharpness)
    }

    /// The logits of a block.
    pub(super) fn ids(&self, index: usize) -> &'a [f32] {
        let start = index * BLOCK;
        &self.logits[start..self.logits.len().min(start + BLOCK)]
    }
}
