use candle_core::{Device, Tensor};

use super::*;

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

fn decoder(config: &ModelConfig, weights: &Weights) -> Decoder {
    Decoder::trainable(config, weights, &Device::Cpu).unwrap()
}

/// The same decoder in both implementations.
fn engines(config: &ModelConfig, weights: &Weights) -> [Decoder; 2] {
    engines_at(1.0, config, weights)
}

fn engines_at(temperature: f32, config: &ModelConfig, weights: &Weights) -> [Decoder; 2] {
    let decoder = || decoder(config, weights).with_temperature(temperature);
    [Engine::Cpu, Engine::Autograd].map(|engine| Decoder { engine, ..decoder() })
}

fn sequences() -> [&'static [u32]; 4] {
    [&[1, 5, 2, 9, 12, 3], &[7, 7, 0, 4], &[6], &[11, 8, 3, 10]]
}

/// Every next token, and the last row of each sequence too.
fn pack() -> (Packed, Vec<Target>) {
    let packed = Packed::of(&sequences()).unwrap();
    let targets = (0..packed.ids().len()).map(|row| Target { row, token: (row as u32 * 5 + 1) % 13 });
    let targets = targets.collect();
    (packed, targets)
}

/// Derivatives of a loss in which every score has its own weight.
fn slopes(count: usize) -> (Vec<f32>, Vec<f32>) {
    let weight = |i: usize| (i as f32 * 0.9).cos();
    ((0..count).map(weight).collect(), (0..count).map(|i| weight(i).powi(2)).collect())
}

fn loss(decoder: &Decoder) -> f64 {
    let (packed, targets) = pack();
    let scores = decoder.score(&packed, &targets).unwrap();
    let (d_logp, d_entropy) = slopes(targets.len());
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(&scores.logp, &d_logp) + dot(&scores.entropy, &d_entropy)
}

fn gradients(decoder: &Decoder, activations: Activations) -> Vec<Vec<f32>> {
    let (packed, targets) = pack();
    let mut gradients = Gradients::zeros(decoder).unwrap();
    let (d_logp, d_entropy) = slopes(targets.len());
    let scored = decoder.score_for_training(&packed, &targets, activations).unwrap();
    assert_eq!(*scored.scores(), decoder.score(&packed, &targets).unwrap());
    scored.backward(&d_logp, Some(&d_entropy), &mut gradients).unwrap();
    values(&gradients)
}

fn values(gradients: &Gradients) -> Vec<Vec<f32>> {
    let host = |gradient: &Gradient| match gradient {
        Gradient::Host(values) => values.clone(),
        Gradient::Device(tensor) => tensor.flatten_all().unwrap().to_vec1().unwrap(),
    };
    gradients.buffers().iter().map(host).collect()
}

fn assert_close(a: &[f32], b: &[f32], tolerance: f32, what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}: {a} {b}");
    }
}

/// A gradient that is missing or wrong ruins a training run without a word: this is the
/// test that would notice.
#[test]
fn every_gradient_agrees_with_finite_differences() {
    for (config, weights) in families() {
        for decoder in engines(&config, &weights).into_iter().chain(engines_at(0.7, &config, &weights)) {
            let gradients = gradients(&decoder, Activations::Recompute);
            for ((name, var), gradient) in decoder.vars().iter().zip(gradients) {
                check_gradient(&decoder, name, var, &gradient);
            }
        }
    }
}

fn check_gradient(decoder: &Decoder, name: &str, var: &Var, gradient: &[f32]) {
    let norm = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
    assert!(norm > 1e-4, "{name}: gradient norm {norm}");
    // Along the gradient itself and along a fixed direction that has nothing to do with it.
    let along = gradient.iter().map(|g| g / norm as f32).collect::<Vec<f32>>();
    let length = (gradient.len() as f32).sqrt();
    let across = (0..gradient.len()).map(|i| (i as f32 * 2.3 + 1.0).sin() / length).collect();
    for direction in [along, across] {
        let exact: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
        let start = var.as_tensor().copy().unwrap();
        let direction = Tensor::from_vec(direction, var.shape(), &Device::Cpu).unwrap();
        let at = |step: f64| {
            var.set(&(&start + (&direction * step).unwrap()).unwrap()).unwrap();
            loss(decoder)
        };
        // Five points: the error is of fourth order, so that a large step may drown f32's noise.
        let h = 0.02;
        let measured = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
        var.set(&start).unwrap();
        let error = (measured - exact).abs();
        let (engine, family) = (decoder.engine, decoder.config.family);
        assert!(
            error < 0.01 * exact.abs() + 0.003 * norm + 1e-3,
            "{engine:?} {family:?} {name}: {measured} {exact}"
        );
    }
}

