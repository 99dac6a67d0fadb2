//! Generates responses to a prompt on the CPU, and prints their tokens and log-probabilities.
//!
//! ```sh
//! cargo run -p echo-policy --example generate
//! ```
//!
//! The policy is tiny and its weights are random, so it writes nonsense. What it writes depends on
//! the seed alone: every draw has its own number, which anybody can compute again.

use std::error::Error;
use std::sync::Arc;

use echo_policy::generation::{Completion, Generation, Policy, SampleRequest};
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::weights::Weights;
use echo_policy::sampling::SamplingParams;
use echo_policy::text::tokenizer::{CharTokenizer, Tokenizer};

fn main() -> Result<(), Box<dyn Error>> {
    let tokenizer = Tokenizer::from(CharTokenizer::default());
    let config = ModelConfig::tiny_qwen3(TinySizes {
        vocab: tokenizer.vocab_size(),
        hidden: 32,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        intermediate: 64,
        positions: 64,
    })?;
    // Larger weights than one would train from: with small ones all tokens are about as likely.
    let config = ModelConfig { initializer_range: 0.3, ..config };
    let weights = Weights::random(&config, 1);
    let policy = Arc::new(Policy::load(1, &config, &weights)?);
    println!("{} parameters, policy version {}", weights.total_elements(), policy.version());

    // One request is one group: its samples share the prompt, which is computed once.
    let prompt = "12+34=";
    let request = SampleRequest {
        prompt: tokenizer.encode(prompt)?,
        seed: [7; 32],
        samples: 3,
        stop_ids: tokenizer.eos_id().into_iter().collect(),
        stop_strings: None,
        limits: Vec::new(),
        max_heard: 0,
        params: SamplingParams { temperature: 0.8, ..SamplingParams::unbiased(8) },
    };
    println!("prompt {prompt:?}");

    let samples = generate(&policy, request.clone())?;
    for (index, sample) in samples.iter().enumerate() {
        let end = if sample.stopped { "ended by itself" } else { "cut by length" };
        println!("\nsample {index}: {:?}, {end}", tokenizer.decode(&sample.tokens, true)?);
        // Of the distribution that the token was drawn from, and at temperature 1.
        println!("  token  text          log-prob  at temperature 1");
        let logprobs = sample.logprobs.iter().zip(&sample.raw_logprobs);
        for (&token, (drawn, raw)) in sample.tokens.iter().zip(logprobs) {
            let text = format!("{:?}", tokenizer.decode(&[token], false)?);
            println!("  {token:>5}  {text:<13} {drawn:>8.3}  {raw:>16.3}");
        }
    }

    // The same seed draws the same tokens with the same log-probabilities, another seed others.
    let again = generate(&policy, request.clone())?;
    let other = generate(&policy, SampleRequest { seed: [8; 32], ..request })?;
    println!("\nthe same with the same seed: {}, with another one: {}", again == samples, other == samples);
    Ok(())
}

/// The samples of one request.
fn generate(policy: &Arc<Policy>, request: SampleRequest) -> Result<Vec<Completion>, Box<dyn Error>> {
    let groups = Generation::start(Arc::clone(policy), vec![request])?.run()?;
    Ok(groups.into_iter().flatten().collect())
}
