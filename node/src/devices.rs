//! What a node computes on, and in which numbers.
//!
//! The best device that suits the owner's choice is used until it is lost; then the next one is. The
//! processor is always the last. May import `settings`, `state` and `status`.
//!
//! ```text
//! settings, charter ── precision (f32, bf16, int8, int4)
//!                          │
//!        devices found ── fallback ── policy loaded on the first that has room
//!                          │
//!                       hardware (`echo-node hardware`: lists and measures them)
//! power: whether the machine runs on its battery
//! ```

pub mod fallback;
pub mod hardware;
pub mod power;
pub mod precision;
