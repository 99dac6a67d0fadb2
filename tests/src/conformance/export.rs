//! What the learner exports, opened by `transformers`: a model of each family and form is founded
//! as a run with a supervised start, and the policy that the run begins with is written as the
//! learner writes every policy. Both read the same token sequences, and say the log-prob of every
//! token that follows another.

use super::tell;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context, ensure};
use candle_core::Device;
use echo_learner::config::RunConfig;
use echo_learner::founding;
use echo_learner::founding::Founded;
use echo_policy::conformance::vectors::VectorReport;
use echo_policy::generation;
use echo_policy::generation::Policy;
use echo_policy::model::config::ModelConfig;
use echo_policy::model::export::{ExportExtras, export};
use echo_policy::model::weights::{DType, Weights};
use echo_policy::text::tokenizer::{CHARACTER_VOCABULARY, CharTokenizer};
use echo_policy::training::decoder::Decoder;
use echo_policy::training::packed::Packed;
use serde::Deserialize;
use serde_json::json;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The side of `transformers`; its arguments are directories.
const TRANSFORMERS: &str = include_str!("../../peers/transformers_scores.py");
/// Largest |Δ log p| of a token.
const TOLERANCE: f64 = 1e-4;
const TEXT: &str = "12+34=46\nsort 9,3,7=3,7,9";
/// Lengths of the sequences.
const LENGTHS: [usize; 4] = [2, 17, 64, 120];

