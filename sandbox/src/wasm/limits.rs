//! What a module may use. None of these numbers is part of a reward: exceeding
//! one is a [`WasmFailure`](super::WasmFailure).

use std::time::Duration;

/// The version of the interface that modules are written for.
pub const ABI_VERSION: i32 = 1;

/// The most bytes of a module. Compiling takes time in proportion.
pub const MAX_MODULE_BYTES: usize = 1 << 20;

/// The most bytes that a module's memory may have.
pub const MAX_MEMORY_BYTES: usize = 64 << 20;

/// The most elements of a module's one table of functions.
pub const MAX_TABLE_ELEMENTS: usize = 1 << 14;

/// The most bytes of stack that a call may use. Frames differ between processors, so exceeding it
/// is not the same everywhere.
pub const MAX_STACK_BYTES: usize = 512 << 10;

/// The fuel of one instance, in WebAssembly instructions; memory that is copied or filled costs
/// one more a byte.
pub const MAX_FUEL: u64 = 200_000_000;

/// How often the wall clock of the backstop moves.
pub const TICK: Duration = Duration::from_secs(1);

/// After how many ticks a call is stopped whatever fuel it has left. Fuel ends much earlier on any
/// machine that makes progress.
pub const MAX_TICKS: u64 = 30;

/// The most instances of one runtime at once; further calls wait. Each keeps [`MAX_MEMORY_BYTES`] of
/// addresses reserved, not of memory.
pub const MAX_INSTANCES: u32 = 64;

/// The most characters that a module may announce for its prompts, and for its answers.
pub const MAX_TEXT_CHARS: usize = 1 << 16;

/// The most bytes of metadata about one response.
pub const MAX_METADATA_BYTES: usize = 4 << 10;

/// The bytes after an instance's memory that nobody may touch, a multiple of every page size.
pub(super) const GUARD_BYTES: u64 = 64 << 10;

/// The most bytes of a refused module's own words that a message quotes.
pub(super) const MAX_QUOTED_BYTES: usize = 64;
