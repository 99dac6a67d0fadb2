use std::fs;

use super::*;
use crate::model::export::{ExportExtras, export};
use crate::model::weights::DType;
use crate::training::decoder::tests::families;

/// Writes a model and an `expected.json` that the training forward made itself.
fn write_model(dir: &Path, index: usize) {
    let (config, weights) = families().remove(index);
    export(dir, &config, &weights, DType::F32, &ExportExtras::default()).unwrap();
    let decoder = Decoder::trainable(&config, &weights, &Device::Cpu).unwrap();
    let ids = [1u32, 4, 2, 8, 5];
    let case = training_outputs(&decoder, &ids).unwrap();
    let packed = Packed::of(&[ids]).unwrap();
    let targets = packed.next_tokens();
    let scored = decoder.score_for_training(&packed, &targets, Activations::Keep).unwrap();
    let loss = -scored.scores().logp.iter().sum::<f32>() / 4.0;
    let mut gradients = Gradients::zeros(&decoder).unwrap();
    scored.backward(&[-0.25; 4], None, &mut gradients).unwrap();
    let norms: std::collections::BTreeMap<_, _> = decoder
        .vars()
        .iter()
        .zip(gradients.buffers())
        .map(|((name, _), gradient)| (name.clone(), gradient.square_sum().unwrap().sqrt()))
        .collect();
    let expected = serde_json::json!({
        "cases": [{ "ids": ids, "last_logits": case.last_logits, "token_logprobs": case.logprobs, "entropies": case.entropies }],
        "nll": { "ids": ids, "loss": loss, "grad_norms": norms },
    });
    fs::write(dir.join("expected.json"), expected.to_string()).unwrap();
}

#[test]
fn agreement_passes_and_each_kind_of_disagreement_is_named() {
    let home = tempfile::tempdir().unwrap();
    for index in 0..3 {
        write_model(&home.path().join(format!("model-{index}")), index);
    }
    let report = check_dir(home.path()).unwrap();
    assert_eq!(report.failures, Vec::<String>::new());
    assert!(report.cases > 60 && report.passed == report.cases && report.worst < 1.0, "{report:?}");

    let path = home.path().join("model-1/expected.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut root: serde_json::Value = serde_json::from_str(&text).unwrap();
    root["cases"][0]["last_logits"][3] = 9.0.into();
    root["nll"]["grad_norms"]["model.norm.weight"] = 0.0.into();
    root["nll"]["grad_norms"]["no.such"] = 0.0.into();
    root["cases"][0]["entropies"].as_array_mut().unwrap().pop();
    fs::write(&path, root.to_string()).unwrap();
    let report = check_dir(home.path()).unwrap();
    let texts = report.failures.join("\n");
    assert_eq!(report.failed, 6, "{texts}");
    for named in
        ["model-1, case 0, generation engine, last_logits", "entropies: 5 values", "no.such", "model.norm"]
    {
        assert!(texts.contains(named), "{named} not in {texts}");
    }
}

#[test]
fn broken_directories_fail_and_the_others_go_on() {
    let home = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        write_model(&home.path().join(name), 0);
    }
    let whole = check_dir(home.path()).unwrap().cases;
    fs::remove_file(home.path().join("a/expected.json")).unwrap();
    fs::write(home.path().join("b/model.safetensors"), b"not tensors").unwrap();
    let report = check_dir(home.path()).unwrap();
    assert_eq!((report.failed, report.passed), (2, whole / 3));
    assert!(report.failures[0].starts_with("a: ") && report.failures[1].starts_with("b: "));
    assert!(check_dir(&home.path().join("none")).is_err());
}
