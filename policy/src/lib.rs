//! The language model of Echo: weights, tokenizer, training forward, generation engine and sampling.
//!
//! One model has two forwards over the same [`weights::Weights`]:
//!
//! - [`decoder::Decoder`] trains: it scores [`packed`] sequences with log-probs and entropies, and turns the derivatives
//!   of any loss of those into gradients of its parameters.
//! - [`engine`] generates: a [`engine::Policy`] (one immutable version of the weights, loaded on a backend) and a
//!   [`engine::Generation`], which draws groups of responses by the rule of [`sampler`] and survives a change of policy
//!   between two tokens.
//!
//! [`audit`] tells whether a response was really drawn from a policy as its order says.
//!
//! Models come from Hugging Face directories ([`config`], [`weights`], [`tokenizer`], [`chat`]) and leave as such
//! ([`export`]). [`vectors`] compares all of it with reference data, and [`agreement`] backends of the engine with the training forward; rates
//! are measured with models of [`sizes`].

pub mod agreement;
pub mod audit;
pub mod chat;
pub mod config;
pub mod decoder;
pub mod dtype;
pub mod engine;
pub mod export;
pub mod flops;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod logprob;
mod math;
pub mod packed;
pub mod precision;
pub mod sampler;
pub mod sizes;
pub mod tokenizer;
pub mod vectors;
pub mod weights;
