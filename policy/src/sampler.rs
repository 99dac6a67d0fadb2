//! Choosing a token from logits, in a way that anybody can recompute.
//!
//! The rule, which verifiers repeat step by step:
//!
//! 1. u = [`uniform`]`(seed, i, t)` for sample i of the order and response position t (0 is the first new token): the
//!    first 8 bytes of BLAKE3 keyed with the seed over i (u32 LE) and t (u32 LE), read as u64 LE, the upper 53 bits
//!    divided by 2^53.
//! 2. At temperature 0: the token with the largest logit, the lowest id among equals; its log-prob is 0. u is not used.
//! 3. Otherwise zᵢ = logitᵢ / temperature in f64, wᵢ = exp(zᵢ − max z), with the exponential of the `libm` crate, which
//!    gives the same bits on every platform.
//! 4. Top-k (when k > 0): only the k tokens with the largest w stay, lower ids first among equals.
//! 5. Top-p (when p < 1): of those, in order of falling w and rising id, the shortest prefix whose sum of w is at least
//!    p times the sum over those that stayed; at least one.
//! 6. W = Σ w over the tokens kept, added in rising id order in f64. The token is the first, in rising id order, whose
//!    running sum exceeds u · W; where rounding leaves none, the last kept token with w > 0.
//!
//! A token whose weight is zero is never chosen.

use crate::error::EngineError;

/// Highest temperature accepted.
pub const MAX_TEMPERATURE: f32 = 100.0;

/// How tokens are drawn from the model's distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 means the most likely token always. At most [`MAX_TEMPERATURE`].
    pub temperature: f32,
    /// Nucleus: the smallest set of tokens with this much probability; 1 is off.
    pub top_p: f32,
    /// Only the k most likely tokens; 0 is off.
    pub top_k: u32,
    /// Longest response, in tokens, the stop token included.
    pub max_new_tokens: u32,
}

impl SamplingParams {
    /// Temperature 1 and no truncation: what reinforcement learning trains on.
    pub fn unbiased(max_new_tokens: u32) -> Self {
        Self { temperature: 1.0, top_p: 1.0, top_k: 0, max_new_tokens }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first parameter that is out of range.
    pub fn validate(&self) -> Result<(), EngineError> {
        let parameter =
            |name, value: f32, wanted| Err(EngineError::Parameter { name, value: f64::from(value), wanted });
        if !(0.0..=MAX_TEMPERATURE).contains(&self.temperature) {
            return parameter("temperature", self.temperature, "between 0 and 100");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return parameter("top_p", self.top_p, "above 0 and at most 1");
        }
        if self.max_new_tokens == 0 {
            return parameter("max_new_tokens", 0.0, "at least 1");
        }
        Ok(())
    }
}

/// A token drawn from a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// Its id.
    pub token: u32,
    /// Its log-probability under the distribution it was drawn from.
    pub logprob: f32,
    /// Its log-probability at temperature 1 without truncation.
    pub raw_logprob: f32,
}

/// The number in [0, 1) that decides position `position` of sample `sample`.
pub fn uniform(seed: &[u8; 32], sample: u32, position: u32) -> f64 {
    let mut input = [0u8; 8];
    input[..4].copy_from_slice(&sample.to_le_bytes());
    input[4..].copy_from_slice(&position.to_le_bytes());
    let hash = blake3::keyed_hash(seed, &input);
    let (words, _) = hash.as_bytes().as_chunks::<8>();
    (u64::from_le_bytes(words[0]) >> 11) as f64 / (1u64 << 53) as f64
}

/// exp(logit / temperature) for every token, relative to the likeliest one.
fn exps(logits: &[f32], top: f64, temperature: f64) -> Vec<f64> {
    let top = top / temperature;
    logits.iter().map(|logit| libm::exp(f64::from(*logit) / temperature - top)).collect()
}

