//! Alignment by hand, limits, and that any split gives the loss and gradient of the whole.

use candle_core::{DType, Tensor, Var};

use super::*;
use crate::objective::{AdvantageRule, DecoupledPpo, Gepo, Objective};

fn sequence(prompt: &[u32], response: &[u32], group: usize) -> Sequence {
    Sequence {
        prompt: prompt.to_vec(),
        response: response.to_vec(),
        behaviour_logp: response.iter().map(|&id| -0.1 * id as f32).collect(),
        group,
        advantage: 0.0,
    }
}

#[test]
fn position_t_predicts_token_t_plus_one() {
    let (long, short) = (sequence(&[5, 6, 7], &[8, 9], 4), sequence(&[1], &[2], 5));
    let batch = PaddedBatch::new(&[&long, &short], &Device::Cpu).unwrap();
    assert_eq!(batch.ids.to_vec2::<u32>().unwrap(), [[5, 6, 7, 8], [1, 0, 0, 0]]);
    assert_eq!(batch.targets.to_vec2::<u32>().unwrap(), [[6, 7, 8, 9], [2, 0, 0, 0]]);
    assert_eq!(batch.mask.to_vec2::<u8>().unwrap(), [[0, 0, 1, 1], [1, 0, 0, 0]]);
    let behaviour = batch.behaviour_logp.to_vec2::<f32>().unwrap();
    assert_eq!(behaviour, [[0.0, 0.0, -0.1 * 8.0, -0.1 * 9.0], [-0.1 * 2.0, 0.0, 0.0, 0.0]]);
    assert_eq!((batch.groups, batch.lengths, batch.response_tokens), (vec![4, 5], vec![4, 1], 3));
}

#[test]
fn an_empty_response_is_a_row_without_a_trained_position() {
    let batch = PaddedBatch::new(&[&sequence(&[1, 2], &[], 0)], &Device::Cpu).unwrap();
    assert_eq!(batch.mask.to_vec2::<u8>().unwrap(), [[0]]);
    assert_eq!(batch.response_tokens, 0);
}

#[test]
fn refuses_malformed_and_oversized_sequences() {
    let build = |s: &Sequence| PaddedBatch::new(&[s], &Device::Cpu).unwrap_err();
    assert!(matches!(PaddedBatch::new(&[], &Device::Cpu), Err(BatchError::Empty)));
    assert!(matches!(build(&sequence(&[], &[1, 2], 0)), BatchError::NothingToPredict { row: 0 }));
    assert!(matches!(build(&sequence(&[1], &[], 0)), BatchError::NothingToPredict { row: 0 }));
    let mut short = sequence(&[1], &[2, 3], 0);
    short.behaviour_logp.pop();
    assert!(matches!(build(&short), BatchError::Misaligned { response: 2, logp: 1, .. }));
    let long = sequence(&vec![1; MAX_SEQUENCE_TOKENS], &[1], 0);
    assert!(matches!(build(&long), BatchError::SequenceTooLong { .. }));
    // One long row makes every short one expensive: the limit is on what the padding allocates.
    let (long, short) = (sequence(&vec![1; MAX_SEQUENCE_TOKENS - 1], &[1], 0), sequence(&[1], &[1], 0));
    let mut rows = vec![&short; MAX_PADDED_TOKENS / MAX_SEQUENCE_TOKENS + 1];
    rows.push(&long);
    assert!(matches!(PaddedBatch::new(&rows, &Device::Cpu), Err(BatchError::TooLarge { .. })));
}

/// Four groups of three with lengths from 1 to 6, members not adjacent, one response empty.
fn batch() -> Vec<Sequence> {
    let mut sequences: Vec<Sequence> = (0..12u32)
        .map(|i| {
            let response: Vec<u32> = (0..(i * 5) % 7).map(|t| 1 + (i + t) % 9).collect();
            sequence(&[3, 4], &response, i as usize % 4)
        })
        .collect();
    let groups: Vec<usize> = sequences.iter().map(|s| s.group).collect();
    let rewards: Vec<f64> = (0..12).map(|i| f64::from(i * i % 5)).collect();
    let advantages = AdvantageRule::GroupMean.advantages(&rewards, &groups).unwrap();
    sequences.iter_mut().zip(advantages).for_each(|(s, a)| s.advantage = a);
    sequences
}

/// Loss and gradient of a split, with log-probabilities that are a smooth function of one weight per token id.
fn train(sequences: &[Sequence], budget: usize, objective: &dyn Objective) -> (usize, f64, Vec<f64>) {
    let weights =
        Var::from_vec((0..10).map(|i| -0.1 - 0.13 * f64::from(i)).collect(), 10, &Device::Cpu).unwrap();
    let parts = split_by_tokens(sequences, budget, &Device::Cpu).unwrap();
    let mut loss = Tensor::zeros((), DType::F64, &Device::Cpu).unwrap();
    for part in &parts {
        assert!(part.batch.ids.elem_count() <= budget);
        let flat = part.batch.targets.flatten_all().unwrap();
        let logp = weights.index_select(&flat, 0).unwrap().reshape(part.batch.targets.shape()).unwrap();
        let proximal = (logp.detach() * 1.1).unwrap();
        let input = part.batch.objective_input(logp, Some(proximal), None);
        let scaled = objective.loss(&input).unwrap().loss * part.share(objective.aggregation());
        loss = (loss + scaled.unwrap()).unwrap();
    }
    let gradients = loss.backward().unwrap();
    (parts.len(), loss.to_scalar().unwrap(), gradients.get(&weights).unwrap().to_vec1().unwrap())
}

#[test]
fn any_split_has_the_loss_and_gradient_of_the_whole() {
    let sequences = batch();
    for objective in
        [&Gepo { cppo_kl_beta: 0.1, ..Gepo::default() } as &dyn Objective, &DecoupledPpo::default()]
    {
        let (parts, loss, gradient) = train(&sequences, 1000, objective);
        assert_eq!(parts, 1);
        for (budget, expected) in [(21, 4), (42, 2)] {
            let (parts, split_loss, split_gradient) = train(&sequences, budget, objective);
            assert_eq!(parts, expected);
            assert!((loss - split_loss).abs() < 1e-12, "{} {loss} {split_loss}", objective.name());
            assert!(gradient.iter().zip(&split_gradient).all(|(a, b)| (a - b).abs() < 1e-12));
        }
        assert!(gradient.iter().any(|g| g.abs() > 1e-3));
    }
}

#[test]
fn groups_stay_whole_and_every_row_appears_once() {
    let sequences = batch();
    let parts = split_by_tokens(&sequences, 21, &Device::Cpu).unwrap();
    let mut rows: Vec<usize> = parts.iter().flat_map(|p| p.rows.clone()).collect();
    rows.sort_unstable();
    assert_eq!(rows, (0..12).collect::<Vec<_>>());
    for group in 0..4 {
        assert_eq!(parts.iter().filter(|p| p.batch.groups.contains(&group)).count(), 1);
    }
    let again = split_by_tokens(&sequences, 21, &Device::Cpu).unwrap();
    assert!(parts.iter().zip(&again).all(|(a, b)| a.rows == b.rows));
}

#[test]
fn a_group_beyond_the_budget_is_named() {
    let error = split_by_tokens(&batch(), 20, &Device::Cpu).unwrap_err();
    assert!(matches!(error, BatchError::GroupTooLarge { padded: 21, budget: 20, .. }), "{error}");
}
