//! Policies that the lab makes for itself, without a network of nodes.
//!
//! May import `harness` and `output`.
//!
//! ```text
//! random_weights ──► Hugging Face directory, made once and kept      (races of engines)
//! in_process_training ──► imitation, rollouts, updates ──► weights   (studies)
//! weights ── character_policy ──► Hugging Face directory in bf16
//! package index ── smollm2 ──► the same, of a published model  (`cargo lab model`, demo, vectors)
//! ```

pub(crate) mod character_policy;
pub(crate) mod in_process_training;
pub(crate) mod random_weights;
pub mod smollm2;
