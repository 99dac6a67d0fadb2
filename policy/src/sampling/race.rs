//! The race: every token has a clock of its own, and the one that rings first is drawn.
//!
//! A token of weight w rings at E / w, where E is its exponential number. So it comes first with
//! its probability, as in every race of exponential clocks. What another machine computes a
//! little differently can change the outcome only where two tokens ring at almost the same
//! moment. These two are likely ones, in proportion to their probabilities, and that they meet is
//! as improbable as the difference is small, however many tokens there are.
//!
//! A sweep over all tokens compares the first 24 bits of each number with a bound, in f32. What
//! may come first, some twenty tokens, is computed in f64. The sweep passes over nothing that
//! could win, so the outcome is that of the exact arithmetic alone.

use super::blocks::{BLOCK, LogitsRow, weight};
use super::border::Border;
use crate::math;

/// How far behind the first one another token is still found, in nats: above every tolerance.
const REACH: f64 = 1.0;
/// Multiples of the mean time within which the first clock rings but once in 10⁹ draws.
const MEANS: f64 = 20.0;
/// What the bound is widened by: f32 weights are off by less than a part in 10⁴.
const SLACK: f64 = 1.001;
/// A token that is this many temperatures below the likeliest is never drawn, as f32 has no weight for it.
const DEPTH: f64 = -87.0;

/// The clocks of one draw.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    low: u32,
    high: u32,
}

/// The outcome of a race. Times are logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    /// The token that rings first; the lowest id among equals.
    pub(super) first: usize,
    /// When it does.
    time: f64,
    /// When the next one does; ∞ where that is more than [`REACH`] later.
    next: f64,
}

impl Clocks {
    /// The clocks that the 53 bits of the draw's number set.
    pub(super) fn new(u: f64) -> Self {
        let bits = (u * (1u64 << 53) as f64) as u64;
        Self { low: bits as u32, high: (bits >> 32) as u32 }
    }

    /// 32 bits of a token's number. Quick and vectorizable: nobody has to be kept from computing
    /// them, since whoever draws knows u.
    #[inline(always)]
    fn word(self, token: u32) -> u32 {
        mix(mix(token ^ self.low).wrapping_add(self.high))
    }

    /// The logarithm of a token's exponential number, of 52 bits.
    fn log_number(self, token: u32) -> f64 {
        // 2^32 over the golden ratio: any odd number that parts the two words.
        let other = Self { low: self.high ^ 0x9e37_79b9, high: self.low };
        let bits = (u64::from(self.word(token)) << 20) | u64::from(other.word(token) >> 12);
        let share = (bits as f64 + 0.5) / (1u64 << 52) as f64;
        libm::log(-libm::log1p(-share))
    }

    /// When a token rings; `None` for one that never does.
    fn time(self, row: &LogitsRow<'_>, token: usize, border: Option<&Border>) -> Option<f64> {
        let logit = row.logits[token];
        let depth = row.depth(logit);
        let takes_part = depth >= DEPTH && border.is_none_or(|border| border.keeps(token, logit));
        takes_part.then(|| self.log_number(token as u32) - depth)
    }
}

/// A bijection of 32 bits: every bit of the input changes half of the output's (C. Wellons, lowbias32).
#[inline(always)]
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// Runs the race of the tokens that may be drawn.
pub(super) fn run(row: &LogitsRow<'_>, clocks: Clocks, border: Option<&Border>) -> Outcome {
    let within = MEANS / row.total();
    let found = sweep(row, clocks, border, within).or_else(|| sweep(row, clocks, border, f64::INFINITY));
    found.unwrap_or(Outcome { first: row.best(), time: f64::NEG_INFINITY, next: f64::INFINITY })
}

