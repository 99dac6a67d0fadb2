use super::*;
use crate::model::config::{ModelConfig, TinySizes};

mod forms;

fn config() -> ModelConfig {
    let sizes = TinySizes {
        vocab: 11,
        hidden: 8,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        head_dim: 4,
        intermediate: 12,
        positions: 16,
    };
    ModelConfig::tiny_qwen3(sizes).unwrap()
}

fn raw(weights: &Weights) -> Vec<RawTensor> {
    weights
        .iter()
        .map(|t| RawTensor {
            name: t.name().into(),
            dtype: t.dtype(),
            shape: t.shape().to_vec(),
            bytes: t.bytes().to_vec(),
        })
        .collect()
}

#[test]
fn random_weights_are_reproducible_and_look_normal() {
    let mut config = config();
    config.vocab_size = 4000;
    config.initializer_range = 0.5;
    let (a, b, c) = (Weights::random(&config, 1), Weights::random(&config, 1), Weights::random(&config, 2));
    let embed = |w: &Weights| w.get("model.embed_tokens.weight").unwrap().to_f32();
    assert_eq!(embed(&a), embed(&b));
    assert_ne!(embed(&a), embed(&c));
    let values = embed(&a);
    let n = values.len() as f64;
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
    let variance = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n;
    assert!(mean.abs() < 0.01 && (variance.sqrt() - 0.5).abs() < 0.01, "{mean} {variance}");
    assert_eq!(a.total_elements() as u64, config.parameter_count());
    assert!(a.get("model.norm.weight").unwrap().to_f32().iter().all(|v| *v == 1.0));
}

#[test]
fn parameter_count_agrees_with_the_tensor_list() {
    for (kind, extra) in [
        ("qwen3", r#","attention_bias":true"#),
        ("qwen2", ""),
        ("llama", r#","attention_bias":true,"mlp_bias":true,"tie_word_embeddings":true"#),
    ] {
        let text = format!(
            r#"{{"model_type":"{kind}","vocab_size":32,"hidden_size":16,"intermediate_size":24,
            "num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":2{extra}}}"#
        );
        let config = ModelConfig::from_json(&text).unwrap();
        let listed: usize = expected_tensors(&config).iter().map(TensorSpec::elements).sum();
        assert_eq!(listed as u64, config.parameter_count(), "{kind}");
    }
}

#[test]
fn raw_tensors_come_back_in_canonical_order() {
    let (config, weights) = (config(), Weights::random(&config(), 3));
    let mut shuffled = raw(&weights);
    shuffled.reverse();
    let again = Weights::from_raw(&config, shuffled).unwrap();
    for (a, b) in weights.iter().zip(again.iter()) {
        assert_eq!((a.name(), a.bytes()), (b.name(), b.bytes()));
    }
}

#[test]
fn wrong_sets_of_tensors_are_refused() {
    let config = config();
    let good = raw(&Weights::random(&config, 3));
    let error = |change: &dyn Fn(&mut Vec<RawTensor>)| {
        let mut tensors = good.clone();
        change(&mut tensors);
        Weights::from_raw(&config, tensors).unwrap_err()
    };
    assert!(matches!(error(&|t| drop(t.pop())), WeightsError::Missing { .. }));
    assert!(matches!(error(&|t| t.push(t[0].clone())), WeightsError::Duplicate { .. }));
    assert!(matches!(error(&|t| t[0].name = "other".into()), WeightsError::Unexpected { .. }));
    assert!(matches!(error(&|t| t[0].shape.reverse()), WeightsError::Shape { .. }));
    assert!(matches!(error(&|t| t[0].shape = vec![usize::MAX, 2]), WeightsError::Shape { .. }));
    assert!(matches!(error(&|t| t[0].bytes.truncate(3)), WeightsError::Length { .. }));
}

#[test]
fn bf16_rounds_to_nearest_and_survives_a_round_trip() {
    let weights = Weights::random(&config(), 5);
    let half = weights.to_dtype(DType::BF16);
    assert_eq!(half.total_bytes() * 2, weights.total_bytes());
    assert_eq!(half.main_dtype(), DType::BF16);
    for (a, b) in weights.iter().zip(half.iter()) {
        for (x, y) in a.to_f32().iter().zip(b.to_f32()) {
            assert!((x - y).abs() <= x.abs() / 256.0);
        }
        assert_eq!(b.to_f32(), half.to_dtype(DType::F32).get(a.name()).unwrap().to_f32());
    }
}

#[test]
fn shards_load_and_an_index_cannot_leave_its_directory() {
    let (config, dir) = (config(), tempfile::tempdir().unwrap());
    let weights = Weights::random(&config, 7);
    let mut map = BTreeMap::new();
    let tensors: Vec<_> = weights.iter().collect();
    for (shard, part) in tensors.chunks(9).enumerate() {
        let file = format!("model-{shard}.safetensors");
        let views = part.iter().map(|t| {
            map.insert(t.name().to_owned(), file.clone());
            let view = safetensors::tensor::TensorView::new(t.dtype().into(), t.shape().to_vec(), t.bytes());
            (t.name(), view.unwrap())
        });
        safetensors::serialize_to_file(views, None, &dir.path().join(&file)).unwrap();
    }
    let index = dir.path().join("model.safetensors.index.json");
    std::fs::write(&index, serde_json::json!({ "weight_map": map }).to_string()).unwrap();
    let loaded = Weights::load_dir(dir.path(), &config).unwrap();
    assert!(weights.iter().zip(loaded.iter()).all(|(a, b)| a.bytes() == b.bytes()));

    for name in ["../x.safetensors", "/etc/passwd", "a/b", "..", "", "c:\\x"] {
        std::fs::write(&index, serde_json::json!({ "weight_map": { "a": name } }).to_string()).unwrap();
        let error = Weights::load_dir(dir.path(), &config).unwrap_err();
        assert!(matches!(error, WeightsError::Malformed { .. }), "{name}: {error}");
    }
    std::fs::write(dir.path().join("model.safetensors"), [255u8; 64]).unwrap();
    assert!(matches!(Weights::load_dir(dir.path(), &config), Err(WeightsError::Malformed { .. })));
}
