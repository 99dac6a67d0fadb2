//! The GPU kit: one archive that runs and measures Echo on a machine with an NVIDIA card, without a
//! network or a compiler there.
//!
//! [`pack`] builds the programs and packs them. [`check`] is what the archive's `gpu-check` does:
//! it runs its steps one after the other, each in a process of its own. What they find becomes a
//! table and a JSON object.
//!
//! May import `bench`, `demo`, `harness`, `models` and `output`.
//!
//! ```text
//! here:   toolkit (CUDA) ──► stand-ins ──► cargo build ──► archive.tar.zst
//! there:  gpu-check ──► libraries ──► steps: survey, vectors, generate, train, loop, wgpu
//!                                        └── result.json each ──► verdict ──► gpu-check.json
//! ```

pub mod check;
mod kit;
mod libraries;
pub mod pack;
mod steps;

pub use check::GpuCheckPlan;
pub use kit::{CHECK, Kit};
pub use pack::Pack;
pub use steps::{GpuStep, StepOptions, run as run_step};
