//! The model that all engines of the race read: seeded random weights
//! ([`echo_policy::bench_models`]), kept from run to run.

use anyhow::Context as _;
use echo_policy::bench_models::{SEED, weights};
use echo_policy::model::export::{ExportExtras, export};
use echo_policy::model::weights::DType;
use std::path::{Path, PathBuf};

pub use echo_policy::bench_models::Size;
pub(crate) use echo_policy::bench_models::{tokens, unit};

/// Where a model is kept, and the same for llama.cpp.
pub(crate) fn places(size: Size, home: &Path) -> (PathBuf, PathBuf) {
    let name = format!("qwen3-{size}-seed{SEED}");
    (home.join(&name), home.join(format!("{name}.gguf")))
}

/// Makes the model unless it is there.
/// Fails when it cannot be written.
pub(crate) fn make(size: Size, dir: &Path) -> anyhow::Result<()> {
    if dir.join("config.json").is_file() {
        return Ok(());
    }
    let config = size.config()?;
    export(dir, &config, &weights(&config)?, DType::BF16, &ExportExtras::default())
        .with_context(|| format!("the model of the race, {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_policy::model::config::ModelConfig;
    use echo_policy::model::weights::Weights;

    #[test]
    fn the_model_is_made_once_and_is_the_one_it_is_called() {
        let home = tempfile::tempdir().unwrap();
        let (dir, gguf) = places(Size::Tiny, home.path());
        assert_eq!(gguf.parent(), Some(home.path()));
        make(Size::Tiny, &dir).unwrap();
        let config = ModelConfig::from_file(&dir.join("config.json")).unwrap();
        assert_eq!(config, Size::Tiny.config().unwrap());
        let written = Weights::load_dir(&dir, &config).unwrap();
        let made = weights(&config).unwrap();
        assert!(written.iter().zip(made.iter()).all(|(written, made)| written.bytes() == made.bytes()));
        let written = dir.join("model.safetensors").metadata().unwrap().modified().unwrap();
        make(Size::Tiny, &dir).unwrap();
        assert_eq!(dir.join("model.safetensors").metadata().unwrap().modified().unwrap(), written);
    }
}
