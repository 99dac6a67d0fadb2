//! What every command and test of the lab stands on: programs, networks of real processes,
//! network namespaces, and a peer that the lab plays itself.
//!
//! May import `output`.
//!
//! ```text
//! cargo ──► binaries ──► network ──► processes     built, found, started, stopped
//!                           ▲
//!              small_run ───┘         a network whose updates take milliseconds
//! liar ── libp2p ──► the learner of a network
//! netns: hosts with links of their own     process_usage, machine: what /proc says
//! wheels: packages from PyPI in the user's cache
//! ```

pub mod binaries;
pub mod cargo;
pub(crate) mod directory;
pub mod liar;
pub(crate) mod machine;
pub mod netns;
pub mod network;
pub(crate) mod observation;
pub(crate) mod process_usage;
pub mod processes;
pub mod small_run;
pub(crate) mod statistics;
pub(crate) mod wheels;
