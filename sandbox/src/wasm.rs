//! Verifiers as WebAssembly modules: prompts and rewards that a task's author ships with a run.
//!
//! A module is a file named by its BLAKE3 address. It imports nothing: no clock, no randomness, no
//! file, no system interface. What it says can only depend on what it is given, and everything that
//! WebAssembly leaves to the host is fixed (canonical NaNs) or off (threads, SIMD, garbage
//! collection, exceptions, 64-bit memories). Every call has a new instance, so nothing is carried
//! from one response to the next. The same module therefore gives the same reward on every node.
//!
//! May import `task`, for its verdict.
//!
//! ```text
//! bytes -> Runtime::load -> module (compile, check exports) -> WasmVerifier
//! seed -> WasmVerifier::prompt -> text
//! seed + response -> a new instance -> reward -> metadata -> Verdict, or WasmFailure
//! ```
//!
//! # Interface, version 1
//!
//! Numbers are `i32` unless another type is given. A **text** is UTF-8 in the module's memory,
//! returned as one `i64`: the address in the upper 32 bits, the length in bytes in the lower 32.
//! Characters are Unicode scalar values.
//!
//! | export | type | meaning |
//! |---|---|---|
//! | `memory` | memory | the only one, at most [`MAX_MEMORY_BYTES`] when it starts and ever |
//! | `abi_version` | `() -> i32` | [`ABI_VERSION`] |
//! | `longest_prompt` | `() -> i32` | the most characters of a prompt, 1 to [`MAX_TEXT_CHARS`] |
//! | `longest_response` | `() -> i32` | the most characters that an answer needs, 1 to [`MAX_TEXT_CHARS`] |
//! | `alloc` | `(len) -> i32` | the address of `len` bytes that the host may write to; they stay the host's |
//! | `prompt` | `(seed) -> i64` | the text of the prompt; `seed` is the address of 32 bytes |
//! | `reward` | `(seed, response, len, finished) -> f32` | in [0, 1]; `finished` is 0 for a cut response |
//! | `metadata` (optional) | `() -> i64` | the task's part of Ω: empty or a flat JSON object |
//! | `solution` (optional) | `(seed) -> i64` | the text of a right answer, for the supervised warm-up |
//!
//! A response counts as right when its reward is 1. Seeds are uniform bytes. Other exports are ignored.
//!
//! # What is a verdict
//!
//! Only a reward that the module returned, within [0, 1]. Whatever else happens is a
//! [`WasmFailure`], and never a reward. That includes what is the module's own fault and the same
//! on every node, like a trap or spent fuel: a verifier that stops has said nothing about the
//! response, and a zero in its place would teach the policy something that nobody judged. It also
//! leaves the limits out of the reward: two versions of Echo with different limits never disagree
//! about one. A module that runs what a response says must count its own steps, and say itself what
//! too many are worth.
//!
//! ```no_run
//! use echo_protocol::wire::content_id::ContentId;
//! use echo_sandbox::wasm::Runtime;
//!
//! let bytes = std::fs::read("letter_counting.wasm")?;
//! let runtime = Runtime::new()?;
//! let verifier = runtime.load(ContentId::of(&bytes), &bytes)?;
//! let seed = [7; 32];
//! println!("{}", verifier.prompt(&seed)?);
//! println!("{}", verifier.reward(&seed, "3", true)?.reward);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call;
mod failure;
mod limits;
mod measure;
mod metadata;
mod module;
mod runtime;
mod verifier;

pub use failure::WasmFailure;
pub use limits::{
    ABI_VERSION, MAX_FUEL, MAX_INSTANCES, MAX_MEMORY_BYTES, MAX_METADATA_BYTES, MAX_MODULE_BYTES,
    MAX_STACK_BYTES, MAX_TABLE_ELEMENTS, MAX_TEXT_CHARS, MAX_TICKS, TICK,
};
pub use measure::measure_instantiation;
pub use module::ModuleError;
pub use runtime::{Runtime, RuntimeError};
pub use verifier::WasmVerifier;

#[cfg(test)]
mod tests;
