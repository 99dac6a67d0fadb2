//! Choosing a token from logits, in a way that anybody can recompute.
//!
//! May import `math`, and no other folder of this crate.
//!
//! ```text
//! seed, sample, position -> uniform -> u
//! logits, SamplingParams, u -> sample -> Sampled: token, log-prob, raw log-prob
//! logits, SamplingParams, token -> interval -> Interval: which u select the token
//! logits, SamplingParams, token, u -> place -> the same, and by how much it wins or loses a race
//! ```
//!
//! The rule, which verifiers repeat step by step:
//!
//! 1. u = [`uniform`]`(seed, i, t)` for sample i of the order and response position t (0 is the
//!    first new token): the first 8 bytes of BLAKE3 keyed with the seed over i (u32 LE) and t (u32
//!    LE), read as u64 LE, the upper 53 bits divided by 2^53.
//! 2. At temperature 0: the token with the largest logit, the lowest id among equals; its log-prob
//!    is 0. u is not used.
//! 3. Otherwise wᵢ = exp((logitᵢ − max logit) / temperature).
//! 4. Top-k (when k > 0): only the k tokens with the largest logit stay, lower ids first among equals.
//! 5. Top-p (when p < 1): of those, in order of falling logit and rising id, the shortest prefix
//!    whose sum of w is at least p times the sum over those that stayed; at least one.
//! 6. By [`DrawRule::Intervals`]: W = Σ w over the tokens kept. The token is the first, in rising id
//!    order, whose running sum exceeds u · W; where rounding leaves none, the last kept token with w > 0.
//! 7. By [`DrawRule::Race`]: each token kept has an exponential number E of its own, which follows
//!    from u and its id (`race`). The token is the one whose E / w is the smallest, the lowest id
//!    among equals.
//!
//! A token whose weight is zero is never chosen: one ruled out by −∞, or whose logit is more than
//! 87 temperatures below the largest of its 1,024 neighbours.
//!
//! Rounding. Weights are f32, from an exponential of our own, relative to the largest of each
//! block of 1,024 ids; sums over blocks are f64. Operations and their order are fixed, so the
//! same logits give the same token on every processor. Against exact arithmetic, running sums are
//! off by less than 1e-6 of W, and log-probabilities by as much beside their own rounding: nodes
//! and verifiers that compute otherwise differ when u, or with top-p the sum of a prefix, is that
//! close to a border.

mod blocks;
mod border;
mod error;
pub mod logprob;
mod race;
mod truncation;
mod uniform;

use self::blocks::LogitsRow;
use self::race::Clocks;
use self::truncation::Cut;

pub use self::uniform::uniform;
pub use error::SamplingError;

/// Highest temperature that is accepted.
pub const MAX_TEMPERATURE: f32 = 100.0;

/// By which rule the number u chooses among the tokens that may be drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DrawRule {
    /// u falls into one of the tokens' intervals, which lie in the order of ids. With a large
    /// vocabulary, thousands of improbable tokens are so close to u that an audit cannot tell.
    #[default]
    Intervals,
    /// Tokens race, each by a clock that u sets. Only two likely tokens ever come close.
    Race,
}

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
    /// How u decides; a temperature of 0 asks no rule.
    pub rule: DrawRule,
}

impl SamplingParams {
    /// Temperature 1 and no truncation, drawn by intervals: what learning with a small vocabulary samples.
    pub fn unbiased(max_new_tokens: u32) -> Self {
        Self { temperature: 1.0, top_p: 1.0, top_k: 0, max_new_tokens, rule: DrawRule::Intervals }
    }

    /// Whether tokens race for their places.
    pub fn is_race(&self) -> bool {
        self.rule == DrawRule::Race && self.temperature > 0.0
    }

    /// Checks that each parameter is in its range.
    ///
    /// # Errors
    /// Names the first parameter that is out of range.
    pub fn validate(&self) -> Result<(), SamplingError> {
        let parameter = |name, value: f32, wanted| {
            Err(SamplingError::Parameter { name, value: f64::from(value), wanted })
        };
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
    /// Id in the vocabulary.
    pub token: u32,
    /// Its log-probability under the distribution it was drawn from.
    pub logprob: f32,
    /// Its log-probability at temperature 1 without truncation.
    pub raw_logprob: f32,
}

/// The distribution that `params` make of `logits`, and what they rule out.
fn distribution<'a>(
    logits: &'a [f32],
    params: &SamplingParams,
) -> Result<(LogitsRow<'a>, Option<Cut>), SamplingError> {
    let greedy = params.temperature == 0.0;
    let mut row = LogitsRow::new(logits, if greedy { 1.0 } else { f64::from(params.temperature) })?;
    let cut = if greedy { Some(Cut::best(&row)) } else { Cut::new(&row, params) };
    if let Some(cut) = &cut {
        row.restrict(&cut.border);
    }
    Ok((row, cut))
}

