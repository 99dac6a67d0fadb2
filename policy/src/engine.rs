//! Generation: policies that produce responses, token by token, with exact log-probabilities.
//!
//! [`Backend`] is the seam between what a generation does and how a model is computed. Every backend keeps one
//! key-value cache per sequence and takes, in one call, new tokens for any number of sequences of any length.

pub mod any;
pub mod backend;
pub mod cache;
mod call;
pub mod cpu;
#[cfg(feature = "nvidia")]
pub mod cuda;
pub mod device;
mod error;
pub mod generation;
pub mod policy;
pub mod score;
pub mod threads;
#[cfg(feature = "gpu")]
pub mod wgpu;

pub use any::{AnyBackend, AnyCache};
pub use backend::{Backend, Claim, Feed, Logits, Pick, Want};
pub use cpu::CpuBackend;
pub use device::{Device, DeviceChoice};
pub use error::EngineError;
pub use generation::{
    Completion, Generation, Limits, SampleRequest, StopStrings, Takeover, Tally, Ticket, Turn,
};
pub use policy::Policy;
pub use score::score;
pub use threads::set_threads;

#[cfg(test)]
mod tests;
