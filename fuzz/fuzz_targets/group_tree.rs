//! Group trees from strangers: decoding must not panic, what passes is canonical, and only the piece's own bytes verify.
#![no_main]

use echo_protocol::groups::{GroupTree, group_count, group_range};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, &[u8], &[u8])| {
    let (group, encoded, piece) = input;
    if let Ok(tree) = GroupTree::from_bytes(encoded) {
        assert_eq!(tree.to_bytes(), encoded);
        tree.verifies(group, piece);
    }
    let (id, tree) = GroupTree::of(piece);
    assert_eq!(GroupTree::from_bytes(&tree.to_bytes()).as_ref(), Ok(&tree));
    assert!(id.matches(piece));
    let length = piece.len() as u64;
    for group in 0..group_count(length) {
        let range = group_range(length, group);
        assert!(tree.verifies(group, &piece[range.start as usize..range.end as usize]));
    }
    assert!(!tree.verifies(group_count(length), &[]));
});
