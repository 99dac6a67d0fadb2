//! A model of two layers, which both engines read alike.

use crate::task::{Rates, PeerTask};
use crate::{candle, gguf, llama};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;
use std::path::Path;

const VOCABULARY: usize = 96;
const HIDDEN: usize = 64;
const INNER: usize = 128;
const HEAD: usize = 32;
const LAYERS: usize = 2;

/// Values in ±0.25 that look random; norms near one.
fn bytes(name: &str, count: usize) -> Vec<u8> {
    let mut state = name.bytes().fold(7u32, |state, byte| state.wrapping_mul(31).wrapping_add(byte.into()));
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as f32 / 65_536.0 - 0.5
    };
    let value = |x: f32| if name.contains("norm") { 1.0 + 0.5 * x } else { 0.5 * x };
    (0..count).flat_map(|_| ((value(next()).to_bits() >> 16) as u16).to_le_bytes()).collect()
}

fn model(dir: &Path) {
    let config = json!({
        "model_type": "qwen3", "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": HEAD, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "tie_word_embeddings": true, "attention_bias": false, "use_sliding_window": false, "hidden_act": "silu",
    });
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
    let mut shapes = vec![
        ("model.embed_tokens".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("model.norm".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..LAYERS {
        for (part, shape) in [
            ("input_layernorm", vec![HIDDEN]),
            ("self_attn.q_proj", vec![4 * HEAD, HIDDEN]),
            ("self_attn.k_proj", vec![2 * HEAD, HIDDEN]),
            ("self_attn.v_proj", vec![2 * HEAD, HIDDEN]),
            ("self_attn.q_norm", vec![HEAD]),
            ("self_attn.k_norm", vec![HEAD]),
            ("self_attn.o_proj", vec![HIDDEN, 4 * HEAD]),
            ("post_attention_layernorm", vec![HIDDEN]),
            ("mlp.gate_proj", vec![INNER, HIDDEN]),
            ("mlp.up_proj", vec![INNER, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, INNER]),
        ] {
            shapes.push((format!("model.layers.{layer}.{part}"), shape));
        }
    }
    let data: Vec<_> = shapes.iter().map(|(name, shape)| bytes(name, shape.iter().product())).collect();
    let views = shapes.iter().zip(&data).map(|((name, shape), data)| {
        (format!("{name}.weight"), TensorView::new(Dtype::BF16, shape.clone(), data).unwrap())
    });
    safetensors::serialize_to_file(views, None, &dir.join("model.safetensors")).unwrap();
}

#[test]
fn both_engines_compute_the_same_model_and_say_one_line() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path());
    let gguf = dir.path().join("model.gguf");
    gguf::write(dir.path(), &gguf).unwrap();
    let task = PeerTask {
        model: dir.path().to_owned(),
        gguf,
        prompt: (0..40).map(|t| t * 7 % VOCABULARY as u32).collect(),
        given: (0..5)
            .map(|at| (0..3).map(|sample| (at * 3 + sample) % VOCABULARY as u32).collect())
            .collect(),
        threads: candle_core::utils::get_num_threads(),
    };
    let path = dir.path().join("task.json");
    std::fs::write(&path, serde_json::to_string(&task).unwrap()).unwrap();
    let task = PeerTask::read(&path).unwrap();
    let said = [candle::run(&task).unwrap(), llama::run(&task).unwrap()];
    for Rates { prefill_tok_s, single_tok_s, group_tok_s, .. } in &said {
        assert!(
            [prefill_tok_s, single_tok_s, group_tok_s].iter().all(|rate| rate.is_finite() && **rate > 0.0)
        );
    }
    assert!((said[0].logprob - said[1].logprob).abs() < 0.02, "{said:?}");
    assert!(said.iter().all(|rates| serde_json::to_string(rates).unwrap().lines().count() == 1));
    assert_ne!(said[0].about["candle-transformers"], "unknown");
    assert!(said[1].about["system_info"].as_str().unwrap().contains("CPU"));
}

#[test]
fn a_task_without_samples_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("task.json");
    for given in [json!([]), json!([[1, 2], [3]])] {
        let task = json!({"model": "m", "gguf": "g", "prompt": [1, 2, 3, 4, 5, 6, 7, 8], "given": given, "threads": 2});
        std::fs::write(&path, task.to_string()).unwrap();
        assert!(PeerTask::read(&path).is_err(), "{given}");
    }
}
