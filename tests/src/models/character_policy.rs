//! Policies over characters, as the Hugging Face directories that everything else takes.

use anyhow::Context as _;
use echo_policy::model::config::ModelConfig;
use echo_policy::model::export::{ExportExtras, export};
use echo_policy::model::weights::{DType, Weights};
use echo_policy::text::tokenizer::CharTokenizer;
use std::path::Path;

/// Writes the policy in bf16, with the tokenizer of characters, to a directory that does not exist yet.
/// Fails when it exists, or the disk is full.
pub(crate) fn save(target: &Path, model: &ModelConfig, weights: &Weights) -> anyhow::Result<()> {
    let files = tempfile::tempdir().context("no directory for temporary files")?;
    CharTokenizer::default().save_huggingface(files.path())?;
    let extras = ExportExtras {
        tokenizer: Some(files.path().join("tokenizer.json")),
        tokenizer_config: Some(files.path().join("tokenizer_config.json")),
        ..ExportExtras::default()
    };
    Ok(export(target, model, weights, DType::BF16, &extras)?)
}