/// Draws a token from `logits` by the rule of this module.
///
/// # Errors
/// When the logits are empty, hold a NaN or +∞, or are all −∞.
pub fn sample(logits: &[f32], params: &SamplingParams, u: f64) -> Result<Sampled, SamplingError> {
    let (row, cut) = distribution(logits, params)?;
    let border = cut.as_ref().map(|cut| &cut.border);
    let token =
        if params.is_race() { race::run(&row, Clocks::new(u), border).first } else { row.pick(u, border) };
    Ok(Sampled { token: token as u32, logprob: row.logprob(token), raw_logprob: row.raw_logprob(token) })
}

/// log softmax(logits)[token]: the raw log-prob that [`sample`] reports.
///
/// # Errors
/// As [`sample`], and when the token is outside of the vocabulary.
pub fn raw_logprob(logits: &[f32], token: u32) -> Result<f32, SamplingError> {
    let row = LogitsRow::new(logits, 1.0)?;
    Ok(row.raw_logprob(within(logits, token)?))
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
    /// Its log-probability at temperature 1 without truncation.
    pub raw_logprob: f32,
    /// Its distance to the cut-off of top-k and top-p (or greedy sampling), in logits over the temperature.
    /// Positive: the token is kept, and is so far above the last that is. Negative: it is ruled out by so
    /// much. ∞ where nothing is ruled out, −∞ for what is impossible.
    pub cut: f32,
    /// Where tokens race, by how many nats this one rings before all others. Negative where another one
    /// rings first, −∞ where it never rings, ∞ where the next rings far later.
    pub lead: Option<f64>,
}

impl Interval {
    /// How far u is from drawing this token, 0 where it does: in probability, or in nats where tokens race.
    pub fn distance(&self, u: f64) -> f64 {
        match self.lead {
            Some(lead) => (-lead).max(0.0),
            None => (self.low - u).max(u - self.high).max(0.0),
        }
    }
}

/// The interval of u for which [`sample`] draws `token`, so that a draw can be checked by somebody
/// whose logits are a little different. Of a race it says nothing: see [`place`].
///
/// # Errors
/// As [`sample`], and when the token is outside of the vocabulary.
pub fn interval(logits: &[f32], params: &SamplingParams, token: u32) -> Result<Interval, SamplingError> {
    placed(logits, params, token, None)
}

/// The same for the draw of number `u`, with the token's lead where tokens race.
///
/// # Errors
/// Those of [`interval`].
pub fn place(logits: &[f32], params: &SamplingParams, token: u32, u: f64) -> Result<Interval, SamplingError> {
    placed(logits, params, token, params.is_race().then(|| Clocks::new(u)))
}

fn placed(
    logits: &[f32],
    params: &SamplingParams,
    token: u32,
    clocks: Option<Clocks>,
) -> Result<Interval, SamplingError> {
    let (row, cut) = distribution(logits, params)?;
    let token = within(logits, token)?;
    let lead = clocks.map(|clocks| race::lead(&row, clocks, cut.as_ref().map(|cut| &cut.border), token));
    let possible = logits[token] > f32::NEG_INFINITY;
    let kept = possible && cut.is_none_or(|cut| cut.border.keeps(token, logits[token]));
    let (low, high) = if kept || params.temperature > 0.0 {
        row.span(token, cut.as_ref().map(|cut| &cut.border))
    } else {
        // A token that is never drawn is as far away as can be.
        (f64::INFINITY, f64::INFINITY)
    };
    Ok(Interval {
        low,
        high,
        logprob: if kept { row.logprob(token) } else { f32::NEG_INFINITY },
        raw_logprob: row.raw_logprob(token),
        cut: match cut {
            _ if !possible => f32::NEG_INFINITY,
            Some(cut) => cut.distance(&row, token),
            None => f32::INFINITY,
        },
        lead,
    })
}

fn within(logits: &[f32], token: u32) -> Result<usize, SamplingError> {
    let index = token as usize;
    if index < logits.len() { Ok(index) } else { Err(SamplingError::Token { token, vocab: logits.len() }) }
}

#[cfg(test)]
mod tests;
