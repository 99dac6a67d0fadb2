//! Alignment by hand, limits, and how a batch is split.

use super::*;

fn sequence(prompt: &[u32], response: &[u32], group: usize) -> Sequence {
    Sequence { prompt: prompt.to_vec(), response: response.to_vec(), group }
}

#[test]
fn row_t_predicts_token_t_plus_one() {
    let sequences = [sequence(&[5, 6, 7], &[8, 9], 4), sequence(&[1], &[2], 5), sequence(&[3, 4], &[], 5)];
    let (packed, targets) = pack(&sequences, &[0, 1, 2]).unwrap();
    assert_eq!(packed.ids(), [5, 6, 7, 8, 1, 3]);
    assert_eq!(packed.sequences().collect::<Vec<_>>(), [0..4, 4..5, 5..6]);
    let targets: Vec<(usize, u32)> = targets.iter().map(|t| (t.row, t.token)).collect();
    assert_eq!(targets, [(2, 8), (3, 9), (4, 2)], "an empty response asks for nothing");
    assert_eq!(pack(&sequences, &[2, 1]).unwrap().0.ids(), [3, 1]);
}

#[test]
fn refuses_malformed_and_oversized_sequences() {
    let refused = |s: Sequence| pack(&[s], &[0]).unwrap_err();
    assert!(matches!(pack(&[], &[]), Err(BatchError::Packed(_))));
    assert!(matches!(refused(sequence(&[], &[1, 2], 0)), BatchError::NothingToPredict { row: 0 }));
    assert!(matches!(refused(sequence(&[1], &[], 0)), BatchError::NothingToPredict { row: 0 }));
    let long = sequence(&vec![1; MAX_SEQUENCE_TOKENS], &[1], 0);
    assert!(matches!(refused(long.clone()), BatchError::SequenceTooLong { .. }));
    assert!(matches!(micro_batches(&[long], 10, 1, false), Err(BatchError::SequenceTooLong { .. })));
}

/// One sequence of each length in rows, with the group `index % groups`.
fn batch(rows: &[usize], groups: usize) -> Vec<Sequence> {
    rows.iter().enumerate().map(|(i, &n)| sequence(&[1], &vec![2; n], i % groups)).collect()
}

#[test]
fn the_longest_come_first_and_fill_the_fullest_part_that_has_room() {
    // 7 | 5 | 4 joins 5 (it leaves 1, beside 7 it does not fit) | 3 joins 7 | 1 joins 5 + 4, as both are full then.
    let parts = micro_batches(&batch(&[1, 3, 4, 5, 7], 5), 10, 1, false).unwrap();
    assert_eq!(parts, [vec![4, 1], vec![3, 2, 0]]);
}

#[test]
fn as_many_parts_as_asked_for_and_none_for_nothing() {
    assert_eq!(micro_batches(&batch(&[2, 2, 2], 3), 100, 2, false).unwrap(), [vec![0, 2], vec![1]]);
    assert_eq!(micro_batches(&batch(&[2], 1), 100, 8, false).unwrap(), [vec![0]]);
    assert!(matches!(micro_batches(&[], 100, 1, false), Err(BatchError::Empty)));
}

#[test]
fn what_is_longer_than_the_budget_has_a_part_of_its_own() {
    assert_eq!(micro_batches(&batch(&[50, 3, 4], 3), 10, 1, false).unwrap(), [vec![0], vec![2, 1]]);
}

#[test]
fn groups_stay_whole_where_they_must() {
    let sequences = batch(&[1, 2, 3, 4, 5, 6, 7, 8], 4);
    let parts = micro_batches(&sequences, 20, 1, true).unwrap();
    assert_eq!(parts, [vec![3, 7, 1, 5], vec![2, 6, 0, 4]]);
}
