//! Directories in odd but legal forms: each loads as the same weights, or is refused in words.

use std::path::Path;

use super::{config, raw};
use crate::model::config::ModelConfig;
use crate::model::weights::{DType, RawTensor, Weights, WeightsError};

const HEAD: &str = "lm_head.weight";
const EMBEDDING: &str = "model.embed_tokens.weight";

fn write(path: &Path, tensors: &[RawTensor]) {
    let views = tensors.iter().map(|t| {
        let view = safetensors::tensor::TensorView::new(t.dtype.into(), t.shape.clone(), &t.bytes);
        (t.name.as_str(), view.unwrap())
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
}

/// What comes of a `model.safetensors` with the tensors of random weights, changed by `change`.
fn load(config: &ModelConfig, change: impl FnOnce(&mut Vec<RawTensor>)) -> Result<Weights, WeightsError> {
    let dir = tempfile::tempdir().unwrap();
    let mut tensors = raw(&Weights::random(config, 3));
    change(&mut tensors);
    write(&dir.path().join("model.safetensors"), &tensors);
    Weights::load_dir(dir.path(), config)
}

fn named(name: &str, like: &RawTensor) -> RawTensor {
    RawTensor { name: name.into(), ..like.clone() }
}

fn embedding(tensors: &[RawTensor]) -> RawTensor {
    tensors.iter().find(|tensor| tensor.name == EMBEDDING).unwrap().clone()
}

#[test]
fn copies_and_tables_that_older_tools_left_are_skipped() {
    let config = config();
    let plain = load(&config, |_| ()).unwrap();
    let odd = load(&config, |tensors| {
        let head = named(HEAD, &embedding(tensors));
        tensors.push(head);
        for table in ["inv_freq", "cos_cached", "sin_cached"] {
            tensors.push(named(&format!("model.layers.0.self_attn.rotary_emb.{table}"), &tensors[1].clone()));
        }
    });
    let odd = odd.unwrap();
    assert_eq!(plain.iter().len(), odd.iter().len());
    assert!(plain.iter().zip(odd.iter()).all(|(a, b)| (a.name(), a.bytes()) == (b.name(), b.bytes())));
}

#[test]
fn a_decoder_that_was_saved_without_its_head_is_read_by_its_own_names() {
    let config = config();
    let plain = load(&config, |_| ()).unwrap();
    let bare = load(&config, |tensors| {
        for tensor in tensors {
            tensor.name = tensor.name.strip_prefix("model.").unwrap().to_owned();
        }
    });
    let bare = bare.unwrap();
    assert!(plain.iter().zip(bare.iter()).all(|(a, b)| (a.name(), a.bytes()) == (b.name(), b.bytes())));
}

#[test]
fn a_tied_model_with_another_head_is_refused_and_untied_it_loads() {
    let config = config();
    let other_head = |tensors: &mut Vec<RawTensor>| {
        let mut head = named(HEAD, &embedding(tensors));
        head.bytes[0] ^= 1;
        tensors.push(head);
    };
    let error = load(&config, other_head).unwrap_err();
    assert!(matches!(error, WeightsError::OtherHead), "{error}");
    assert!(error.to_string().contains("\"tie_word_embeddings\": false"), "{error}");
    let untied = ModelConfig { tie_word_embeddings: false, ..config };
    assert!(load(&untied, |_| ()).unwrap().get(HEAD).is_some());
    let headless = load(&untied, |tensors| tensors.retain(|tensor| tensor.name != HEAD)).unwrap_err();
    assert!(matches!(&headless, WeightsError::Missing { name } if name == HEAD), "{headless}");
}

#[test]
fn half_precision_is_read_as_the_numbers_that_it_holds() {
    let config = config();
    let full = load(&config, |_| ()).unwrap();
    for dtype in [DType::F16, DType::BF16] {
        let rounded = full.to_dtype(dtype);
        let loaded = load(&config, |tensors| *tensors = raw(&rounded)).unwrap();
        assert_eq!(loaded.main_dtype(), dtype);
        assert!(rounded.iter().zip(loaded.iter()).all(|(a, b)| a.to_f32() == b.to_f32()));
    }
}

#[test]
fn tensors_that_nobody_expects_are_named_with_what_to_do() {
    let config = config();
    for (name, mend) in [
        ("model.layers.0.self_attn.q_proj.bias", "\"attention_bias\": true"),
        ("model.layers.1.mlp.up_proj.bias", "\"mlp_bias\": true"),
        ("model.layers.2.mlp.up_proj.weight", "num_hidden_layers"),
        ("base_model.model.lora_A.weight", "merge_and_unload"),
        ("v_head.summary.weight", "values or classes"),
        ("something.weight", "of the same model"),
    ] {
        let error = load(&config, |tensors| tensors.push(named(name, &tensors[1].clone()))).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(name) && text.contains(mend), "{text}");
    }
    let biased = ModelConfig { attention_bias: true, ..config };
    let unbiased = |tensors: &mut Vec<RawTensor>| tensors.retain(|tensor| !tensor.name.ends_with(".bias"));
    let error = load(&biased, unbiased).unwrap_err().to_string();
    assert!(error.contains(".bias` is missing"), "{error}");
}

#[test]
fn weights_that_are_no_numbers_are_named() {
    let config = config();
    assert!(load(&config, |_| ()).unwrap().check_finite().is_ok());
    for (dtype, bad) in [(DType::F32, f32::NAN), (DType::BF16, f32::INFINITY), (DType::F16, f32::NAN)] {
        let loaded = load(&config, |tensors| {
            let broken = &mut tensors[2];
            let mut values = vec![0.5; broken.shape.iter().product()];
            *values.last_mut().unwrap() = bad;
            *broken = RawTensor::from_f32(&broken.name, &broken.shape, &values, dtype);
        });
        let error = loaded.unwrap().check_finite().unwrap_err().to_string();
        assert!(error.contains("NaN") && error.contains("model.layers.0"), "{error}");
    }
}

#[test]
fn what_a_directory_has_in_place_of_weights_is_named() {
    let config = config();
    let said = |names: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(dir.path().join(name), [0; 8]).unwrap();
        }
        Weights::load_dir(dir.path(), &config).unwrap_err().to_string()
    };
    let torch = said(&["config.json", "pytorch_model.bin"]);
    assert!(torch.contains("pytorch_model.bin is not read") && torch.contains("save_pretrained"), "{torch}");
    assert!(said(&["pytorch_model-00001-of-00002.bin"]).contains("is not read"));
    assert!(said(&["adapter_model.safetensors", "adapter_config.json"]).contains("LoRA adapter"));
    assert!(said(&["model-00001-of-00002.safetensors"]).contains("fetch the index"));
    assert!(said(&["model-q4_0.gguf"]).contains("llama.cpp"));
    assert!(said(&["config.json"]).contains("fetch the whole model"));
    let nowhere = Weights::load_dir(Path::new("no/such/model"), &config).unwrap_err().to_string();
    assert!(nowhere.contains("there is no such directory"), "{nowhere}");
}
