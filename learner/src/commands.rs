//! What `echo-learner` does besides training, and the command line that names it all.
//!
//! It imports every folder. Nothing imports it but `main.rs`.
//!
//! ```text
//! cli ─> main
//!   run, resume   preflight ─> founding ─> run::daemon
//!   publish       the network of a run around policies that are there already
//!   check         all that is wrong with a run file, before anything is computed
//!   init          a run file to begin with
//!   warmup        the starting policy alone
//!   export        the policy of a checkpoint
//!   evaluate      avg@k and pass@k of a model or a run
//!   prefilter     which rows of a task's file are worth asking
//!   task_try      what a task asks, and what responses to it earn
//!   bench         how fast this machine trains
//!   plan          how many nodes a run takes, and what it costs, by S
//!   peers         list, ban, pardon
//!   samples       what the policy wrote
//!   push          a policy and its card to the Hugging Face Hub
//!   sources       what names of the Hub mean on this machine, for all of them
//!   show          objectives, identity, metrics: what is known, for people or as JSON
//! run_file: FILE or --config FILE, of every command that reads a run file
//! ```

pub mod bench;
pub mod check;
pub mod cli;
pub mod evaluate;
pub mod export;
pub mod init;
pub mod peers;
pub mod plan;
pub mod prefilter;
pub mod preflight;
pub mod publish;
pub mod push;
pub mod run_file;
pub mod samples;
pub mod settings;
pub mod show;
pub mod sources;
pub mod task_try;
pub mod warmup;
