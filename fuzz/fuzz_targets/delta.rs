//! Deltas from strangers must neither panic nor allocate beyond the chunk, and whatever is encoded
//! must come out again.
#![no_main]

use echo_fuzz::{Edit, edited, tiled};
use echo_protocol::snapshot::delta::{Width, apply, encode, kind};
use libfuzzer_sys::fuzz_target;

/// Longest chunk, in bytes: more than two blocks of any kind of delta.
const MAX_CHUNK: usize = 300 << 10;
/// Most places in which a chunk differs from its base by what the input says of each.
const MAX_CHANGES: usize = 1024;
/// Longest delta between two equal chunks, in bytes.
const MAX_EMPTY: usize = 64;

fuzz_target!(|input: (u8, u32, Vec<(u32, u32)>, Vec<Edit>, &[u8], &[u8])| {
    let (choice, length, changes, edits, old, other) = input;
    let length = length as usize % MAX_CHUNK;
    // As a delta: hostile. As a new chunk: one that has little to do with the old one.
    applied(old, other, length);
    let width = WIDTHS[usize::from(choice) % WIDTHS.len()];
    round_trip(old, other, width);

    let base = tiled(old, length);
    assert!(encode(&base, &base, width).is_none_or(|delta| delta.len() < MAX_EMPTY));
    // Few numbers that changed, or all of them.
    let mut new = base.clone();
    if choice >= 128 {
        new.iter_mut().zip(other.iter().cycle()).for_each(|(byte, by)| *byte = byte.wrapping_add(*by));
    }
    for (at, by) in changes.into_iter().take(MAX_CHANGES) {
        let (numbers, _) = new.as_chunks_mut::<4>();
        let Some(last) = numbers.len().checked_sub(1) else { break };
        let number = &mut numbers[at as usize % (last + 1)];
        *number = u32::from_le_bytes(*number).wrapping_add(by).to_le_bytes();
    }
    for width in WIDTHS {
        if let Some(delta) = round_trip(&base, &new, width) {
            applied(&base, &edited(&delta, &edits), length);
            // Another length than that for which it was made.
            applied(&base, &delta, length / 2);
        }
    }
});

const WIDTHS: [Width; 3] = [Width::One, Width::Two, Width::Four];

/// What a delta of a stranger makes is as long as was asked for, and the same again.
fn applied(old: &[u8], delta: &[u8], length: usize) {
    let chunk = apply(old.to_vec(), delta, length);
    if let Ok(chunk) = &chunk {
        assert_eq!(chunk.len(), length);
        assert!(kind(delta).is_ok());
    }
    assert_eq!(apply(old.to_vec(), delta, length), chunk);
}

fn round_trip(old: &[u8], new: &[u8], width: Width) -> Option<Vec<u8>> {
    let delta = encode(old, new, width)?;
    assert!(delta.len() <= new.len());
    assert!(apply(old.to_vec(), &delta, new.len()).as_deref() == Ok(new));
    Some(delta)
}