/// Draws a token from `logits` by the rule of this module.
///
/// # Errors
/// When the logits are empty, hold a NaN or +∞, or are all −∞.
pub fn sample(logits: &[f32], params: &SamplingParams, u: f64) -> Result<Sampled, EngineError> {
    let (best, top) = argmax(logits)?;
    let raw_logprob = |token: usize, log_total: f64| ((f64::from(logits[token]) - top) - log_total) as f32;
    let exps = |temperature: f64| exps(logits, top, temperature);
    let raw_log_total = |weights: &[f64]| libm::log(weights.iter().sum());
    if params.temperature == 0.0 {
        let raw = raw_logprob(best, raw_log_total(&exps(1.0)));
        return Ok(Sampled { token: best as u32, logprob: 0.0, raw_logprob: raw });
    }
    let temperature = f64::from(params.temperature);
    let mut weights = exps(temperature);
    let log_total =
        if params.temperature == 1.0 { raw_log_total(&weights) } else { raw_log_total(&exps(1.0)) };
    truncate(&mut weights, params);
    let total: f64 = weights.iter().sum();
    let token = pick(&weights, u * total).unwrap_or(best);
    let logprob = libm::log(weights[token] / total) as f32;
    Ok(Sampled { token: token as u32, logprob, raw_logprob: raw_logprob(token, log_total) })
}

/// log softmax(logits)[token] in f64 arithmetic: the raw log-prob that [`sample`] reports.
///
/// # Errors
/// As [`sample`], and when the token is outside of the vocabulary.
pub fn raw_logprob(logits: &[f32], token: u32) -> Result<f32, EngineError> {
    let (_, top) = argmax(logits)?;
    let Some(logit) = logits.get(token as usize) else {
        return Err(EngineError::Token { token, vocab: logits.len() });
    };
    let total: f64 = logits.iter().map(|logit| libm::exp(f64::from(*logit) - top)).sum();
    Ok(((f64::from(*logit) - top) - libm::log(total)) as f32)
}

/// Where a token lies in the distribution that [`sample`] draws from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The share of probability before it, in the order of ids: the smallest u that draws it.
    pub low: f64,
    /// The share up to and with it: every u below draws it or one before.
    pub high: f64,
    /// Its log-probability; −∞ where the rule leaves it none.
    pub logprob: f32,
}

impl Interval {
    /// How far u is from drawing this token: 0 where it does.
    pub fn distance(&self, u: f64) -> f64 {
        (self.low - u).max(u - self.high).max(0.0)
    }
}

/// The interval of u for which [`sample`] draws `token`, so that a draw can be checked by somebody whose logits are a little different.
///
/// # Errors
/// As [`sample`], and when the token is outside of the vocabulary.
pub fn interval(logits: &[f32], params: &SamplingParams, token: u32) -> Result<Interval, EngineError> {
    let (best, top) = argmax(logits)?;
    let token = token as usize;
    if token >= logits.len() {
        return Err(EngineError::Token { token: token as u32, vocab: logits.len() });
    }
    if params.temperature == 0.0 {
        let certain = Interval { low: 0.0, high: 1.0, logprob: 0.0 };
        // A token that is never drawn is as far away as can be.
        let never = Interval { low: f64::INFINITY, high: f64::INFINITY, logprob: f32::NEG_INFINITY };
        return Ok(if token == best { certain } else { never });
    }
    let mut weights = exps(logits, top, f64::from(params.temperature));
    truncate(&mut weights, params);
    let total: f64 = weights.iter().sum();
    let before: f64 = weights[..token].iter().sum();
    let (low, high) = (before / total, (before + weights[token]) / total);
    Ok(Interval { low, high, logprob: libm::log(weights[token] / total) as f32 })
}

/// How far `token` is from the border of what top-k and top-p leave, in log-probability: what its logit may lose and still be drawn, or,
/// below zero, has to gain. +∞ where nothing is cut off. At temperature 0 all but the likeliest is cut off, and the distance is in logits.
///
/// # Errors
/// As [`interval`].
pub fn margin(logits: &[f32], params: &SamplingParams, token: u32) -> Result<f32, EngineError> {
    let (best, top) = argmax(logits)?;
    let own = *logits.get(token as usize).ok_or(EngineError::Token { token, vocab: logits.len() })?;
    if params.temperature > 0.0 && params.top_k == 0 && params.top_p >= 1.0 {
        return Ok(f32::INFINITY);
    }
    let (kept, scale) = if params.temperature == 0.0 {
        ((0..logits.len()).map(|id| id == best).collect::<Vec<_>>(), 1.0)
    } else {
        let mut weights = exps(logits, top, f64::from(params.temperature));
        truncate(&mut weights, params);
        (weights.iter().map(|weight| *weight > 0.0).collect(), params.temperature)
    };
    let of =
        |wanted: bool| logits.iter().zip(&kept).filter(move |(_, kept)| **kept == wanted).map(|(x, _)| *x);
    let border = if kept[token as usize] {
        of(false).fold(f32::NEG_INFINITY, f32::max)
    } else {
        of(true).fold(f32::INFINITY, f32::min)
    };
    Ok((own - border) / scale)
}

