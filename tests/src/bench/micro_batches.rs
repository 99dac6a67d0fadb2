//! Dynamic micro-batches (AReaL, algorithm 1) against fixed ones, on lengths with a long tail and
//! within the same memory.
//!
//! A fixed number of sequences must leave room for the longest of all, whichever comes; a token
//! budget is filled with what there is. Neither pads.

use super::step::{self, Split, StepFigures, StepSetting};
use crate::harness::machine;
use crate::output::console::{CommandReport, Console};
use echo_policy::training::decoder::Activations;
use serde_json::json;

/// Longest sequence, and tokens of a micro-batch.
const LONGEST: usize = 2048;
/// Of the fixed ones: as many as fit when all are the longest.
const FIXED: usize = 1;
const SEQUENCES: usize = 48;
/// Lengths are log-normal: the median, and the standard deviation of the logarithm.
const MEDIAN: f64 = 128.0;
const SPREAD: f64 = 1.2;
const VOCABULARY: usize = 8192;
/// Dynamic over fixed, tokens per second, at least.
const MIN_SPEED: f64 = 1.2;
/// Dynamic over fixed, memory, at most.
const MAX_MEMORY: f64 = 1.1;

/// Runs both by turns, `rounds` processes of `steps` steps each.
///
/// # Errors
/// When a process fails.
pub fn run(steps: usize, rounds: usize, console: &Console) -> anyhow::Result<CommandReport> {
    let dynamic = StepSetting {
        lengths: lengths(),
        split: Split::Tokens(LONGEST),
        vocabulary: VOCABULARY,
        activations: Activations::Keep,
        steps,
    };
    let fixed = StepSetting { split: Split::Sequences(FIXED), ..dynamic.clone() };
    let (mut ours, mut theirs): (Vec<StepFigures>, Vec<StepFigures>) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let (a, b) = (step::measure(&dynamic)?, step::measure(&fixed)?);
        console.say(format!("round {round}: dynamic {:.0} tokens/s, fixed {:.0}", a.tok_s, b.tok_s));
        ours.push(a);
        theirs.push(b);
    }
    let (a, b) = (step::median(&ours), step::median(&theirs));
    let (speed, memory) = (a.tok_s / b.tok_s, a.memory_mb / b.memory_mb);
    console.say(format!(
        "{speed:.2} × fixed micro-batches' tokens/s (at least {MIN_SPEED}), in {memory:.2} × their memory (at most {MAX_MEMORY})"
    ));
    let json = json!({
        "ours": a, "peers": {"fixed": b}, "ratios": {"fixed": {"tok_s": speed, "memory": memory}},
        "machine": machine::describe(), "runs": {"ours": ours, "fixed": theirs}, "setting": dynamic,
        "fixed_sequences": FIXED,
    });
    Ok(CommandReport { passed: speed >= MIN_SPEED && memory > 0.0 && memory <= MAX_MEMORY, json })
}

/// Quantiles of the log-normal distribution, none longer than [`LONGEST`], in an order that is
/// not that of lengths.
fn lengths() -> Vec<usize> {
    let quantile = |rank: usize| {
        let share = (rank as f64 + 0.5) / SEQUENCES as f64;
        let length = MEDIAN * (SPREAD * normal_quantile(share)).exp();
        (length.round() as usize).clamp(1, LONGEST)
    };
    // 7 and 48 have no common factor.
    (0..SEQUENCES).map(|index| quantile(index * 7 % SEQUENCES)).collect()
}

/// Where the standard normal distribution has `share` below it, to 5e-4 (Abramowitz and Stegun, 26.2.23).
fn normal_quantile(share: f64) -> f64 {
    let t = (-2.0 * share.min(1.0 - share).ln()).sqrt();
    let value = t
        - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    if share < 0.5 { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_a_long_tail() {
        let mut lengths = lengths();
        lengths.sort_unstable();
        assert_eq!(lengths.len(), SEQUENCES);
        let (median, longest) = (lengths[SEQUENCES / 2], lengths[SEQUENCES - 1]);
        assert!((120..=140).contains(&median), "{median}");
        assert!(longest > 10 * median && longest <= LONGEST, "{longest}");
        assert!((normal_quantile(0.975) - 1.96).abs() < 1e-3);
    }
}
