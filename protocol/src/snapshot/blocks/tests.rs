use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const B: usize = BLOCK_BYTES;

fn bytes(length: usize, salt: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut reader = blake3::Hasher::new().update(&salt.to_be_bytes()).finalize_xof();
    reader.fill(&mut bytes);
    bytes
}

/// Every length at which the shape of the tree changes, and some in between.
fn lengths() -> Vec<usize> {
    let small = [0, 1, 2, 63, 64, 65, 1023, 1024, 1025, 2048, 3000, 5 << 10];
    let near = (1..=9).flat_map(|blocks| [blocks * B - 1, blocks * B, blocks * B + 1, blocks * B + 1025]);
    let odd = [10 * B + 7, 15 * B, 16 * B, 17 * B + 3, 31 * B - 1024, 33 * B, 63 * B + 1, 64 * B - 1, 64 * B];
    small.into_iter().chain(near).chain(odd).collect()
}

#[test]
fn leaves_merge_to_the_content_id_at_every_length() {
    for length in lengths() {
        let data = bytes(length, 1);
        let (id, tree) = BlockTree::of(&data);
        assert_eq!(id, ContentId::of(&data), "{length} bytes");
        assert_eq!(BlockTree::checked(id, length as u64, tree.leaves().to_vec()), Ok(tree.clone()));
        assert_eq!(BlockTree::from_bytes(&tree.to_bytes()), Ok(tree.clone()));
        assert!(tree.to_bytes().len() <= BlockTree::MAX_BYTES);
        let blocks = block_count(length as u64);
        assert_eq!(blocks as usize, data.chunks(B).count().max(1));
        let ranges = (0..blocks).map(|block| block_range(length as u64, block));
        assert_eq!(ranges.map(|r| r.end - r.start).sum::<u64>(), length as u64);
        for block in 0..blocks {
            let range = block_range(length as u64, block);
            assert!(tree.verifies(block, &data[range.start as usize..range.end as usize]));
        }
        assert!(!tree.verifies(blocks, &[]) && !tree.verifies(u32::MAX, &data));
    }
}

/// The merge written out by hand for five blocks, where left and right differ: ((01)(23))4.
#[test]
fn five_blocks_by_hand() {
    let data = bytes(4 * B + 100, 2);
    let (id, tree) = BlockTree::of(&data);
    let l = tree.leaves();
    let two = |a, b| merge_subtrees_non_root(a, b, Mode::Hash);
    let left = two(&two(&l[0], &l[1]), &two(&l[2], &l[3]));
    assert_eq!(merge_subtrees_root(&left, &l[4], Mode::Hash), *id.as_bytes());
}

#[test]
fn a_flipped_bit_or_another_place_does_not_verify() {
    let data = bytes(3 * B + 9, 3);
    let (_, tree) = BlockTree::of(&data);
    let mut block = data[B..2 * B].to_vec();
    assert!(!tree.verifies(0, &block) && !tree.verifies(2, &block));
    block[B - 1] ^= 1;
    assert!(!tree.verifies(1, &block));
    assert!(!tree.verifies(3, &data[3 * B..3 * B + 8]), "one byte short");
}

#[test]
fn hostile_trees_are_refused() {
    let data = bytes(3 * B, 4);
    let (id, tree) = BlockTree::of(&data);
    let leaves = || tree.leaves().to_vec();
    let refused = |length, leaves| BlockTree::checked(id, length, leaves).unwrap_err();
    assert_eq!(refused(MAX_PIECE_BYTES + 1, leaves()), TreeError::Length(MAX_PIECE_BYTES + 1));
    assert!(matches!(refused(u64::MAX, leaves()), TreeError::Length(_)));
    assert_eq!(refused(3 * B as u64, Vec::new()), TreeError::Leaves { found: 0, needed: 3 });
    assert_eq!(refused(B as u64, leaves()), TreeError::Leaves { found: 3, needed: 0 });
    let mut swapped = leaves();
    swapped.swap(0, 1);
    assert_eq!(refused(3 * B as u64, swapped), TreeError::Root(id));
    // A lying length with as many blocks passes the merge, and then no last block verifies.
    let lying = BlockTree::checked(id, 3 * B as u64 - 1, leaves()).unwrap();
    assert!(!lying.verifies(2, &data[2 * B..]) && !lying.verifies(2, &data[2 * B..3 * B - 1]));
}

proptest! {
    #[test]
    fn arbitrary_encodings_never_panic(mut noise in proptest::collection::vec(any::<u8>(), 0..2200)) {
        let _ = BlockTree::from_bytes(&noise);
        // And with a length that is plausible.
        if noise.len() > HEADER_BYTES {
            let leaves = (noise.len() - HEADER_BYTES) / LEAF_BYTES;
            noise.truncate(HEADER_BYTES + leaves * LEAF_BYTES);
            noise[32..40].copy_from_slice(&((leaves * B) as u64).to_be_bytes());
            // One leaf or none are refused or trivial; more are not the tree of a random id.
            prop_assert!(leaves < 2 || BlockTree::from_bytes(&noise).is_err());
        }
    }

    #[test]
    fn any_length_agrees_with_blake3(length in 0usize..6 * B, salt in any::<u64>()) {
        let data = bytes(length, salt);
        prop_assert_eq!(BlockTree::of(&data).0, ContentId::of(&data));
    }

    #[test]
    fn a_mask_behaves_like_a_set(a in proptest::collection::btree_set(0u32..64, 0..64), b in proptest::collection::btree_set(0u32..64, 0..64)) {
        let (mask, other) = (BlockMask::of(a.clone()), BlockMask::of(b.clone()));
        let set = |mask: BlockMask| mask.iter().collect::<BTreeSet<u32>>();
        prop_assert_eq!(set(mask), a.clone());
        prop_assert_eq!(set(mask.union(other)), &a | &b);
        prop_assert_eq!(set(mask.minus(other)), &a - &b);
        prop_assert_eq!(set(mask.intersect(other)), &a & &b);
        prop_assert_eq!(mask.len() as usize, a.len());
        prop_assert_eq!(mask.lowest(), a.first().copied());
        for block in 0..70 { prop_assert_eq!(mask.contains(block), a.contains(&block)); }
    }
}

#[test]
fn masks_at_their_borders() {
    assert_eq!(BlockMask::all(0), BlockMask::EMPTY);
    assert_eq!(BlockMask::all(1), BlockMask(1));
    assert_eq!((BlockMask::all(64), BlockMask::all(1000)), (BlockMask(u64::MAX), BlockMask(u64::MAX)));
    let mut mask = BlockMask::EMPTY;
    mask.insert(64);
    mask.insert(63);
    mask.remove(u32::MAX);
    assert_eq!(mask, BlockMask(1 << 63));
    mask.remove(63);
    assert!(mask.is_empty() && mask.lowest().is_none());
}