fn argmax(logits: &[f32]) -> Result<(usize, f64), EngineError> {
    let (mut best, mut top) = (0, f32::NEG_INFINITY);
    for (id, logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            return Err(EngineError::Logits { found: "a value that is not a number" });
        }
        if *logit > top {
            (best, top) = (id, *logit);
        }
    }
    if top == f32::INFINITY {
        return Err(EngineError::Logits { found: "an infinite value" });
    }
    if top == f32::NEG_INFINITY {
        return Err(EngineError::Logits { found: "no possible token" });
    }
    Ok((best, f64::from(top)))
}

/// Sets the weight of every token that top-k and top-p rule out to zero.
fn truncate(weights: &mut [f64], params: &SamplingParams) {
    let k = params.top_k as usize;
    let limit_k = k > 0 && k < weights.len();
    if !limit_k && params.top_p >= 1.0 {
        return;
    }
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_unstable_by(|a, b| weights[*b].total_cmp(&weights[*a]).then(a.cmp(b)));
    let mut keep = if limit_k { k } else { order.len() };
    if params.top_p < 1.0 {
        let wanted = f64::from(params.top_p) * order[..keep].iter().map(|id| weights[*id]).sum::<f64>();
        let mut sum = 0.0;
        let enough = order[..keep].iter().position(|id| {
            sum += weights[*id];
            sum >= wanted
        });
        keep = enough.map_or(keep, |last| last + 1);
    }
    for id in &order[keep..] {
        weights[*id] = 0.0;
    }
}

