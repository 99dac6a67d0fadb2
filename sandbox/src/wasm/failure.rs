//! Why a module said nothing about a response.

use wasmtime::{PoolConcurrencyLimitError, Trap};

use super::limits::{MAX_FUEL, MAX_METADATA_BYTES, MAX_QUOTED_BYTES, MAX_STACK_BYTES, MAX_TICKS, TICK};

/// A call that gave no answer. It is never a reward.
///
/// [`Stack`](Self::Stack), [`Time`](Self::Time), [`Host`](Self::Host) and, where memory is
/// short, [`Memory`](Self::Memory) depend on the machine. All others are the module's fault and
/// the same on every node.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WasmFailure {
    /// An instruction trapped: `unreachable`, which is also a panic; a bad address,
    /// index, division or conversion.
    #[error("the module stopped: {0}; its author must mend it")]
    Trap(String),
    /// It ran for too long.
    #[error("the module used up its fuel of {MAX_FUEL} instructions; its author must let it count its steps")]
    Fuel,
    /// It wanted more memory, or a larger table, than it may have or than there is.
    #[error("the module got no more memory: {0}; its author must let it use less")]
    Memory(String),
    /// It called too deep.
    #[error("the module used up its stack of {MAX_STACK_BYTES} bytes; its author must bound its recursion")]
    Stack,
    /// The wall clock's backstop stopped it.
    #[error(
        "the module ran for {MAX_TICKS} times {TICK:?} and had fuel left: this machine is too busy or too slow"
    )]
    Time,
    /// An address that is not in the module's memory.
    #[error("the module's {what} is {bytes} bytes at {address}, outside its memory; its author must mend it")]
    Outside {
        /// What lies there: `seed`, `response` or a text by its export.
        what: &'static str,
        /// Where it begins, in bytes from the memory's start.
        address: u32,
        /// Its length in bytes, as the module gave it.
        bytes: usize,
    },
    /// A text of more bytes or characters than there may be.
    #[error("the module's {what} has {found} {unit}, more than {limit}; its author must mend it")]
    Long {
        /// Which text: one of the module's, or what it is given.
        what: &'static str,
        /// Its length, in the unit below.
        found: usize,
        /// The unit of both figures: `bytes` or `characters`.
        unit: &'static str,
        /// The most it may have.
        limit: usize,
    },
    /// A text that is not UTF-8.
    #[error("the module's {what} is not UTF-8; its author must mend it")]
    NotText {
        /// Which text: `prompt`, `solution` or `metadata`.
        what: &'static str,
    },
    /// A figure that is no reward, NaN included.
    #[error("the module gave the reward {0}, outside [0, 1]; its author must mend it")]
    Reward(f32),
    /// Metadata that do not fit into Ω.
    #[error(
        "the module's metadata are not a flat JSON object within the limits of Ω and {MAX_METADATA_BYTES} bytes: {0}; its author must mend them"
    )]
    Metadata(String),
    /// This machine could not make or enter an instance.
    #[error("WebAssembly failed on this machine: {0}")]
    Host(String),
}

impl WasmFailure {
    /// Why there is no instance, or why a call ended without a result.
    pub(super) fn of(error: &wasmtime::Error) -> Self {
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => Self::Fuel,
            Some(Trap::Interrupt) => Self::Time,
            Some(Trap::StackOverflow) => Self::Stack,
            Some(trap) => Self::Trap(trap.to_string()),
            None if error.is::<PoolConcurrencyLimitError>() => Self::host(error),
            // Nothing is imported, so what else ends a call is a memory or a table that could not grow.
            None => Self::Memory(format!("{error:#}")),
        }
    }

    /// A failure of this machine.
    pub(super) fn host(error: &wasmtime::Error) -> Self {
        Self::Host(format!("{error:#}"))
    }
}

/// The beginning of a text, short enough for a message.
pub(super) fn quoted(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_QUOTED_BYTES)]
}
