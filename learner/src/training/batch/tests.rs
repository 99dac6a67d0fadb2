//! Alignment by hand, limits, and how a batch is split.

use super::*;
use echo_sandbox::tasks::holdem::turns::{response_mask, shifted};

fn sequence(prompt: &[u32], response: &[u32], group: usize) -> Sequence {
    Sequence { prompt: prompt.to_vec(), response: response.to_vec(), heard: Vec::new(), group }
}

fn heard(after: usize, tokens: &[u32]) -> Heard {
    Heard { after, tokens: tokens.to_vec() }
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
fn only_the_policys_own_tokens_are_asked_for() {
    // Prompt 5 6, turn 7 8, heard 9, turn 1, heard nothing, turn 2 3; and a sequence of one turn after it.
    let several =
        Sequence { heard: vec![heard(2, &[9]), heard(3, &[])], ..sequence(&[5, 6], &[7, 8, 1, 2, 3], 0) };
    let sequences = [several, sequence(&[4], &[4, 4], 1)];
    assert_eq!(sequences[0].rows(), 7);
    let (packed, targets) = pack(&sequences, &[0, 1]).unwrap();
    assert_eq!(packed.ids(), [5, 6, 7, 8, 9, 1, 2, 4, 4]);
    assert_eq!(packed.sequences().collect::<Vec<_>>(), [0..7, 7..9]);
    let targets: Vec<(usize, u32)> = targets.iter().map(|t| (t.row, t.token)).collect();
    assert_eq!(targets, [(1, 7), (2, 8), (4, 1), (5, 2), (6, 3), (7, 4), (8, 4)]);
}

/// ECHO-2, eq. 18 to 22, on a conversation by hand: token 1 opens every message.
#[test]
fn targets_are_where_the_papers_mask_is() {
    // system, state, action | state, action | state, action
    let x = [1, 20, 1, 30, 1, 40, 41, 1, 31, 1, 42, 1, 32, 33, 1, 43, 44, 45];
    let mask = response_mask(&x, 1);
    // Of an assistant's message the policy says all but the opening token, which the
    // environment's text ends with.
    let own: Vec<usize> = (0..x.len()).filter(|&at| mask[at] && x[at] != 1).collect();
    assert_eq!(own, [5, 6, 10, 15, 16, 17]);
    let response: Vec<u32> = own.iter().map(|&at| x[at]).collect();
    let conversation = Sequence {
        heard: vec![heard(2, &x[7..10]), heard(3, &x[11..15])],
        ..sequence(&x[..5], &response, 0)
    };
    let (packed, targets) = pack(&[conversation], &[0]).unwrap();
    assert_eq!(packed.ids(), &x[..17]);
    // Aligned with y_t = x_{t+1}.
    let mask = shifted(&mask);
    let asked: Vec<usize> = (0..mask.len()).filter(|&row| mask[row] && x[row + 1] != 1).collect();
    assert_eq!(targets.iter().map(|target| target.row).collect::<Vec<_>>(), asked);
    assert!(targets.iter().all(|target| x[target.row + 1] == target.token));
}

#[test]
fn refuses_malformed_and_oversized_sequences() {
    let refused = |s: Sequence| pack(&[s], &[0]).unwrap_err();
    assert!(matches!(pack(&[], &[]), Err(BatchError::Packed(_))));
    assert!(matches!(refused(sequence(&[], &[1, 2], 0)), BatchError::NothingToPredict { row: 0 }));
    assert!(matches!(refused(sequence(&[1], &[], 0)), BatchError::NothingToPredict { row: 0 }));
    for misplaced in [vec![0], vec![2], vec![3], vec![1, 1], vec![1, 0]] {
        let heard = misplaced.iter().map(|&after| heard(after, &[1])).collect();
        let turns = Sequence { heard, ..sequence(&[1], &[2, 3], 0) };
        assert!(matches!(refused(turns), BatchError::Turns { row: 0 }), "{misplaced:?}");
    }
    let loud =
        Sequence { heard: vec![heard(1, &vec![1; MAX_SEQUENCE_TOKENS])], ..sequence(&[1], &[2, 3], 0) };
    assert!(matches!(refused(loud), BatchError::SequenceTooLong { .. }));
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
    // 7 | 5 | 4 joins 5 (it leaves 1, beside 7 it does not fit) | 3 joins 7 | 1 joins 5 + 4, as
    // both are full then.
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
