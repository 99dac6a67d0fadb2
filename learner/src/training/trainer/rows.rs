//! What a policy says of sequences, sequence by sequence.

use super::TrainError;
use crate::training::batch::{Sequence, micro_batches, pack};
use echo_policy::training::decoder::{Decoder, Scores};
use echo_policy::training::flops::ScoringWork;

/// What a policy says of one sequence's response tokens.
pub(super) struct ResponseScores {
    pub(super) logp: Vec<f64>,
    pub(super) entropy: Vec<f64>,
}

/// The scores of a part, by sequence.
pub(super) fn rows(scores: &Scores, sequences: &[Sequence], part: &[usize]) -> Vec<ResponseScores> {
    let mut at = 0;
    let wide = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect();
    let of_sequence = |&index: &usize| {
        let range = at..at + sequences[index].response.len();
        at = range.end;
        ResponseScores { logp: wide(&scores.logp[range.clone()]), entropy: wide(&scores.entropy[range]) }
    };
    part.iter().map(of_sequence).collect()
}

/// log π of every sequence's response tokens, at most `budget` tokens at a time. Adds to
/// `work` what it computed.
pub(super) fn scores(
    decoder: &Decoder,
    sequences: &[Sequence],
    budget: usize,
    work: &mut ScoringWork,
) -> Result<Vec<Vec<f64>>, TrainError> {
    let mut all = vec![Vec::new(); sequences.len()];
    for part in &micro_batches(sequences, budget, 1, false)? {
        let (packed, targets) = pack(sequences, part)?;
        let scores = decoder.score(&packed, &targets)?;
        *work += ScoringWork::of(&packed, &targets);
        part.iter().zip(rows(&scores, sequences, part)).for_each(|(&index, row)| all[index] = row.logp);
    }
    Ok(all)
}
