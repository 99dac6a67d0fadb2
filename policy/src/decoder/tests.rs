use candle_core::{Device, Tensor};

use super::*;
use crate::logprob;

/// A small model of each family, with every optional part that the family can have.
pub(crate) fn families() -> Vec<(ModelConfig, Weights)> {
    [
        ("qwen3", r#","head_dim":6,"tie_word_embeddings":true"#),
        ("qwen3", r#","head_dim":8,"attention_bias":true"#),
        ("qwen2", r#","tie_word_embeddings":false"#),
        (
            "llama",
            r#","attention_bias":true,"mlp_bias":true,"rope_parameters":{"rope_theta":10000.0,"rope_type":"llama3",
            "factor":4.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":16}"#,
        ),
    ]
    .into_iter()
    .map(|(kind, extra)| {
        let text = format!(
            r#"{{"model_type":"{kind}","vocab_size":13,"hidden_size":16,"intermediate_size":20,"num_hidden_layers":2,
            "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":64,"initializer_range":0.3{extra}}}"#
        );
        let config = ModelConfig::from_json(&text).unwrap();
        let weights = Weights::random(&config, 11);
        // Norms of 1 and biases of 0 would hide mistakes in their use.
        let raw: Vec<RawTensor> = weights
            .iter()
            .map(|tensor| {
                let mut values = tensor.to_f32();
                if tensor.shape().len() == 1 {
                    values.iter_mut().enumerate().for_each(|(i, v)| *v += 0.3 * (i as f32 * 1.7).sin());
                }
                RawTensor::from_f32(tensor.name(), tensor.shape(), &values, DType::F32)
            })
            .collect();
        let weights = Weights::from_raw(&config, raw).unwrap();
        (config, weights)
    })
    .collect()
}

fn ids() -> Tensor {
    Tensor::new(&[[1u32, 5, 2, 9, 12, 3], [7, 7, 0, 4, 11, 8]], &Device::Cpu).unwrap()
}

/// A loss in which every log-prob and entropy has its own weight.
fn loss(decoder: &Decoder) -> Tensor {
    let ids = ids();
    let logits = decoder.logits(&decoder.forward(&ids).unwrap()).unwrap();
    let logprobs = logprob::token_logprobs(&logits, &logprob::next_tokens(&ids).unwrap()).unwrap();
    let entropies = logprob::entropy(&logits).unwrap();
    let weights: Vec<f32> = (0..12).map(|i| (i as f32 * 0.9).cos()).collect();
    let weights = Tensor::from_vec(weights, (2, 6), &Device::Cpu).unwrap();
    let total = ((logprobs * &weights).unwrap() + (entropies * weights.sqr().unwrap()).unwrap()).unwrap();
    total.sum_all().unwrap()
}

/// candle drops gradients of some operations without a word: this is the test that would notice.
#[test]
fn every_gradient_agrees_with_finite_differences() {
    for (config, weights) in families() {
        let decoder = Decoder::trainable(&config, &weights, &Device::Cpu).unwrap();
        let grads = loss(&decoder).backward().unwrap();
        for (name, var) in decoder.vars() {
            let gradient: Vec<f32> = grads.get(var).expect(name).flatten_all().unwrap().to_vec1().unwrap();
            let norm = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            assert!(norm > 1e-4, "{name}: gradient norm {norm}");
            // Along the gradient itself and along a fixed direction that has nothing to do with it.
            let along = gradient.iter().map(|g| g / norm as f32).collect::<Vec<f32>>();
            let length = (gradient.len() as f32).sqrt();
            let across = (0..gradient.len()).map(|i| (i as f32 * 2.3 + 1.0).sin() / length).collect();
            for direction in [along, across] {
                let exact: f64 =
                    gradient.iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
                let start = var.as_tensor().copy().unwrap();
                let direction = Tensor::from_vec(direction, var.shape(), &Device::Cpu).unwrap();
                let at = |step: f64| {
                    var.set(&(&start + (&direction * step).unwrap()).unwrap()).unwrap();
                    f64::from(loss(&decoder).to_scalar::<f32>().unwrap())
                };
                // Five points: the error is of fourth order, so that a large step may drown f32's noise.
                let h = 0.02;
                let measured = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
                var.set(&start).unwrap();
                let error = (measured - exact).abs();
                let family = config.family;
                assert!(
                    error < 0.01 * exact.abs() + 0.003 * norm + 1e-3,
                    "{family:?} {name}: {measured} {exact}"
                );
            }
        }
    }
}

#[test]
fn right_padding_does_not_reach_real_tokens() {
    for (config, weights) in families() {
        let decoder = Decoder::trainable(&config, &weights, &Device::Cpu).unwrap();
        let hidden = |row: [u32; 4]| {
            let ids = Tensor::new(&[row], &Device::Cpu).unwrap();
            decoder.forward(&ids).unwrap().narrow(1, 0, 2).unwrap().get(0).unwrap().to_vec2::<f32>().unwrap()
        };
        assert_eq!(hidden([3, 4, 0, 0]), hidden([3, 4, 9, 1]));
    }
}

#[test]
fn long_sequences_take_the_composed_attention_and_agree() {
    let (mut config, _) = families().remove(0);
    config.max_position_embeddings = 512;
    let decoder = Decoder::trainable(&config, &Weights::random(&config, 4), &Device::Cpu).unwrap();
    let tokens: Vec<u32> = (0..300).map(|i| i * 7 % 13).collect();
    let run = |length: usize| {
        let ids = Tensor::from_slice(&tokens[..length], (1, length), &Device::Cpu).unwrap();
        decoder
            .forward(&ids)
            .unwrap()
            .narrow(1, 0, 200)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1::<f32>()
            .unwrap()
    };
    for (fused, composed) in run(200).iter().zip(run(300)) {
        assert!((fused - composed).abs() < 1e-4, "{fused} {composed}");
    }
}

#[test]
fn weights_come_out_as_they_went_in() {
    for (config, weights) in families() {
        let decoder = Decoder::trainable(&config, &weights, &Device::Cpu).unwrap();
        let again = decoder.to_weights(DType::F32).unwrap();
        assert!(weights.iter().zip(again.iter()).all(|(a, b)| a.bytes() == b.bytes()));
    }
}

#[test]
fn misuse_is_an_error() {
    let mut families = families();
    let (other, _) = families.remove(2);
    let (config, weights) = families.remove(0);
    assert!(Decoder::trainable(&other, &weights, &Device::Cpu).is_err());
    let decoder = Decoder::trainable(&config, &weights, &Device::Cpu).unwrap();
    let long = Tensor::zeros((1, 65), CandleType::U32, &Device::Cpu).unwrap();
    assert!(matches!(decoder.forward(&long), Err(DecoderError::TooLong { .. })));
    let unknown = Tensor::new(&[[99u32]], &Device::Cpu).unwrap();
    assert!(decoder.forward(&unknown).is_err());
}
