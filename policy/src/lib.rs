//! The language model of Echo: weights, tokenizer, training pass, generation, sampling and its audit.
//!
//! ```
//! use echo_policy::sampling::{SamplingParams, sample, uniform};
//!
//! // The number u of sample 0 at position 3. Whoever knows the seed draws the same token.
//! let u = uniform(&[7; 32], 0, 3);
//! let drawn = sample(&[0.0, 1.0, -1.0], &SamplingParams::unbiased(8), u)?;
//! assert!(drawn.token < 3 && drawn.logprob < 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - `model`: the shape of a model, its weights and its precision. They come from Hugging Face
//!   directories and leave as such.
//! - `text`: tokenizers, and the chat templates around a conversation.
//! - `sampling`: the rule by which a number u chooses a token from logits. Anybody can repeat it.
//! - `training`: the decoder that scores packed sequences and turns the derivatives of
//!   any loss into gradients.
//! - `generation`: policies on the CPU, on NVIDIA GPUs or through wgpu, and the scheduler that draws
//!   groups of responses. A newer policy may take over between two tokens.
//! - `audit`: whether a response was drawn from a policy as its order says.
//! - `conformance`: recorded values, and the comparison of a backend with the training pass.
//! - `sync`: the lock and the event that backends wait with.
//!
//! `bench_models` has models of stated sizes with seeded weights; rates are measured with them. `math`
//! has the f32 functions that training, generation and sampling share.
//!
//! A response, from prompt to audit:
//!
//! ```text
//! model::config, model::weights -> generation::Policy
//! text::tokenizer -> SampleRequest -> generation::Generation::step -> Backend -> sampling -> Completion
//! Completion -> audit::Auditor::examine -> SampleFinding
//! ```
//!
//! An update of the learner:
//!
//! ```text
//! token ids -> training::packed::Packed -> training::decoder::Decoder::score_for_training
//! derivatives of the loss -> ScoredPack::backward -> Gradients -> new weights
//! ```

pub mod audit;
pub mod bench_models;
pub mod conformance;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod generation;
mod math;
pub mod model;
pub mod sampling;
pub(crate) mod sync;
pub mod text;
pub mod training;
