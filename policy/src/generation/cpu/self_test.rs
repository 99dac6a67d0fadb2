//! Whether this processor computes a recipe to the bit, asked with a question whose answer is known.
//!
//! In a precision that [is exact](Precision::is_exact) audits allow for nothing. Every processor
//! that does arithmetic as IEEE 754 says comes to the same bits; one that does not, or a fault of a
//! compiler, would make a liar of an honest node, or of everybody in an auditor's eyes. So who
//! generates or audits in such a precision asks first. It takes some milliseconds, once.

use std::sync::OnceLock;

use super::{Backend, CpuBackend, Feed, Pick, Processor};
use crate::bench_models;
use crate::model::config::{ModelConfig, TinySizes};
use crate::model::precision::Precision;
use crate::sampling;
use crate::sampling::SamplingParams;

/// Tokens of two prompts that are fed together, and tokens that are drawn after each.
const PROMPTS: [usize; 2] = [70, 33];
const DRAWN: u32 = 12;
/// Decides what is drawn.
const SEED: [u8; 32] = [31; 32];

/// The first bytes of a hash over the tokens that are drawn and their log-probabilities.
type Answer = [u8; 8];

/// The answer to come to, unless the order of sums is left open.
fn known(precision: Precision) -> Option<Answer> {
    match precision {
        Precision::F32 | Precision::Bf16 => None,
        Precision::Int8 => Some([96, 56, 172, 124, 216, 137, 230, 232]),
        Precision::Int4 => Some([26, 33, 43, 137, 221, 108, 187, 195]),
    }
}

/// Whether this processor comes to the known answer, where there is one.
#[must_use]
pub fn computes_as_known(precision: Precision) -> bool {
    static COMPUTES: [OnceLock<bool>; Precision::ALL.len()] = [const { OnceLock::new() }; _];
    let Some(known) = known(precision) else { return true };
    *COMPUTES[precision as usize].get_or_init(|| {
        // In threads of its own: who asks may not have said yet how many the process shall have.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        pool.is_ok_and(|pool| pool.install(|| ask(Processor::best(), precision)) == Some(known))
    })
}

/// What a processor answers; nothing when it comes to no numbers at all.
fn ask(processor: Processor, precision: Precision) -> Option<Answer> {
    // No row is a whole number of blocks or lanes, one is longer than what a kernel sums up at a
    // time, and so is the vocabulary for the sampler.
    let config = ModelConfig::tiny_qwen3(TinySizes {
        vocab: 1_100,
        hidden: 72,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 20,
        intermediate: 2_100,
        positions: 128,
    })
    .ok()?;
    let weights = bench_models::weights(&config).ok()?;
    let backend = CpuBackend::load_on(processor, &config, &weights, precision).ok()?;
    let unbiased = SamplingParams::unbiased(DRAWN);
    let params = [unbiased, SamplingParams { temperature: 0.7, top_p: 0.9, ..unbiased }];
    let mut caches = [backend.new_cache(), backend.new_cache()];
    let mut fed: Vec<_> = (0..)
        .zip(PROMPTS)
        .map(|(stream, count)| bench_models::tokens(stream, count, config.vocab_size))
        .collect();
    let mut hash = blake3::Hasher::new();
    for position in 0..DRAWN {
        let mut feeds: Vec<_> =
            fed.iter().zip(&mut caches).map(|(tokens, cache)| Feed { tokens, cache }).collect();
        let picks: Vec<_> = (0..)
            .zip(&params)
            .map(|(sample, params)| Pick { params, u: sampling::uniform(&SEED, sample, position) })
            .collect();
        let drawn = backend.draw(&mut feeds, &picks).ok()?;
        for (fed, drawn) in fed.iter_mut().zip(&drawn) {
            hash.update(&drawn.token.to_le_bytes()).update(&drawn.logprob.to_le_bytes());
            *fed = vec![drawn.token];
        }
    }
    hash.finalize().as_bytes().first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_processor_comes_to_the_known_answer() {
        for precision in Precision::ALL {
            assert_eq!(known(precision).is_some(), precision.is_exact());
            let best = ask(Processor::best(), precision).unwrap();
            assert_eq!(known(precision).unwrap_or(best), best, "{precision}");
            assert!(computes_as_known(precision));
            let all = Processor::available();
            for processor in &all {
                let alike = all.iter().find(|other| other.adds_as(*processor, precision)).unwrap();
                let [answer, other] = [processor, alike].map(|processor| ask(*processor, precision));
                assert_eq!(answer, other, "{precision} {}", processor.name());
            }
        }
    }

    #[test]
    fn another_recipe_comes_to_another_answer() {
        let answers: BTreeSet<Answer> =
            Precision::ALL.iter().filter_map(|precision| ask(Processor::best(), *precision)).collect();
        assert_eq!(answers.len(), Precision::ALL.len());
    }
}
