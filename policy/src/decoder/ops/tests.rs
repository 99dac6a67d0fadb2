use candle_core::{Device, Tensor, Var};

use super::attention::{self, Attention};
use super::*;
use crate::config::{ModelConfig, TinySizes};
use crate::decoder::layer::Rotary;

/// Values and gradients of all inputs of `f`, the output being weighted so that every element matters differently.
fn values_and_gradients(vars: &[Var], f: impl Fn(&[Tensor]) -> Result<Tensor>) -> Vec<Vec<f32>> {
    let inputs: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
    let y = f(&inputs).unwrap();
    let flat = y.flatten_all().unwrap();
    let count = flat.elem_count();
    let weights: Vec<f32> = (0..count).map(|i| (i as f32 * 0.7).cos()).collect();
    let weights = Tensor::from_vec(weights, count, &Device::Cpu).unwrap();
    let grads = (&flat * weights).unwrap().sum_all().unwrap().backward().unwrap();
    let mut all = vec![flat.to_vec1::<f32>().unwrap()];
    for var in vars {
        let grad = grads.get(var).expect("every input has a gradient");
        all.push(grad.flatten_all().unwrap().to_vec1().unwrap());
    }
    all
}

fn input(shape: &[usize], phase: f32) -> Var {
    let count = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..count).map(|i| (i as f32 * 1.3 + phase).sin() * 1.5).collect();
    Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap()
}

fn assert_close(fused: Vec<Vec<f32>>, composed: Vec<Vec<f32>>) {
    for (part, (a, b)) in fused.iter().zip(&composed).enumerate() {
        assert!(b.iter().any(|v| *v != 0.0), "part {part} is zero");
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() <= 2e-5 * (1.0 + b.abs()), "part {part}: {a} {b}");
        }
    }
}

#[test]
fn rms_norm_fused_is_the_composed_one() {
    for shape in [[5usize, 24], [2000, 24]] {
        let vars = [input(&shape, 0.1), input(&[8], 0.9)];
        assert_close(
            values_and_gradients(&vars, |x| rms_norm(&x[0], &x[1], 1e-5)),
            values_and_gradients(&vars, |x| super::rms_norm::composed(&x[0], &x[1], 1e-5)),
        );
    }
}

#[test]
fn swiglu_fused_is_the_composed_one() {
    let vars = [input(&[7, 30], 0.1), input(&[7, 30], 0.4)];
    assert_close(
        values_and_gradients(&vars, |x| swiglu(&x[0], &x[1])),
        values_and_gradients(&vars, |x| super::swiglu::composed(&x[0], &x[1])),
    );
}

#[test]
fn rope_fused_is_the_composed_one() {
    let (cos, sin): (Vec<f32>, Vec<f32>) = (0..15).map(|i| ((i as f32).cos(), (i as f32).sin())).unzip();
    let table = |v: &[f32]| Tensor::from_slice(v, (1, 5, 1, 3), &Device::Cpu).unwrap();
    let tables = (table(&cos), table(&sin));
    let rotary = Rotary::new(2, 5, cos, sin, &Device::Cpu).unwrap();
    let vars = [input(&[10, 12], 0.2)];
    assert_close(
        values_and_gradients(&vars, |x| rope(&x[0], 6, &rotary)),
        values_and_gradients(&vars, |x| super::rope::composed(&x[0], 6, &rotary, &tables.0, &tables.1)),
    );
}

#[test]
fn attention_fused_is_the_composed_one() {
    let sizes = TinySizes {
        vocab: 8,
        hidden: 8,
        layers: 1,
        heads: 4,
        kv_heads: 2,
        head_dim: 6,
        intermediate: 8,
        positions: 16,
    };
    let config = ModelConfig::tiny_qwen3(sizes).unwrap();
    let rotary = Rotary::new(3, 7, vec![0.0; 21], vec![0.0; 21], &Device::Cpu).unwrap();
    let op = Attention { sequences: 3, length: 7, heads: 4, kv_heads: 2, head_dim: 6 };
    let vars = [input(&[21, 24], 0.1), input(&[21, 12], 0.5), input(&[21, 12], 0.8)];
    assert_close(
        values_and_gradients(&vars, |x| super::attention(&x[0], &x[1], &x[2], &config, &rotary)),
        values_and_gradients(&vars, |x| attention::composed(&x[0], &x[1], &x[2], &op)),
    );
}
