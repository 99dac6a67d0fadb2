//! The GPU kit: one archive that runs and measures Echo on a machine with an NVIDIA card, without a network or a compiler there.
//!
//! [`pack`] builds the programs and packs them; [`check`] is what the archive's `gpu-check` does: its steps run one after the other, each in a
//! process of its own, and what they find becomes a table and a JSON object.

pub mod check;
mod kit;
pub mod pack;
mod steps;

pub use check::Check;
pub use kit::{CHECK, Kit};
pub use pack::Pack;
pub use steps::{Step, StepOptions, run as run_step};
