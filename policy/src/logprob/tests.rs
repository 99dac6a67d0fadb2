use candle_core::{Device, Var};

use super::*;

fn logits(scale: f64) -> Var {
    let values: Vec<f32> = (0..2 * 3 * 300).map(|i| ((i as f64 * 1.37).sin() * scale) as f32).collect();
    Var::from_tensor(&Tensor::from_vec(values, (2, 3, 300), &Device::Cpu).unwrap()).unwrap()
}

fn weighted(values: &Tensor) -> Tensor {
    let weights = Tensor::new(&[[0.3f32, -1.0, 2.0], [0.7, 1.1, -0.4]], &Device::Cpu).unwrap();
    (values * weights).unwrap().sum_all().unwrap()
}

fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn assert_close(a: &Tensor, b: &Tensor, tolerance: f32) {
    for (a, b) in flat(a).iter().zip(flat(b)) {
        assert!((a - b).abs() < tolerance, "{a} {b}");
    }
}

#[test]
fn fused_values_and_gradients_are_the_composed_ones() {
    let targets = Tensor::new(&[[0u32, 299, 7], [3, 100, 200]], &Device::Cpu).unwrap();
    for scale in [1.0, 20.0] {
        let logits = logits(scale);
        let rows = logits.reshape((6, 300)).unwrap();
        let all = rows.broadcast_sub(&log_sum_exp(&rows).unwrap()).unwrap();
        let picked = all.gather(&targets.reshape((6, 1)).unwrap(), 1).unwrap().reshape((2, 3)).unwrap();
        let spread = (all.exp().unwrap() * &all).unwrap().sum(D::Minus1).unwrap().neg().unwrap();
        let spread = spread.reshape((2, 3)).unwrap();
        for (fused, composed) in
            [(token_logprobs(&logits, &targets).unwrap(), picked), (entropy(&logits).unwrap(), spread)]
        {
            assert_close(&fused, &composed, 2e-5);
            let fused = weighted(&fused).backward().unwrap();
            let composed = weighted(&composed).backward().unwrap();
            assert_close(fused.get(&logits).unwrap(), composed.get(&logits).unwrap(), 2e-5);
        }
    }
}

#[test]
fn extreme_logits_stay_finite() {
    let huge = Tensor::new(&[[[3e38f32, -3e38, 0.0], [f32::NEG_INFINITY, 0.0, 0.0]]], &Device::Cpu).unwrap();
    let huge = Var::from_tensor(&huge).unwrap();
    let targets = Tensor::new(&[[0u32, 1]], &Device::Cpu).unwrap();
    let logprobs = token_logprobs(&huge, &targets).unwrap();
    assert_close(&logprobs, &Tensor::new(&[0.0f32, -(2f32.ln())], &Device::Cpu).unwrap(), 1e-6);
    let entropies = entropy(&huge).unwrap();
    assert_close(&entropies, &Tensor::new(&[0.0f32, 2f32.ln()], &Device::Cpu).unwrap(), 1e-6);
    for loss in [logprobs, entropies] {
        let grads = loss.sum_all().unwrap().backward().unwrap();
        assert!(flat(grads.get(&huge).unwrap()).iter().all(|g| g.is_finite()));
    }
}

#[test]
fn targets_outside_of_the_vocabulary_are_refused() {
    let targets = Tensor::new(&[[0u32, 300, 7], [3, 100, 200]], &Device::Cpu).unwrap();
    assert!(token_logprobs(&logits(1.0), &targets).is_err());
}

#[test]
fn next_tokens_shifts_to_the_left() {
    let ids = Tensor::new(&[[1u32, 2, 3], [4, 5, 6]], &Device::Cpu).unwrap();
    assert_eq!(next_tokens(&ids).unwrap().to_vec2::<u32>().unwrap(), [[2, 3, 0], [5, 6, 0]]);
    let one = Tensor::new(&[[1u32]], &Device::Cpu).unwrap();
    assert_eq!(next_tokens(&one).unwrap().to_vec2::<u32>().unwrap(), [[0]]);
}
