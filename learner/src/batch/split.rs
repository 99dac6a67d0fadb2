//! Micro-batches: a batch in parts that fit a token budget, and whose losses add up to the batch's loss.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use candle_core::Device;

use super::{BatchError, MAX_SEQUENCES, PaddedBatch, Sequence};
use crate::objective::Aggregation;

/// A part of a batch.
#[derive(Debug, Clone)]
pub struct MicroBatch {
    /// Index in the batch of each row of `batch`.
    pub rows: Vec<usize>,
    /// The padded part.
    pub batch: PaddedBatch,
    /// This part's share of the batch's responses.
    response_share: f64,
    /// This part's share of the batch's response tokens; zero when the batch has none.
    token_share: f64,
}

impl MicroBatch {
    /// What to multiply this part's loss by, so that the sum over all parts is the loss of the whole batch.
    #[must_use]
    pub fn share(&self, aggregation: Aggregation) -> f64 {
        match aggregation {
            Aggregation::PerResponse => self.response_share,
            Aggregation::PerToken => self.token_share,
        }
    }
}

struct Group {
    tag: usize,
    rows: Vec<usize>,
    width: usize,
}

/// Splits a batch into micro-batches of at most `budget` positions, padding included.
///
/// Groups stay whole, since GEPO's expectation is over a group. They are placed widest first, each into the first
/// part with room, so that rows of similar length share a part. The result depends on nothing but the arguments.
///
/// # Errors
/// [`BatchError::GroupTooLarge`] when a group alone exceeds the budget, else as [`PaddedBatch::new`].
pub fn split_by_tokens(
    sequences: &[Sequence],
    budget: usize,
    device: &Device,
) -> Result<Vec<MicroBatch>, BatchError> {
    if sequences.is_empty() {
        return Err(BatchError::Empty);
    }
    if sequences.len() > MAX_SEQUENCES {
        return Err(BatchError::TooManySequences { sequences: sequences.len() });
    }
    // Before any sum or product of lengths: the limits keep those far from overflow.
    for (row, sequence) in sequences.iter().enumerate() {
        sequence.validate(row)?;
    }
    let tokens: usize = sequences.iter().map(|s| s.response.len()).sum();
    place(groups(sequences), budget)?
        .into_iter()
        .map(|rows| {
            let part: Vec<&Sequence> = rows.iter().map(|&row| &sequences[row]).collect();
            let batch = PaddedBatch::new(&part, device)?;
            Ok(MicroBatch {
                response_share: rows.len() as f64 / sequences.len() as f64,
                token_share: batch.response_tokens as f64 / tokens.max(1) as f64,
                rows,
                batch,
            })
        })
        .collect()
}

/// The groups of a batch, widest first; equally wide ones in order of appearance.
fn groups(sequences: &[Sequence]) -> Vec<Group> {
    let mut by_tag: BTreeMap<usize, Group> = BTreeMap::new();
    for (row, sequence) in sequences.iter().enumerate() {
        let empty = || Group { tag: sequence.group, rows: Vec::new(), width: 0 };
        let group = by_tag.entry(sequence.group).or_insert_with(empty);
        group.rows.push(row);
        group.width = group.width.max(sequence.positions());
    }
    let mut groups: Vec<Group> = by_tag.into_values().collect();
    groups.sort_by_key(|group| (Reverse(group.width), group.rows[0]));
    groups
}

/// Rows of each part. The first group of a part is its widest, so it sets the part's width.
fn place(groups: Vec<Group>, budget: usize) -> Result<Vec<Vec<usize>>, BatchError> {
    let mut parts: Vec<Group> = Vec::new();
    for group in groups {
        let padded = group.rows.len() * group.width;
        if padded > budget {
            return Err(BatchError::GroupTooLarge { group: group.tag, padded, budget });
        }
        let fits = |part: &&mut Group| (part.rows.len() + group.rows.len()) * part.width <= budget;
        match parts.iter_mut().find(fits) {
            Some(part) => part.rows.extend(group.rows),
            None => parts.push(group),
        }
    }
    Ok(parts.into_iter().map(|part| part.rows).collect())
}