/// The race as far as it is decided `within` this time. `None` where no clock rings until then.
fn sweep(row: &LogitsRow<'_>, clocks: Clocks, border: Option<&Border>, within: f64) -> Option<Outcome> {
    let mut found: Option<Outcome> = None;
    let (mut within, factor, top) = (within, row.factor(), row.top);
    for index in 0..row.blocks.len() {
        // Relative to the largest logit of the row: a block far below it takes no part.
        if row.depth(row.blocks[index].top) < DEPTH {
            continue;
        }
        let (ids, start) = (row.ids(index), index * BLOCK);
        let first = start as u32;
        let mut may = [false; BLOCK];
        // 2^24: the scale of the bits that are compared.
        let bound = (within * libm::exp(REACH) * SLACK * f64::from(1u32 << 24)) as f32;
        math::wide(
            #[inline(always)]
            || {
                for ((may, logit), id) in may.iter_mut().zip(ids).zip(first..) {
                    let share = (clocks.word(id) >> 8) as i32 as f32;
                    // −ln(1 − share) is at least the share, so none is passed over.
                    *may = share <= weight((logit - top) * factor) * bound + 1.0;
                }
            },
        );
        for token in (start..).zip(&may[..ids.len()]).filter_map(|(token, may)| may.then_some(token)) {
            let Some(time) = clocks.time(row, token, border) else { continue };
            found = Some(match found {
                Some(leader) if time >= leader.time => Outcome { next: leader.next.min(time), ..leader },
                Some(leader) => Outcome { first: token, time, next: leader.time },
                None => Outcome { first: token, time, next: f64::INFINITY },
            });
        }
        within = found.map_or(within, |leader| within.min(libm::exp(leader.time)));
    }
    found.filter(|leader| libm::exp(leader.time) <= within).map(|leader| Outcome {
        next: if leader.next - leader.time > REACH { f64::INFINITY } else { leader.next },
        ..leader
    })
}

