//! Block trees from strangers: decoding must not panic, what passes is canonical, and only the
//! piece's own bytes verify.
#![no_main]

use echo_fuzz::{Edit, edited, tiled};
use echo_protocol::snapshot::blocks::{BlockTree, MAX_PIECE_BYTES, block_count, block_range};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, u32, u32, Vec<Edit>, &[u8], &[u8])| {
    let (length, block, flip, edits, pattern, encoded) = input;
    if let Ok(tree) = BlockTree::from_bytes(encoded) {
        assert_eq!(tree.to_bytes(), encoded);
        tree.verifies(block, pattern);
    }
    let length = u64::from(length) % (MAX_PIECE_BYTES + 1);
    let piece = tiled(pattern, length as usize);
    let (id, tree) = BlockTree::of(&piece);
    assert!(id.matches(&piece) && tree.id() == id && tree.length() == length);
    let bytes = tree.to_bytes();
    assert!(bytes.len() <= BlockTree::MAX_BYTES);
    assert_eq!(BlockTree::from_bytes(&bytes).as_ref(), Ok(&tree));
    check_edited(&tree, &edited(&bytes, &edits));

    let count = block_count(length);
    let bytes_of = |block| {
        let range = block_range(length, block);
        &piece[range.start as usize..range.end as usize]
    };
    let block = block % count;
    let own = bytes_of(block);
    assert!(tree.verifies(block, own));
    // In another place only where the same bytes belong there.
    let other = flip % count;
    assert_eq!(tree.verifies(other, own), own == bytes_of(other));
    assert!(!tree.verifies(count, &[]) && !tree.verifies(u32::MAX, own));
    if let Some(last) = own.len().checked_sub(1) {
        assert!(!tree.verifies(block, &own[..last]));
        let mut flipped = own.to_vec();
        flipped[flip as usize % own.len()] ^= 1 << (flip >> 29);
        assert!(!tree.verifies(block, &flipped));
    }
});

/// Leaves that merge to a name cannot be made up: a changed tree is refused, or has the
/// leaves that it had.
fn check_edited(tree: &BlockTree, bytes: &[u8]) {
    let Ok(again) = BlockTree::from_bytes(bytes) else { return };
    assert_eq!(again.to_bytes(), bytes);
    assert_eq!(again.leaves().is_empty(), block_count(again.length()) == 1);
    if !again.leaves().is_empty() {
        // The length is what the manifest says of the piece: whoever uses the tree compares it.
        assert!(again.id() == tree.id() && again.leaves() == tree.leaves());
    }
}