fn pick(weights: &[f64], target: f64) -> Option<usize> {
    let mut sum = 0.0;
    let mut last = None;
    for (id, weight) in weights.iter().enumerate() {
        if *weight > 0.0 {
            sum += weight;
            last = Some(id);
            if sum > target {
                break;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn params(temperature: f32, top_p: f32, top_k: u32) -> SamplingParams {
        SamplingParams { temperature, top_p, top_k, max_new_tokens: 1 }
    }

    #[test]
    fn uniform_is_fixed_and_spread() {
        // Frozen: a change here breaks every verifier.
        let word = blake3::keyed_hash(&[7; 32], &[3, 0, 0, 0, 9, 0, 0, 0]);
        let word = u64::from_le_bytes(word.as_bytes()[..8].try_into().unwrap());
        assert_eq!(uniform(&[7; 32], 3, 9), (word >> 11) as f64 * 2f64.powi(-53));
        let mean = (0..4096).map(|t| uniform(&[1; 32], 0, t)).sum::<f64>() / 4096.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert_ne!(uniform(&[1; 32], 0, 1), uniform(&[1; 32], 1, 0));
    }

    #[test]
    fn frequencies_follow_the_distribution() {
        let logits = [0.0f32, 1.0, -1.0, 2.0];
        for temperature in [0.5f32, 1.0, 2.0] {
            let params = params(temperature, 1.0, 0);
            let n = 20_000;
            let mut counts = [0u32; 4];
            for t in 0..n {
                counts[sample(&logits, &params, uniform(&[2; 32], 0, t)).unwrap().token as usize] += 1;
            }
            let total: f64 = logits.iter().map(|l| f64::from(l / temperature).exp()).sum();
            for (logit, count) in logits.iter().zip(counts) {
                let p = f64::from(logit / temperature).exp() / total;
                assert!((f64::from(count) / f64::from(n) - p).abs() < 0.015, "{temperature} {logit}");
            }
        }
    }

    #[test]
    fn truncation_keeps_what_the_rule_says() {
        let logits = [1.0f32, 3.0, 3.0, 2.0, 0.0];
        let reachable = |params: SamplingParams| {
            let mut seen: Vec<u32> =
                (0..1000).map(|i| sample(&logits, &params, f64::from(i) / 1000.0).unwrap().token).collect();
            seen.dedup();
            seen
        };
        assert_eq!(reachable(params(1.0, 1.0, 1)), [1]);
        assert_eq!(reachable(params(1.0, 1.0, 3)), [1, 2, 3]);
        assert_eq!(reachable(params(1.0, 0.35, 0)), [1]);
        assert_eq!(reachable(params(1.0, 0.5, 0)), [1, 2]);
        assert_eq!(reachable(params(1.0, 0.01, 2)), [1]);
        assert_eq!(reachable(params(0.0, 0.5, 3)), [1]);
        let both = sample(&logits, &params(1.0, 0.9, 2), 0.0).unwrap();
        assert!((both.logprob - 0.5f32.ln()).abs() < 1e-6);
        assert_eq!(both.raw_logprob, raw_logprob(&logits, 1).unwrap());
    }

    #[test]
    fn broken_logits_are_errors_and_impossible_tokens_are_never_drawn() {
        let params = params(1.0, 1.0, 0);
        for bad in [&[][..], &[f32::NAN, 1.0], &[f32::INFINITY], &[f32::NEG_INFINITY; 3]] {
            assert!(matches!(sample(bad, &params, 0.5), Err(EngineError::Logits { .. })));
        }
        let logits = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
        for u in [0.0, 0.5, 1.0 - f64::EPSILON / 2.0, 1.0] {
            assert_eq!(sample(&logits, &params, u).unwrap().token, 1);
        }
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        for bad in [params(-1.0, 1.0, 0), params(f32::NAN, 1.0, 0), params(1.0, 0.0, 0), params(1.0, 1.5, 0)]
        {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
        assert!(SamplingParams::unbiased(0).validate().is_err());
        assert!(SamplingParams::unbiased(1).validate().is_ok());
    }

    #[test]
    fn what_is_never_drawn_is_far_from_every_draw() {
        let logits = [0.0f32, 2.0, 1.0];
        let greedy = params(0.0, 1.0, 0);
        assert_eq!(interval(&logits, &greedy, 1).unwrap().distance(0.3), 0.0);
        assert_eq!(interval(&logits, &greedy, 2).unwrap().distance(0.3), f64::INFINITY);
        let cut = interval(&logits, &params(1.0, 1.0, 2), 0).unwrap();
        assert_eq!((cut.low, cut.high, cut.logprob), (0.0, 0.0, f32::NEG_INFINITY));
        assert!(matches!(interval(&logits, &greedy, 3), Err(EngineError::Token { token: 3, vocab: 3 })));
    }

    #[test]
    fn margins_are_distances_to_the_first_token_on_the_other_side() {
        let logits = [0.0f32, 2.0, 1.0, -3.0];
        let of = |params: SamplingParams| [0, 1, 2, 3].map(|token| margin(&logits, &params, token).unwrap());
        assert_eq!(of(params(2.0, 1.0, 0)), [f32::INFINITY; 4]);
        assert_eq!(of(params(2.0, 1.0, 2)), [-0.5, 1.0, 0.5, -2.0]);
        // Weights 1, e², e and e⁻³: the two likeliest hold 0.9 of them.
        assert_eq!(of(params(1.0, 0.9, 0)), [-1.0, 2.0, 1.0, -4.0]);
        assert_eq!(of(params(0.0, 1.0, 0)), [-2.0, 1.0, -1.0, -5.0]);
        assert!(margin(&logits, &params(1.0, 1.0, 0), 4).is_err());
    }

    proptest! {
        #[test]
        fn a_draw_lies_in_the_interval_of_its_token(
            logits in prop::collection::vec(-8.0f32..8.0, 1..40),
            temperature in 0.0f32..5.0, top_p in 0.01f32..=1.0, top_k in 0u32..50, u in 0.0f64..1.0,
        ) {
            let params = params(temperature, top_p, top_k);
            let drawn = sample(&logits, &params, u).unwrap();
            let mut open = 0.0;
            for token in 0..logits.len() as u32 {
                let interval = interval(&logits, &params, token).unwrap();
                // Borders are sums in another order than the draw's: they may differ in the last bits.
                let distance = interval.distance(u);
                if token == drawn.token {
                    prop_assert!(distance < 1e-12, "{distance}");
                    prop_assert_eq!(interval.logprob, drawn.logprob);
                }
                open += if interval.high.is_finite() { interval.high - interval.low } else { 0.0 };
            }
            prop_assert!((open - 1.0).abs() < 1e-9, "the intervals are the whole range: {open}");
        }

        #[test]
        fn a_drawn_token_always_has_probability(
            logits in prop::collection::vec(-80.0f32..80.0, 1..40),
            temperature in 0.0f32..5.0, top_p in 0.01f32..=1.0, top_k in 0u32..50, u in 0.0f64..1.0,
        ) {
            let drawn = sample(&logits, &params(temperature, top_p, top_k), u).unwrap();
            prop_assert!((drawn.token as usize) < logits.len());
            prop_assert!(drawn.logprob.is_finite() && drawn.logprob <= 1e-6);
            prop_assert!(drawn.raw_logprob.is_finite() && drawn.raw_logprob <= 1e-6);
        }
    }
}