/// By how much a token rings before all others, in nats; negative where another one rings before
/// it, and −∞ where it never rings. ∞ where the next one is more than [`REACH`] later.
pub(super) fn lead(row: &LogitsRow<'_>, clocks: Clocks, border: Option<&Border>, token: usize) -> f64 {
    let outcome = run(row, clocks, border);
    if token == outcome.first {
        return outcome.next - outcome.time;
    }
    clocks.time(row, token, border).map_or(f64::NEG_INFINITY, |time| outcome.time - time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::truncation::Cut;
    use crate::sampling::{DrawRule, SamplingParams, place, sample, uniform};

    fn race() -> SamplingParams {
        SamplingParams { rule: DrawRule::Race, ..SamplingParams::unbiased(1) }
    }

    fn logits(count: usize, spread: f64, seed: u32) -> Vec<f32> {
        (0..count as u32).map(|at| ((uniform(&[3; 32], seed, at) - 0.5) * spread) as f32).collect()
    }

    /// The rule, token by token and without a sweep.
    fn by_hand(logits: &[f32], u: f64, border: Option<&Border>) -> (usize, f64) {
        let row = LogitsRow::new(logits, 1.0).unwrap();
        let clocks = Clocks::new(u);
        let mut times: Vec<(f64, usize)> =
            (0..logits.len()).filter_map(|token| Some((clocks.time(&row, token, border)?, token))).collect();
        times.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let next = times.get(1).map_or(f64::INFINITY, |next| next.0);
        (times[0].1, next - times[0].0)
    }

    #[test]
    fn the_sweep_finds_what_every_token_computed_by_itself_gives() {
        for round in 0..300u32 {
            let count = [1, 2, 40, 1024, 1025, 6000][round as usize % 6];
            let logits = logits(count, [0.0, 2.0, 20.0, 150.0][round as usize % 4], round);
            let u = uniform(&[4; 32], 0, round);
            let (token, lead) = by_hand(&logits, u, None);
            assert_eq!(sample(&logits, &race(), u).unwrap().token as usize, token, "{round}");
            let placed = place(&logits, &race(), token as u32, u).unwrap();
            let expected = if lead > REACH { f64::INFINITY } else { lead };
            assert_eq!((placed.lead, placed.distance(u)), (Some(expected), 0.0), "{round}");
            if count > 1 {
                let other = (token + 1) % count;
                let behind = place(&logits, &race(), other as u32, u).unwrap();
                assert!(behind.lead.unwrap() < 0.0 && behind.distance(u) > 0.0, "{round}: {behind:?}");
            }
        }
    }

    #[test]
    fn top_k_and_top_p_keep_others_out_of_the_race() {
        for round in 0..200u32 {
            let logits = logits(3000, 8.0, round);
            let params = SamplingParams { top_k: 40, top_p: 0.8, ..race() };
            let row = LogitsRow::new(&logits, 1.0).unwrap();
            let border = Cut::new(&row, &params).unwrap().border;
            let u = uniform(&[5; 32], 1, round);
            let drawn = sample(&logits, &params, u).unwrap().token as usize;
            assert_eq!(drawn, by_hand(&logits, u, Some(&border)).0);
            assert!(border.keeps(drawn, logits[drawn]));
            let out = (0..3000).find(|token| !border.keeps(*token, logits[*token])).unwrap();
            assert_eq!(place(&logits, &params, out as u32, u).unwrap().distance(u), f64::INFINITY);
        }
    }

    #[test]
    fn tokens_win_as_often_as_they_are_probable() {
        let logits: Vec<f32> = (0..64).map(|at| (at % 8) as f32 * 0.5).collect();
        let total: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        let draws = 40_000u32;
        let mut counts = vec![0u32; logits.len()];
        for position in 0..draws {
            counts[sample(&logits, &race(), uniform(&[6; 32], 2, position)).unwrap().token as usize] += 1;
        }
        // Chi-squared with 63 degrees of freedom: beyond 114 once in 10,000 times.
        let chi: f64 = logits
            .iter()
            .zip(&counts)
            .map(|(logit, count)| {
                let expected = f64::from(draws) * f64::from(*logit).exp() / total;
                (f64::from(*count) - expected).powi(2) / expected
            })
            .sum();
        assert!(chi < 114.0, "{chi}");
    }

    #[test]
    fn near_misses_are_rare_however_many_tokens_there_are() {
        // Half of the probability is one token's, the rest is that of thousands.
        let mut logits = vec![0.0f32; 20_001];
        logits[7] = 20_000f32.ln();
        let (near, draws) = (0.05, 4000u32);
        let mut misses = 0u32;
        for position in 0..draws {
            let u = uniform(&[8; 32], 0, position);
            let token = sample(&logits, &race(), u).unwrap().token;
            misses += u32::from(place(&logits, &race(), token, u).unwrap().lead.unwrap() < near);
        }
        // About 0.05 · (1 − Σ p²) = 0.0375 of them, where by intervals nearly all would be near 1,000 tokens.
        let share = f64::from(misses) / f64::from(draws);
        assert!((0.027..0.048).contains(&share), "{share}");
    }

    /// Who knows u may take any token within the tolerance. By intervals that are 1 + 2δV of V tokens.
    #[test]
    fn a_large_vocabulary_gives_no_more_tokens_to_choose_from() {
        let logits = logits(20_000, 4.0, 1);
        let row = LogitsRow::new(&logits, 1.0).unwrap();
        let (positions, tolerance) = (200u32, 5e-3);
        let mut acceptable = 0;
        for position in 0..positions {
            let clocks = Clocks::new(uniform(&[7; 32], 0, position));
            let times: Vec<f64> =
                (0..logits.len()).filter_map(|token| clocks.time(&row, token, None)).collect();
            let first = times.iter().copied().fold(f64::INFINITY, f64::min);
            acceptable += times.iter().filter(|time| **time - first <= tolerance).count();
        }
        // A second one at one position in two hundred.
        assert!(acceptable <= positions as usize + 8, "{acceptable} tokens at {positions} positions");
    }

    #[test]
    fn impossible_tokens_and_single_ones_are_as_the_rule_says() {
        let logits = [f32::NEG_INFINITY, 0.0, -100.0, f32::NEG_INFINITY];
        for position in 0..200 {
            let u = uniform(&[9; 32], 0, position);
            assert_eq!(sample(&logits, &race(), u).unwrap().token, 1);
            assert_eq!(place(&logits, &race(), 2, u).unwrap().distance(u), f64::INFINITY);
            assert_eq!(place(&logits, &race(), 1, u).unwrap().lead, Some(f64::INFINITY));
        }
        for u in [0.0, 0.5, 1.0 - f64::EPSILON / 2.0, 1.0] {
            assert_eq!(sample(&[0.3], &race(), u).unwrap().token, 0);
        }
        let greedy = SamplingParams { temperature: 0.0, ..race() };
        assert_eq!(sample(&[0.0, 2.0, 1.0], &greedy, 0.3).unwrap().token, 1);
    }
}
