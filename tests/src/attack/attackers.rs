//! The members of a run that are not honest. Each is a task that lives in the lab's process.
//!
//! Imports the rest of `attack` apart from `members`, which spawns these tasks.
//!
//! ```text
//! impostor ──► lie ──► frame ──► learner ──► answer ──► account
//! colluder: vouches for groups of liars     flood: many frames, in bursts
//! slow_loris: holds streams open and sends a byte a second
//! ```

pub(crate) mod colluder;
pub(crate) mod flood;
pub(crate) mod impostor;
mod lie;
pub(crate) mod slow_loris;