#[test]
fn both_implementations_give_the_same_numbers() {
    for (config, weights) in families() {
        let [cpu, autograd] = engines(&config, &weights);
        let (packed, targets) = pack();
        let scores = [&cpu, &autograd].map(|decoder| decoder.score(&packed, &targets).unwrap());
        assert_close(&scores[0].logp, &scores[1].logp, 1e-5, "log-probs");
        assert_close(&scores[0].entropy, &scores[1].entropy, 1e-5, "entropies");
        let rows = [0, 4, 9];
        let logits = [&cpu, &autograd].map(|decoder| decoder.logits(&packed, &rows).unwrap());
        assert_close(&logits[0], &logits[1], 1e-5, "logits");
        let found = [&cpu, &autograd].map(|decoder| gradients(decoder, Activations::Keep));
        for (((name, _), a), b) in cpu.vars().iter().zip(&found[0]).zip(&found[1]) {
            assert_close(a, b, 2e-5, name);
        }
    }
}

#[test]
fn scores_are_those_of_the_temperature() {
    let (packed, targets) = pack();
    for (config, weights) in families() {
        for decoder in engines_at(0.6, &config, &weights) {
            let (engine, scores) = (decoder.engine, decoder.score(&packed, &targets).unwrap());
            for (target, (logp, entropy)) in targets.iter().zip(scores.logp.iter().zip(&scores.entropy)) {
                // Logits themselves know of no temperature.
                let logits = decoder.logits(&packed, &[target.row]).unwrap();
                let exps: Vec<f64> = logits.iter().map(|logit| (f64::from(*logit) / 0.6).exp()).collect();
                let total: f64 = exps.iter().sum();
                let expected = (exps[target.token as usize] / total).ln();
                let uncertainty: f64 = exps.iter().map(|exp| exp / total).map(|p| -p * p.ln()).sum();
                assert!((f64::from(*logp) - expected).abs() < 1e-5, "{engine:?}: {logp} {expected}");
                assert!(
                    (f64::from(*entropy) - uncertainty).abs() < 1e-5,
                    "{engine:?}: {entropy} {uncertainty}"
                );
            }
        }
    }
}

/// Distance of two vectors, as a share of the second's length.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let wide = |x: &f32| f64::from(*x);
    let apart = length(&mut a.iter().zip(b).map(|(a, b)| wide(a) - wide(b)));
    apart / length(&mut b.iter().map(wide))
}

/// The casts must not cut anything off from its gradient, and what arrives must be the f32
/// gradient up to rounding.
#[test]
fn in_bf16_every_gradient_is_that_of_f32_up_to_rounding() {
    for (config, weights) in families() {
        let exact = decoder(&config, &weights);
        let rounded = decoder(&config, &weights).with_compute(Compute::Bf16);
        let (packed, targets) = pack();
        let scores = [&exact, &rounded].map(|decoder| decoder.score(&packed, &targets).unwrap());
        assert_close(&scores[0].logp, &scores[1].logp, 0.05, "log-probs");
        assert_ne!(scores[0].logp, scores[1].logp, "bf16 rounds");
        let found = [&exact, &rounded].map(|decoder| gradients(decoder, Activations::Keep));
        for (((name, var), exact), rounded) in rounded.vars().iter().zip(&found[0]).zip(&found[1]) {
            assert_eq!(var.dtype(), CandleType::F32, "{name} is a master weight");
            // Some have few elements, of which each is a small difference of large numbers.
            let share = distance(rounded, exact);
            assert!(share < 0.2, "{:?} {name}: {share}", config.family);
        }
        let share = distance(&found[1].concat(), &found[0].concat());
        assert!(share < 0.05, "{:?}: {share}", config.family);
        assert_eq!(found[1], gradients(&rounded, Activations::Recompute));
    }
}

