use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const G: usize = GROUP_BYTES;

fn bytes(length: usize, salt: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut reader = blake3::Hasher::new().update(&salt.to_be_bytes()).finalize_xof();
    reader.fill(&mut bytes);
    bytes
}

/// Every length at which the shape of the tree changes, and some in between.
fn lengths() -> Vec<usize> {
    let small = [0, 1, 2, 63, 64, 65, 1023, 1024, 1025, 2048, 3000, 5 << 10];
    let near = (1..=9).flat_map(|groups| [groups * G - 1, groups * G, groups * G + 1, groups * G + 1025]);
    let odd = [10 * G + 7, 15 * G, 16 * G, 17 * G + 3, 31 * G - 1024, 33 * G, 63 * G + 1, 64 * G - 1, 64 * G];
    small.into_iter().chain(near).chain(odd).collect()
}

#[test]
fn leaves_merge_to_the_content_id_at_every_length() {
    for length in lengths() {
        let data = bytes(length, 1);
        let (id, tree) = GroupTree::of(&data);
        assert_eq!(id, ContentId::of(&data), "{length} bytes");
        assert_eq!(GroupTree::checked(id, length as u64, tree.leaves().to_vec()), Ok(tree.clone()));
        assert_eq!(GroupTree::from_bytes(&tree.to_bytes()), Ok(tree.clone()));
        assert!(tree.to_bytes().len() <= GroupTree::MAX_BYTES);
        let groups = group_count(length as u64);
        assert_eq!(groups as usize, data.chunks(G).count().max(1));
        let ranges = (0..groups).map(|group| group_range(length as u64, group));
        assert_eq!(ranges.map(|r| r.end - r.start).sum::<u64>(), length as u64);
        for group in 0..groups {
            let range = group_range(length as u64, group);
            assert!(tree.verifies(group, &data[range.start as usize..range.end as usize]));
        }
        assert!(!tree.verifies(groups, &[]) && !tree.verifies(u32::MAX, &data));
    }
}

/// The merge written out by hand for five groups, where left and right differ: ((01)(23))4.
#[test]
fn five_groups_by_hand() {
    let data = bytes(4 * G + 100, 2);
    let (id, tree) = GroupTree::of(&data);
    let l = tree.leaves();
    let two = |a, b| merge_subtrees_non_root(a, b, Mode::Hash);
    let left = two(&two(&l[0], &l[1]), &two(&l[2], &l[3]));
    assert_eq!(merge_subtrees_root(&left, &l[4], Mode::Hash), *id.as_bytes());
}

#[test]
fn a_flipped_bit_or_another_place_does_not_verify() {
    let data = bytes(3 * G + 9, 3);
    let (_, tree) = GroupTree::of(&data);
    let mut group = data[G..2 * G].to_vec();
    assert!(!tree.verifies(0, &group) && !tree.verifies(2, &group));
    group[G - 1] ^= 1;
    assert!(!tree.verifies(1, &group));
    assert!(!tree.verifies(3, &data[3 * G..3 * G + 8]), "one byte short");
}

#[test]
fn hostile_trees_are_refused() {
    let data = bytes(3 * G, 4);
    let (id, tree) = GroupTree::of(&data);
    let leaves = || tree.leaves().to_vec();
    let refused = |length, leaves| GroupTree::checked(id, length, leaves).unwrap_err();
    assert_eq!(refused(MAX_PIECE_BYTES + 1, leaves()), TreeError::Length(MAX_PIECE_BYTES + 1));
    assert!(matches!(refused(u64::MAX, leaves()), TreeError::Length(_)));
    assert_eq!(refused(3 * G as u64, Vec::new()), TreeError::Leaves { found: 0, needed: 3 });
    assert_eq!(refused(G as u64, leaves()), TreeError::Leaves { found: 3, needed: 0 });
    let mut swapped = leaves();
    swapped.swap(0, 1);
    assert_eq!(refused(3 * G as u64, swapped), TreeError::Root(id));
    // A lying length with as many groups passes the merge, and then no last group verifies.
    let lying = GroupTree::checked(id, 3 * G as u64 - 1, leaves()).unwrap();
    assert!(!lying.verifies(2, &data[2 * G..]) && !lying.verifies(2, &data[2 * G..3 * G - 1]));
}

proptest! {
    #[test]
    fn arbitrary_encodings_never_panic(mut noise in proptest::collection::vec(any::<u8>(), 0..2200)) {
        let _ = GroupTree::from_bytes(&noise);
        // And with a length that is plausible.
        if noise.len() > HEADER_BYTES {
            let leaves = (noise.len() - HEADER_BYTES) / LEAF_BYTES;
            noise.truncate(HEADER_BYTES + leaves * LEAF_BYTES);
            noise[32..40].copy_from_slice(&((leaves * G) as u64).to_be_bytes());
            // One leaf or none are refused or trivial; more are not the tree of a random id.
            prop_assert!(leaves < 2 || GroupTree::from_bytes(&noise).is_err());
        }
    }

    #[test]
    fn any_length_agrees_with_blake3(length in 0usize..6 * G, salt in any::<u64>()) {
        let data = bytes(length, salt);
        prop_assert_eq!(GroupTree::of(&data).0, ContentId::of(&data));
    }

    #[test]
    fn a_mask_behaves_like_a_set(a in proptest::collection::btree_set(0u32..64, 0..64), b in proptest::collection::btree_set(0u32..64, 0..64)) {
        let (mask, other) = (GroupMask::of(a.clone()), GroupMask::of(b.clone()));
        let set = |mask: GroupMask| mask.iter().collect::<BTreeSet<u32>>();
        prop_assert_eq!(set(mask), a.clone());
        prop_assert_eq!(set(mask.union(other)), &a | &b);
        prop_assert_eq!(set(mask.minus(other)), &a - &b);
        prop_assert_eq!(set(mask.intersect(other)), &a & &b);
        prop_assert_eq!(mask.len() as usize, a.len());
        prop_assert_eq!(mask.lowest(), a.first().copied());
        for group in 0..70 { prop_assert_eq!(mask.contains(group), a.contains(&group)); }
    }
}

#[test]
fn masks_at_their_borders() {
    assert_eq!(GroupMask::all(0), GroupMask::EMPTY);
    assert_eq!(GroupMask::all(1), GroupMask(1));
    assert_eq!((GroupMask::all(64), GroupMask::all(1000)), (GroupMask(u64::MAX), GroupMask(u64::MAX)));
    let mut mask = GroupMask::EMPTY;
    mask.insert(64);
    mask.insert(63);
    mask.remove(u32::MAX);
    assert_eq!(mask, GroupMask(1 << 63));
    mask.remove(63);
    assert!(mask.is_empty() && mask.lowest().is_none());
}
