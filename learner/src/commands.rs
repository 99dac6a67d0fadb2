//! What `echo-learner` does besides training, and the command line that names it all.
//!
//! It imports every folder. Nothing imports it but `main.rs`.
//!
//! ```text
//! cli ─> main
//!   run, resume   preflight ─> founding ─> run::daemon
//!   publish       the network of a run around policies that are there already
//!   warmup        the starting policy alone
//!   export        the policy of a checkpoint
//!   evaluate      avg@k and pass@k of a model or a run
//!   prefilter     which rows of a task's file are worth asking
//!   bench         how fast this machine trains
//!   peers         list, ban, pardon
//! ```

pub mod bench;
pub mod cli;
pub mod evaluate;
pub mod export;
pub mod peers;
pub mod prefilter;
pub mod preflight;
pub mod publish;
pub mod warmup;