/// For a machine with an NVIDIA GPU.
#[cfg(feature = "cuda")]
#[test]
fn a_gpu_gives_the_numbers_of_the_cpu() {
    let gpu = Device::new_cuda_with_stream(0).unwrap();
    for (config, weights) in families() {
        let here = decoder(&config, &weights);
        for (compute, tolerance, share) in [(Compute::F32, 1e-4, 1e-3), (Compute::Bf16, 0.05, 0.2)] {
            let there = Decoder::trainable(&config, &weights, &gpu).unwrap().with_compute(compute);
            let (packed, targets) = pack();
            let scores = [&here, &there].map(|decoder| decoder.score(&packed, &targets).unwrap());
            assert_close(&scores[1].logp, &scores[0].logp, tolerance, "log-probs");
            assert_close(&scores[1].entropy, &scores[0].entropy, tolerance, "entropies");
            let found = [&here, &there].map(|decoder| gradients(decoder, Activations::Recompute));
            for (((name, _), here), there) in here.vars().iter().zip(&found[0]).zip(&found[1]) {
                assert!(distance(there, here) < share, "{compute} {:?} {name}", config.family);
            }
            let read = there.to_weights(DType::F32).unwrap();
            assert!(weights.iter().zip(read.iter()).all(|(a, b)| a.bytes() == b.bytes()));
        }
    }
}

#[test]
fn kept_and_recomputed_activations_give_the_same_bits() {
    for (config, weights) in families() {
        for decoder in engines(&config, &weights) {
            let kept = gradients(&decoder, Activations::Keep);
            assert_eq!(kept, gradients(&decoder, Activations::Recompute));
            // Buffers of the pass before are used again.
            assert_eq!(kept, gradients(&decoder, Activations::Keep));
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    // Wide enough that products and kernels are shared out.
    let sizes = crate::model::config::TinySizes {
        vocab: 3000,
        hidden: 128,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
        intermediate: 320,
        positions: 400,
    };
    let config = ModelConfig::tiny_qwen3(sizes).unwrap();
    let decoder = decoder(&config, &Weights::random(&config, 3));
    let ids: Vec<u32> = (0..700).map(|i| i * 7919 % 3000).collect();
    let packed = Packed::new(ids, &[300, 1, 399]).unwrap();
    let targets = packed.next_tokens();
    let (d_logp, d_entropy) = slopes(targets.len());
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let scored = decoder.score_for_training(&packed, &targets, Activations::Keep).unwrap();
            let scores = scored.scores().clone();
            let mut gradients = Gradients::zeros(&decoder).unwrap();
            scored.backward(&d_logp, Some(&d_entropy), &mut gradients).unwrap();
            (scores, values(&gradients))
        })
    };
    let one = run(1);
    assert!(one.0.logp.iter().all(|logp| logp.is_finite()));
    for threads in [2, 3] {
        assert!(run(threads) == one, "{threads} threads");
    }
}

#[test]
fn packed_sequences_are_what_each_is_alone() {
    for (config, weights) in families() {
        for decoder in engines(&config, &weights) {
            let packed = Packed::of(&sequences()).unwrap();
            let together = decoder.score(&packed, &packed.next_tokens()).unwrap();
            let mut alone = Scores::default();
            for sequence in sequences() {
                let packed = Packed::of(&[sequence]).unwrap();
                let scores = decoder.score(&packed, &packed.next_tokens()).unwrap();
                alone.logp.extend(scores.logp);
                alone.entropy.extend(scores.entropy);
            }
            assert_close(&together.logp, &alone.logp, 1e-5, "log-probs");
            assert_close(&together.entropy, &alone.entropy, 1e-5, "entropies");
        }
    }
}

#[test]
fn scoring_a_part_is_scoring_all_with_derivatives_of_zero() {
    for (config, weights) in families() {
        for decoder in engines(&config, &weights) {
            let (packed, all) = pack();
            let wanted = [2usize, 3, 8, 14];
            let part: Vec<Target> = wanted.iter().map(|row| all[*row]).collect();
            let run = |targets: &[Target]| {
                let scored = decoder.score_for_training(&packed, targets, Activations::Keep).unwrap();
                let scores = scored.scores().clone();
                let weight = |target: &Target| f32::from(u8::from(wanted.contains(&target.row)));
                let weights: Vec<f32> = targets.iter().map(weight).collect();
                let mut gradients = Gradients::zeros(&decoder).unwrap();
                scored.backward(&weights, None, &mut gradients).unwrap();
                (scores, values(&gradients))
            };
            let (some, all) = (run(&part), run(&all));
            let picked: Vec<f32> = wanted.iter().map(|row| all.0.logp[*row]).collect();
            assert_close(&some.0.logp, &picked, 1e-6, "log-probs");
            for (a, b) in some.1.iter().zip(&all.1) {
                assert_close(a, b, 1e-5, "gradients");
            }
        }
    }
}

