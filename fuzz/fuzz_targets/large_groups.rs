//! Groups as large as a frame may be. Reading 8 MB takes a small multiple of it, and heads are read alone.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use echo_fuzz::tiled;
use echo_protocol::run::charter::MAX_GROUP_SIZE;
use echo_protocol::wire::codec::decode;
use echo_protocol::work::trajectory::{GroupHead, MAX_GROUP_BYTES, MAX_OMEGA_ENTRIES, TrajectoryGroup};
use libfuzzer_sys::fuzz_target;

/// Bytes that may be held for each byte of a group. The worst honest form is a version span: three bytes
/// become sixteen, in a list that is copied into one of twice its size.
const MOST_FOR_A_BYTE: usize = 20;
/// And this, whatever the length: a list may begin with room for a MiB.
const SMALL: usize = 4 << 20;

/// Counts what is held, and the most since it was last asked.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A text of CBOR, of less than 24 bytes.
fn text(bytes: &mut Vec<u8>, word: &str) {
    bytes.push(0x60 | word.len() as u8);
    bytes.extend_from_slice(word.as_bytes());
}

/// What comes before a field of a group, or of its first trajectory, that is `pattern` again and again.
fn group(field: u8, pattern: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = vec![0xbf];
    for name in ["run", "node"] {
        text(&mut bytes, name);
        bytes.extend([0x58, 32]);
        bytes.extend([7; 32]);
    }
    for name in ["lease", "counter"] {
        text(&mut bytes, name);
        bytes.push(3);
    }
    let lists = ["response", "logprobs", "versions", "turns", "raw_logprobs"];
    match usize::from(field) % 8 {
        0 => text(&mut bytes, "trajectories"),
        1 => text(&mut bytes, "recomputed"),
        2 => {
            text(&mut bytes, "trajectories");
            bytes.extend([0x9f, 0xbf]);
            text(&mut bytes, "omega");
            bytes.push(0xbf);
            bytes.extend(tiled(pattern, length));
            return bytes;
        }
        list => {
            text(&mut bytes, "trajectories");
            bytes.extend([0x9f, 0xbf]);
            text(&mut bytes, lists[list - 3]);
        }
    }
    bytes.push(0x9f);
    bytes.extend(tiled(pattern, length));
    bytes
}

fuzz_target!(|input: (u8, u32, &[u8], &[u8])| {
    let (field, length, pattern, end) = input;
    let mut bytes = group(field, pattern, length as usize % (MAX_GROUP_BYTES - 1024));
    bytes.extend_from_slice(&end[..end.len().min(512)]);

    MOST.store(HELD.load(Ordering::Relaxed), Ordering::Relaxed);
    let before = HELD.load(Ordering::Relaxed);
    let head = GroupHead::read(&bytes).expect("it is whole, whatever follows");
    let for_head = MOST.load(Ordering::Relaxed) - before;
    assert!(for_head < 64 << 10, "{for_head} bytes for a head");

    let read = decode::<TrajectoryGroup>(&bytes, MAX_GROUP_BYTES);
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(most <= SMALL + MOST_FOR_A_BYTE * bytes.len(), "{most} bytes for a group of {}", bytes.len());
    if let Ok(group) = read {
        assert_eq!(group.head(), head);
        assert!(group.trajectories.len() <= MAX_GROUP_SIZE as usize + 1);
        assert!(group.trajectories.iter().all(|t| t.omega.len() <= MAX_OMEGA_ENTRIES + 1));
    }
});
