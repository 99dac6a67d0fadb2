//! What every other folder may stand on: the meaning of a run's charter, the error of an option,
//! and how the log stays short.
//!
//! It imports no other folder of this crate.
//!
//! ```text
//! charter + tokenizer files + task files
//!     └─ workload   the model's form, the tokenizer, the task mix
//!          ├─ order, assignment, prompt     what a node is asked for
//!          └─ sampling, request             what the engine is asked for
//! ```

pub(crate) mod long_waits;
pub mod option_error;
pub(crate) mod paced_log;
#[cfg(test)]
pub(crate) mod testing;
pub mod workload;