#[test]
fn gradients_add_up_and_are_scaled() {
    let (config, weights) = families().remove(0);
    let decoder = decoder(&config, &weights);
    let (packed, targets) = pack();
    let (d_logp, _) = slopes(targets.len());
    let mut gradients = Gradients::zeros(&decoder).unwrap();
    let pass = |gradients: &mut Gradients| {
        let scored = decoder.score_for_training(&packed, &targets, Activations::Recompute).unwrap();
        scored.backward(&d_logp, None, gradients).unwrap();
    };
    pass(&mut gradients);
    let once = values(&gradients);
    pass(&mut gradients);
    gradients.scale(0.5).unwrap();
    for (a, b) in values(&gradients).iter().zip(&once) {
        assert_close(a, b, 1e-6, "half of twice");
    }
    gradients.zero().unwrap();
    pass(&mut gradients);
    assert_eq!(values(&gradients), once);
}

#[test]
fn a_copy_stays_what_it_was() {
    let (config, weights) = families().remove(0);
    let decoder = decoder(&config, &weights);
    let copy = decoder.copy_to_host().unwrap();
    for (_, var) in decoder.vars() {
        var.set(&var.zeros_like().unwrap()).unwrap();
    }
    for (tensor, (name, var)) in weights.iter().zip(copy.vars()) {
        assert_eq!(tensor.to_f32(), var.flatten_all().unwrap().to_vec1::<f32>().unwrap(), "{name}");
    }
}

#[test]
fn weights_come_out_as_they_went_in() {
    for (config, weights) in families() {
        let decoder = Decoder::trainable(&config, &weights, &Device::Cpu).unwrap();
        let again = decoder.to_weights(DType::F32).unwrap();
        assert!(weights.iter().zip(again.iter()).all(|(a, b)| a.bytes() == b.bytes()));
        let image = decoder.to_image(DType::BF16, &std::env::temp_dir()).unwrap();
        let rounded = weights.to_dtype(DType::BF16);
        assert!(rounded.iter().zip(image.iter()).all(|(a, b)| a.bytes() == b.bytes()));
    }
}

#[test]
fn misuse_is_an_error() {
    let mut families = families();
    let (other, _) = families.remove(2);
    let (config, weights) = families.remove(0);
    assert!(Decoder::trainable(&other, &weights, &Device::Cpu).is_err());
    let decoder = decoder(&config, &weights);
    let score = |ids: &[u32], targets: &[(usize, u32)]| {
        let targets: Vec<Target> =
            targets.iter().map(|(row, token)| Target { row: *row, token: *token }).collect();
        decoder.score(&Packed::of(&[ids]).unwrap(), &targets).map(|scores| scores.logp.len())
    };
    assert_eq!(score(&[1, 2], &[]).unwrap(), 0);
    assert!(matches!(score(&[0; 65], &[]), Err(DecoderError::TooLong { found: 65, limit: 64 })));
    assert!(matches!(score(&[1, 99], &[]), Err(DecoderError::Token { row: 1, token: 99, .. })));
    assert!(matches!(score(&[1, 2], &[(0, 13)]), Err(DecoderError::Token { token: 13, .. })));
    assert!(matches!(score(&[1, 2], &[(2, 1)]), Err(DecoderError::TargetRow { row: 2, .. })));
    assert!(matches!(score(&[1, 2], &[(1, 1), (0, 1)]), Err(DecoderError::TargetRow { index: 1, .. })));
    assert!(matches!(score(&[1, 2], &[(1, 1), (1, 1)]), Err(DecoderError::TargetRow { index: 1, .. })));

    let packed = Packed::of(&[[1u32, 2, 3]]).unwrap();
    let scored = || decoder.score_for_training(&packed, &packed.next_tokens(), Activations::Keep).unwrap();
    let mut gradients = Gradients::zeros(&decoder).unwrap();
    let short = scored().backward(&[1.0], None, &mut gradients);
    assert!(matches!(short, Err(DecoderError::Derivatives { what: "d_logp", found: 1, expected: 2 })));
    let long = scored().backward(&[1.0; 2], Some(&[1.0; 3]), &mut gradients);
    assert!(matches!(long, Err(DecoderError::Derivatives { what: "d_entropy", .. })));
    let (config, weights) = families.remove(0);
    let mut foreign = Gradients::zeros(&self::decoder(&config, &weights)).unwrap();
    let foreign = scored().backward(&[1.0; 2], None, &mut foreign);
    assert!(matches!(foreign, Err(DecoderError::ForeignGradients)));
}
