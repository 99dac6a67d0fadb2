//! Writing a Hugging Face directory that `transformers` opens.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::model::config::ModelConfig;
use crate::model::weights::{DType, Weights};
use crate::text::tokenizer::{
    CHAT_TEMPLATE_FILE, GENERATION_CONFIG_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE,
};

/// Distinguishes the partial directories of exports that run at the same time.
static EXPORTS: AtomicU64 = AtomicU64::new(0);

/// A model directory that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file or directory could not be written or moved into place.
    #[error("cannot write {path}: {source}; check free space and permissions")]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system reported.
        source: std::io::Error,
    },
    /// Something is already at the target.
    #[error("{path} exists already; choose another directory or remove it")]
    Exists {
        /// Directory that is there already.
        path: PathBuf,
    },
    /// The target has no parent or no name.
    #[error("{path} is not a directory that can be created; give a path with a name")]
    Target {
        /// Directory that was asked for.
        path: PathBuf,
    },
    /// The tensors could not be serialized.
    #[error("cannot serialize the weights: {0}")]
    Serialize(String),
}

/// What goes beside the weights.
#[derive(Debug, Clone, Default)]
pub struct ExportExtras {
    /// A `tokenizer.json`, copied in under that name.
    pub tokenizer: Option<PathBuf>,
    /// A `tokenizer_config.json` (chat template, special tokens), copied in under that name.
    pub tokenizer_config: Option<PathBuf>,
    /// A `chat_template.jinja`, copied in under that name.
    pub chat_template: Option<PathBuf>,
    /// The softmax temperature that responses are to be drawn at; left out, 1.
    pub temperature: Option<f32>,
    /// The tokens that end a response; where there are none, those of the model's configuration.
    pub end_tokens: Vec<u32>,
}

/// Writes `config.json`, `generation_config.json`, `model.safetensors` (in `dtype`) and the extras to `dir`.
///
/// Atomic: everything is written and flushed in a hidden directory beside `dir`, which is then
/// renamed. `dir` must not exist, or be empty.
///
/// # Errors
/// When `dir` is taken, or a file cannot be read or written; nothing is left behind then.
pub fn export(
    dir: &Path,
    config: &ModelConfig,
    weights: &Weights,
    dtype: DType,
    extras: &ExportExtras,
) -> Result<(), ExportError> {
    let target = || ExportError::Target { path: dir.to_owned() };
    let name = dir.file_name().and_then(|name| name.to_str()).ok_or_else(target)?;
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) || dir.is_file() {
        return Err(ExportError::Exists { path: dir.to_owned() });
    }
    fs::create_dir_all(parent).map_err(writing(parent))?;
    let count = EXPORTS.fetch_add(1, Ordering::Relaxed);
    let partial = parent.join(format!(".{name}.partial-{}-{count}", std::process::id()));
    fs::create_dir(&partial).map_err(writing(&partial))?;
    let result = write_files(&partial, config, weights, dtype, extras).and_then(|()| {
        // Renaming onto an empty directory works on Unix only; removing it first works everywhere.
        if dir.is_dir() {
            fs::remove_dir(dir).map_err(writing(dir))?;
        }
        fs::rename(&partial, dir).map_err(writing(dir))?;
        sync_dir(parent)
    });
    if result.is_err() {
        // The first error is the one to report, whether or not the clean-up succeeds.
        let _ = fs::remove_dir_all(&partial);
    }
    result
}

fn write_files(
    partial: &Path,
    config: &ModelConfig,
    weights: &Weights,
    dtype: DType,
    extras: &ExportExtras,
) -> Result<(), ExportError> {
    let write = |name: &str, text: &str| {
        let path = partial.join(name);
        fs::write(&path, text).map_err(writing(&path))?;
        sync_file(&path)
    };
    write("config.json", &config.to_json(dtype))?;
    write(GENERATION_CONFIG_FILE, &generation_config(config, extras))?;
    let path = partial.join("model.safetensors");
    let stored = weights.to_dtype(dtype);
    let mut views = Vec::new();
    for tensor in stored.iter() {
        let view =
            safetensors::tensor::TensorView::new(dtype.into(), tensor.shape().to_vec(), tensor.bytes())
                .map_err(|e| ExportError::Serialize(e.to_string()))?;
        views.push((tensor.name(), view));
    }
    // transformers refuses a file that does not say which framework's layout its tensors have.
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    safetensors::serialize_to_file(views, Some(metadata), &path)
        .map_err(|e| ExportError::Serialize(e.to_string()))?;
    sync_file(&path)?;
    for (source, name) in [
        (&extras.tokenizer, TOKENIZER_FILE),
        (&extras.tokenizer_config, TOKENIZER_CONFIG_FILE),
        (&extras.chat_template, CHAT_TEMPLATE_FILE),
    ] {
        if let Some(source) = source {
            let path = partial.join(name);
            fs::copy(source, &path).map_err(writing(source))?;
            sync_file(&path)?;
        }
    }
    sync_dir(partial)
}

