//! Micro-batches: a batch in parts that fit a token budget.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{BatchError, MAX_SEQUENCES, Sequence};

/// Splits a batch into micro-batches of at most `budget` tokens (AReaL, algorithm 1), at least
/// `min_parts` of them where there are as many sequences. Each part lists its sequences by index.
///
/// What is longest is placed first, each into the part that it leaves with the least
/// room. A sequence longer than the budget gets a part of its own: it must not end the
/// run. With `whole_groups`, the sequences of a group stay together. The result depends
/// on nothing but the arguments.
///
/// # Errors
/// [`BatchError`] when there is no sequence, too many, or one is malformed.
pub fn micro_batches(
    sequences: &[Sequence],
    budget: usize,
    min_parts: usize,
    whole_groups: bool,
) -> Result<Vec<Vec<usize>>, BatchError> {
    if sequences.is_empty() {
        return Err(BatchError::Empty);
    }
    if sequences.len() > MAX_SEQUENCES {
        return Err(BatchError::TooManySequences { sequences: sequences.len() });
    }
    // Before any sum of lengths: the limits keep those far from overflow.
    for (row, sequence) in sequences.iter().enumerate() {
        sequence.validate(row)?;
    }
    let mut parts: Vec<Part> = Vec::new();
    for unit in units(sequences, whole_groups) {
        let fits = |part: &&mut Part| part.tokens + unit.tokens <= budget;
        let fullest = match parts.len() < min_parts {
            true => None,
            false => parts.iter_mut().filter(fits).max_by_key(|part| (part.tokens, Reverse(part.members[0]))),
        };
        match fullest {
            Some(part) => {
                part.tokens += unit.tokens;
                part.members.extend(unit.members);
            }
            None => parts.push(unit),
        }
    }
    Ok(parts.into_iter().map(|part| part.members).collect())
}

struct Part {
    members: Vec<usize>,
    tokens: usize,
}

/// What stays together, longest first; equally long ones in order of appearance.
fn units(sequences: &[Sequence], whole_groups: bool) -> Vec<Part> {
    let mut units: BTreeMap<usize, Part> = BTreeMap::new();
    for (row, sequence) in sequences.iter().enumerate() {
        let key = if whole_groups { sequence.group } else { row };
        let unit = units.entry(key).or_insert(Part { members: Vec::new(), tokens: 0 });
        unit.members.push(row);
        unit.tokens += sequence.rows();
    }
    let mut units: Vec<Part> = units.into_values().collect();
    units.sort_by_key(|unit| (Reverse(unit.tokens), unit.members[0]));
    units
}
