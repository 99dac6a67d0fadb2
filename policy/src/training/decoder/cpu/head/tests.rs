use candle_core::Device;

use super::*;
use crate::training::decoder::cpu::parameters;
use crate::training::decoder::tests::families;

/// Scores, gradients of norm and weight, and gradient of the residual stream.
fn run(decoder: &Decoder, tile_rows: usize, tile_columns: usize, most_kept: usize) -> [Vec<f32>; 5] {
    let parameters = parameters::lock(decoder.vars());
    let weights = parameters::slices(&parameters).unwrap();
    let head =
        DecoderHead { tile_rows, tile_columns, most_kept, ..DecoderHead::new(decoder, &weights, None) };
    let x: Vec<f32> = (0..9 * head.hidden()).map(|i| (i as f32 * 0.37).sin()).collect();
    let targets: Vec<Target> =
        [0usize, 2, 3, 4, 5, 8].iter().map(|row| Target { row: *row, token: *row as u32 * 3 % 13 }).collect();
    let mut scratch = HeadScratch::default();
    let (scores, normalisers) = head.score(&x, &targets, &mut scratch);
    let d_logp: Vec<f32> = (0..6).map(|i| (i as f32).cos()).collect();
    let d_entropy: Vec<f32> = (0..6).map(|i| (i as f32).sin()).collect();
    let slopes = Slopes { targets: &targets, scores: &scores, d_logp: &d_logp, d_entropy: Some(&d_entropy) };
    let mut d = vec![0.0; x.len()];
    let mut gradients: Vec<Vec<f32>> = weights.iter().map(|values| vec![0.0; values.len()]).collect();
    let mut slices: Vec<&mut [f32]> = gradients.iter_mut().map(Vec::as_mut_slice).collect();
    head.backward(&x, &normalisers, slopes, &mut d, &mut slices, &mut scratch);
    let (norm, weight) = (head.norm_place, head.weight_place);
    [
        scores.logp,
        scores.entropy,
        gradients.swap_remove(norm.max(weight)),
        gradients.swap_remove(norm.min(weight)),
        d,
    ]
}

#[test]
fn borders_of_tiles_do_not_matter() {
    for (config, weights) in families() {
        let decoder = Decoder::trainable(&config, &weights, &Device::Cpu).unwrap();
        let whole = run(&decoder, 512, 2048, 0);
        for (rows, columns) in [(1, 1), (2, 5), (4, 13), (6, 4)] {
            for (part, (tiled, whole)) in run(&decoder, rows, columns, 0).iter().zip(&whole).enumerate() {
                for (a, b) in tiled.iter().zip(whole) {
                    assert!((a - b).abs() < 1e-5 * (1.0 + b.abs()), "{rows} {columns} {part}: {a} {b}");
                }
            }
        }
    }
}

#[test]
fn kept_logits_are_those_that_would_be_computed_again() {
    for (config, weights) in families() {
        let decoder = Decoder::trainable(&config, &weights, &Device::Cpu).unwrap();
        let again = run(&decoder, 2, 5, 0);
        // With fewer than there are none is kept, else all.
        for kept in [1, 4, 100] {
            assert_eq!(run(&decoder, 2, 5, kept), again, "{kept}");
        }
    }
}
