//! Generation: policies that produce responses, token by token, with exact log-probabilities.
//!
//! [`Backend`] is the seam between what a generation does and how a model is computed. Every backend
//! keeps one key-value cache per sequence. One call takes new tokens for any number of sequences.
//!
//! May import `model`, `sampling`, `sync`, `math` and `bench_models` (for the self-test).
//!
//! ```text
//! device::Survey -> DeviceChoice -> Device -> Policy, one version on a backend
//! SampleRequest -> Generation::submit
//! Generation::step -> Backend::draw -> sampling's rule -> a token and its log-probs
//! a newer Policy -> Generation::install: it takes over between two tokens
//! Generation::finished -> Completion: tokens, log-probs, the version of each token
//! ```

pub mod backend;
mod call;
pub mod cpu;
#[cfg(feature = "nvidia")]
pub mod cuda;
pub mod device;
pub mod dyn_backend;
mod error;
pub mod policy;
pub mod scheduler;
pub mod score;
pub mod threads;
#[cfg(feature = "gpu")]
pub mod wgpu;

pub use backend::{Backend, Feed, Logits, Pick, TokenClaim, Want};
pub use cpu::CpuBackend;
pub use device::{Device, DeviceChoice};
pub use dyn_backend::{AnyBackend, AnyCache};
pub use error::EngineError;
pub use policy::Policy;
pub use scheduler::{
    Completion, EndedTurn, Generation, GenerationLimits, GenerationStats, PolicyTakeover, SampleRequest,
    StopStrings, Ticket,
};
pub use score::score;
pub use threads::{compute_aside, set_threads};

#[cfg(test)]
mod tests;