fn generation_config(config: &ModelConfig, extras: &ExportExtras) -> String {
    let ends = if extras.end_tokens.is_empty() { &config.eos_token_ids } else { &extras.end_tokens };
    let eos = match ends.as_slice() {
        [] => serde_json::Value::Null,
        [one] => json!(one),
        many => json!(many),
    };
    let root = json!({
        "bos_token_id": config.bos_token_id,
        "eos_token_id": eos,
        "pad_token_id": config.pad_token_id,
        "do_sample": true,
        "temperature": extras.temperature.unwrap_or(1.0),
        "top_p": 1.0,
        "top_k": 0,
    });
    format!("{root:#}\n")
}

fn writing(path: &Path) -> impl FnOnce(std::io::Error) -> ExportError {
    let path = path.to_owned();
    move |source| ExportError::Write { path, source }
}

/// Opened for writing, because Windows flushes such files only.
fn sync_file(path: &Path) -> Result<(), ExportError> {
    let file = File::options().write(true).open(path).map_err(writing(path))?;
    file.sync_all().map_err(writing(path))
}

/// Makes the names in a directory durable; Windows has no such operation, and journals them itself.
fn sync_dir(path: &Path) -> Result<(), ExportError> {
    if cfg!(unix) {
        File::open(path).and_then(|dir| dir.sync_all()).map_err(writing(path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::TinySizes;
    use crate::text::tokenizer::end_tokens;

    fn model() -> (ModelConfig, Weights) {
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
        let mut config = ModelConfig::tiny_qwen3(sizes).unwrap();
        config.eos_token_ids = vec![1];
        let weights = Weights::random(&config, 9);
        (config, weights)
    }

    #[test]
    fn an_export_loads_again_and_leaves_nothing_else() {
        let (config, weights) = model();
        let home = tempfile::tempdir().unwrap();
        let tokenizer = home.path().join("t.json");
        fs::write(&tokenizer, "{}").unwrap();
        let dir = home.path().join("a/model");
        let chat_template = Some(home.path().join("c.jinja"));
        fs::write(home.path().join("c.jinja"), "{{ messages }}").unwrap();
        let extras = ExportExtras { tokenizer: Some(tokenizer), chat_template, ..ExportExtras::default() };
        export(&dir, &config, &weights, DType::BF16, &extras).unwrap();
        let again = ModelConfig::from_file(&dir.join("config.json")).unwrap();
        assert_eq!(again, config);
        let loaded = Weights::load_dir(&dir, &again).unwrap();
        let expected = weights.to_dtype(DType::BF16);
        assert!(expected.iter().zip(loaded.iter()).all(|(a, b)| a.bytes() == b.bytes()));
        assert_eq!(fs::read_to_string(dir.join("tokenizer.json")).unwrap(), "{}");
        assert_eq!(fs::read_to_string(dir.join("chat_template.jinja")).unwrap(), "{{ messages }}");
        assert_eq!(end_tokens(&dir).unwrap(), Some(vec![1]));
        assert_eq!(fs::read_dir(home.path().join("a")).unwrap().count(), 1);
        let several = ExportExtras { end_tokens: vec![1, 4], ..ExportExtras::default() };
        export(&home.path().join("b"), &config, &weights, DType::F32, &several).unwrap();
        assert_eq!(end_tokens(&home.path().join("b")).unwrap(), Some(vec![1, 4]));
        let taken = export(&dir, &config, &weights, DType::F32, &ExportExtras::default());
        assert!(matches!(taken, Err(ExportError::Exists { .. })));
    }

    #[test]
    fn a_failed_export_leaves_nothing() {
        let (config, weights) = model();
        let home = tempfile::tempdir().unwrap();
        let missing = ExportExtras { tokenizer: Some(home.path().join("none")), ..ExportExtras::default() };
        let result = export(&home.path().join("model"), &config, &weights, DType::F32, &missing);
        assert!(matches!(result, Err(ExportError::Write { .. })));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
