//! How much the files of a run's tasks may be.

/// Most files of tasks: a snapshot has at most 16 companion files, the tokenizer's included.
pub(super) const MAX_TASK_FILES: usize = 12;
/// Most bytes of them together: nodes take 256 MiB of companion files, the tokenizer's included.
pub(super) const MAX_TASK_FILES_BYTES: u64 = 128 << 20;
