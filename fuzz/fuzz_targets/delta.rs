//! Deltas from strangers must neither panic nor allocate beyond the chunk, and whatever is encoded must come out again.
#![no_main]

use echo_protocol::delta::{Width, apply, encode, kind};
use libfuzzer_sys::fuzz_target;

/// Longest chunk that a hostile delta is applied to, in bytes.
const MAX_CHUNK: usize = 300 << 10;

fuzz_target!(|input: (u8, u32, &[u8], &[u8])| {
    let (choice, length, old, other) = input;
    let length = length as usize % MAX_CHUNK;
    // As a delta: hostile.
    if let Ok(chunk) = apply(old, other, length) {
        assert_eq!(chunk.len(), length);
        assert!(kind(other).is_ok());
    }
    // As a new chunk: honest.
    let width = [Width::One, Width::Two, Width::Four][usize::from(choice % 3)];
    if let Some(delta) = encode(old, other, width) {
        assert!(delta.len() <= other.len());
        assert_eq!(apply(old, &delta, other.len()).as_deref(), Ok(other));
    }
});