/// Name, family, and what `config.json` says beyond sizes.
const MODELS: [(&str, &str, &str); 7] = [
    ("llama-tied", "llama", r#""tie_word_embeddings":true"#),
    ("llama-untied", "llama", r#""tie_word_embeddings":false"#),
    (
        "llama-scaled-biased",
        "llama",
        r#""attention_bias":true,"mlp_bias":true,"rope_scaling":{"rope_type":"llama3","factor":4.0,"low_freq_factor":1.0,
        "high_freq_factor":4.0,"original_max_position_embeddings":32}"#,
    ),
    ("qwen2-tied", "qwen2", r#""tie_word_embeddings":true"#),
    ("qwen2-untied", "qwen2", r#""tie_word_embeddings":false"#),
    ("qwen3-tied", "qwen3", r#""head_dim":24,"tie_word_embeddings":true"#),
    ("qwen3-untied-biased", "qwen3", r#""head_dim":24,"attention_bias":true,"tie_word_embeddings":false"#),
];

/// What `transformers` says of all directories.
#[derive(Debug, Deserialize)]
struct Said {
    versions: serde_json::Value,
    models: Vec<Model>,
}

/// What it says of one.
#[derive(Debug, Deserialize)]
struct Model {
    /// How its tokenizer encodes [`TEXT`].
    text: Vec<u32>,
    /// Log-probs of the tokens after the first, by sequence.
    logp: Vec<Vec<f64>>,
}

/// Exports, opens and compares.
///
/// # Errors
/// When a model cannot be made, or `python` lacks `torch` or `transformers` or cannot open what was written.
pub fn check(python: &Path, console: &Console) -> anyhow::Result<CommandReport> {
    let dir = tempfile::tempdir()?;
    let made = MODELS
        .iter()
        .enumerate()
        .map(|(seed, (name, family, extra))| {
            found(&dir.path().join(name), family, extra, seed as u64).with_context(|| (*name).to_owned())
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let exports: Vec<PathBuf> = made.iter().map(|founded| founded.dir.start()).collect();
    let sequences = LENGTHS.map(tokens);
    let said = ask(python, &exports, &sequences)?;
    ensure!(said.models.len() == made.len(), "transformers spoke of {} models", said.models.len());
    let (mut report, mut rows) = (VectorReport::default(), Vec::new());
    for (((name, ..), founded), theirs) in MODELS.iter().zip(&made).zip(&said.models) {
        match founded.workload.tokenizer.encode(TEXT)? == theirs.text {
            true => report.pass(),
            false => report.fail(format!("{name}, tokenizer: {:?}", theirs.text)),
        }
        let ours = scores(&founded.workload.model, &founded.dir.start(), &sequences)?;
        let [training, generation] = ours.map(|ours| worst(&ours, &theirs.logp));
        console.say(format!("{name:<20} training {training:.1e}, generation {generation:.1e}"));
        for (forward, worst) in [("training", training), ("generation", generation)] {
            report.measure(worst, TOLERANCE, || format!("{name}, {forward} forward"));
        }
        rows.push(json!({"model": name, "training": training, "generation": generation}));
    }
    let mut reported = tell(console, &report);
    reported.json["worst_difference"] = json!(report.worst * TOLERANCE);
    reported.json["tolerance"] = json!(TOLERANCE);
    reported.json["models"] = json!(rows);
    reported.json["versions"] = said.versions;
    Ok(reported)
}

/// Founds a run on random weights of this form, with three supervised updates: norms are no longer
/// one then, and biases no longer zero.
fn found(dir: &Path, family: &str, extra: &str, seed: u64) -> anyhow::Result<Founded> {
    let vocabulary = CHARACTER_VOCABULARY;
    let mut model = ModelConfig::from_json(&format!(
        r#"{{"model_type":"{family}","vocab_size":{vocabulary},"hidden_size":64,"intermediate_size":96,"num_hidden_layers":3,
        "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":128,"initializer_range":0.1,{extra}}}"#
    ))?;
    model.eos_token_ids = vec![CharTokenizer::EOS];
    fs::create_dir_all(dir)?;
    CharTokenizer::default().save_huggingface(dir)?;
    let extras = ExportExtras {
        tokenizer: Some(dir.join("tokenizer.json")),
        tokenizer_config: Some(dir.join("tokenizer_config.json")),
        ..ExportExtras::default()
    };
    export(&dir.join("model"), &model, &Weights::random(&model, seed), DType::F32, &extras)?;
    let mut config: RunConfig = toml::from_str(
        r#"
        run = { name = "export", dir = "", updates = 1 }
        model = {}
        task = [{ name = "chain_sum" }]
        train = { device = "cpu" }
        warmup = { updates = 3, batch = 8, learning_rate = 0.05 }
        "#,
    )?;
    config.run.dir = dir.join("run");
    config.model.path = Some(dir.join("model"));
    Ok(founding::found(&config, |_, _| ())?)
}

/// A sequence that visits the whole vocabulary.
fn tokens(length: usize) -> Vec<u32> {
    (0..length).map(|at| ((at * at * 7 + at * 13 + length) % CHARACTER_VOCABULARY) as u32).collect()
}

/// Log-probs of every next token by sequence: of the training forward, and of the generation engine.
pub(crate) fn scores(
    model: &ModelConfig,
    export: &Path,
    sequences: &[Vec<u32>],
) -> anyhow::Result<[Vec<Vec<f32>>; 2]> {
    scores_of(model, &Weights::load_dir(export, model)?, sequences)
}

/// The same of weights that are not in a directory.
pub(super) fn scores_of(
    model: &ModelConfig,
    weights: &Weights,
    sequences: &[Vec<u32>],
) -> anyhow::Result<[Vec<Vec<f32>>; 2]> {
    let decoder = Decoder::trainable(model, weights, &Device::Cpu)?;
    let packed = Packed::of(sequences)?;
    let mut all = decoder.score(&packed, &packed.next_tokens())?.logp.into_iter();
    let training = sequences.iter().map(|ids| all.by_ref().take(ids.len() - 1).collect()).collect();
    let generation = generation::score(&Policy::load(0, model, weights)?, sequences)?;
    Ok([training, generation])
}

/// What `transformers` says of these directories and sequences.
fn ask(python: &Path, exports: &[PathBuf], sequences: &[Vec<u32>]) -> anyhow::Result<Said> {
    let needs = "this needs a Python with torch and transformers: make one with `python3 -m venv torch-venv && torch-venv/bin/pip \
                 install torch transformers`, and name it with --python torch-venv/bin/python";
    let mut child = Command::new(python)
        .args(["-c", TRANSFORMERS])
        .args(exports)
        .env("HF_HUB_OFFLINE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .with_context(|| format!("{}: {needs}", python.display()))?;
    let question = json!({"text": TEXT, "sequences": sequences}).to_string();
    // Far below what a pipe holds, and read before anything is printed.
    child.stdin.take().context("the child has an input")?.write_all(question.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{} ended with {}; {needs}", python.display(), output.status);
    let text = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().context("transformers said nothing")?)?)
}

/// The largest difference; infinite where there is not the same number of values, or one is not a number.
pub(super) fn worst(ours: &[Vec<f32>], theirs: &[Vec<f64>]) -> f64 {
    let lengths = |lists: &mut dyn Iterator<Item = usize>| lists.collect::<Vec<_>>();
    if lengths(&mut ours.iter().map(Vec::len)) != lengths(&mut theirs.iter().map(Vec::len)) {
        return f64::INFINITY;
    }
    let pairs = ours.iter().flatten().zip(theirs.iter().flatten());
    let differences = pairs.map(|(ours, theirs)| (f64::from(*ours) - theirs).abs());
    differences.fold(0.0, |worst, d| if d.is_nan() { f64::INFINITY } else { worst.max(d) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_exported_and_both_forwards_read_it_alike() {
        let dir = tempfile::tempdir().unwrap();
        for (name, family, extra) in MODELS {
            let founded = found(&dir.path().join(name), family, extra, 1).unwrap();
            let sequences = LENGTHS.map(tokens);
            let [training, generation] =
                scores(&founded.workload.model, &founded.dir.start(), &sequences).unwrap();
            let wide: Vec<Vec<f64>> =
                generation.iter().map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect();
            assert!(worst(&training, &wide) < TOLERANCE, "{name}");
            let weights = Weights::load_dir(&founded.dir.start(), &founded.workload.model).unwrap();
            for tensor in weights.iter().filter(|tensor| tensor.name().ends_with("bias")) {
                assert!(tensor.to_f32().iter().any(|x| *x != 0.0), "{name}: {} was trained", tensor.name());
            }
        }
    }

    #[test]
    fn what_is_missing_or_no_number_is_no_agreement() {
        assert_eq!(worst(&[vec![-1.0, -2.0]], &[vec![-1.0, -2.5]]), 0.5);
        assert_eq!(worst(&[vec![-1.0]], &[vec![-1.0, -2.5]]), f64::INFINITY);
        assert_eq!(worst(&[vec![-1.0]], &[vec![f64::NAN]]), f64::INFINITY);
    }
}
