//! Scores responses with the training pass, audits them, and catches two lies.
//!
//! ```sh
//! cargo run -p echo-policy --example score_and_audit
//! ```
//!
//! A volunteer sends tokens and log-probabilities. The learner has the same weights and the same
//! seed, so it can tell for each token whether the seed selects it. That costs a prefill, and no
//! decoding.

use std::error::Error;
use std::sync::Arc;

use candle_core::Device;
use echo_policy::audit::{AuditError, Auditor, ClaimedSample, SampleFinding, Standard, VersionWeights};
use echo_policy::generation::{Completion, Generation, SampleRequest};
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use echo_policy::sampling::SamplingParams;
use echo_policy::training::decoder::Decoder;
use echo_policy::training::packed::Packed;

const VERSION: u64 = 1;
const SEED: [u8; 32] = [7; 32];
/// Any tokens will do: the weights are random.
const PROMPT: [u32; 4] = [4, 15, 5, 16];

fn main() -> Result<(), Box<dyn Error>> {
    let config = ModelConfig::tiny_qwen3(TinySizes {
        vocab: 64,
        hidden: 32,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        intermediate: 64,
        positions: 64,
    })?;
    let config = ModelConfig { initializer_range: 0.3, ..config };
    let weights = Weights::random(&config, VERSION);
    let params = SamplingParams::unbiased(12);

    // The volunteer generates two responses.
    let version = Arc::new(VersionWeights::new(VERSION, &config, weights.clone())?);
    let policy = Arc::new(version.policy(Precision::F32)?);
    let request = SampleRequest {
        prompt: PROMPT.to_vec(),
        seed: SEED,
        samples: 2,
        stop_ids: Vec::new(),
        stop_strings: None,
        limits: Vec::new(),
        max_heard: 0,
        params,
    };
    let honest: Vec<Completion> =
        Generation::start(policy, vec![request])?.run()?.into_iter().flatten().collect();

    // The decoder of the training pass scores them: all responses in one pack, without padding.
    let decoder = Decoder::trainable(&config, &weights, &Device::Cpu)?;
    let sequences: Vec<Vec<u32>> =
        honest.iter().map(|sample| [&PROMPT[..], &sample.tokens].concat()).collect();
    let packed = Packed::of(&sequences)?;
    let scores = decoder.score(&packed, &packed.next_tokens())?;
    let mut rest = scores.logp.as_slice();
    for (index, (sample, sequence)) in honest.iter().zip(&sequences).enumerate() {
        let (of_sequence, behind) = rest.split_at(sequence.len() - 1);
        rest = behind;
        let scored = &of_sequence[PROMPT.len() - 1..];
        let apart = scored.iter().zip(&sample.logprobs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!("sample {index}: tokens {:?}", sample.tokens);
        println!("  log-prob {:.4} as generated", sample.logprobs.iter().sum::<f32>());
        println!("  log-prob {:.4} as scored, at most {apart:.1e} apart", scored.iter().sum::<f32>());
    }

    // The auditor makes its policy of the same weights, within 64 MiB.
    let auditor = Auditor::new(64 << 20);
    let standard = Standard::of("f32", params.temperature)?;
    let audit = |samples: &[Completion]| -> Result<SampleFinding, AuditError> {
        let claims = (0..).zip(samples).map(|(index, sample)| {
            let tokens = sample.tokens.iter().map(|&token| (token, true));
            ClaimedSample::new(index, tokens, &sample.logprobs, sample.versions.iter().copied())
        });
        auditor.examine(&[Arc::clone(&version)], &standard, &PROMPT, &SEED, &params, claims)
    };
    println!();
    tell("honest samples", audit(&honest)?);

    let mut edited = honest.clone();
    let token = &mut edited[0].tokens[5];
    *token = (*token + 32) % 64;
    tell("one token changed", audit(&edited)?);

    let mut polished = honest.clone();
    polished[1].logprobs.iter_mut().for_each(|logprob| *logprob *= 0.9);
    tell("better log-probs", audit(&polished)?);
    Ok(())
}

fn tell(what: &str, finding: SampleFinding) {
    match finding.fault {
        Some(fault) => println!("{what}: caught, {fault}"),
        None => println!("{what}: nothing is wrong"),
    }
}
