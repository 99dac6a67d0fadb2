//! Reading weights from a Hugging Face directory by memory-mapping its safetensors files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;
use safetensors::SafeTensors;
use serde::Deserialize;

use super::{Bytes, DType, TensorSpec, WeightTensor, Weights, WeightsError};
use crate::model::config::ModelConfig;

/// Longest `model.safetensors.index.json` that is read, in bytes.
pub const MAX_INDEX_BYTES: u64 = 32 << 20;
/// Most shard files of one model.
pub const MAX_SHARDS: usize = 1024;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: BTreeMap<String, String>,
}

impl Weights {
    /// Memory-maps `model.safetensors`, or the shards of `model.safetensors.index.json`, and
    /// checks them against `config`.
    ///
    /// Tensors stay in the file's element type. Two kinds of tensors that older tools left in files
    /// are skipped: a copy of a tied output projection, and tables of rotary frequencies.
    ///
    /// The files must not be written to while the weights are in use; Echo installs a model by
    /// renaming a whole directory.
    ///
    /// # Errors
    /// When a file is absent or malformed, or the tensors do not fit the configuration.
    pub fn load_dir(dir: &Path, config: &ModelConfig) -> Result<Self, WeightsError> {
        let single = dir.join(SINGLE);
        let files = if single.is_file() { vec![single] } else { shard_files(dir)? };
        let mut found = Vec::new();
        for path in files {
            read_file(&path, config, &mut found)?;
        }
        Self::assemble(config, found)
    }
}

fn shard_files(dir: &Path) -> Result<Vec<PathBuf>, WeightsError> {
    let path = dir.join(INDEX);
    let malformed = |reason: String| WeightsError::Malformed { path: path.clone(), reason };
    let read = |source| WeightsError::Read { path: path.clone(), source };
    let mut text = String::new();
    let file = File::open(&path).map_err(read)?;
    file.take(MAX_INDEX_BYTES + 1).read_to_string(&mut text).map_err(read)?;
    if text.len() as u64 > MAX_INDEX_BYTES {
        return Err(malformed(format!("longer than {MAX_INDEX_BYTES} bytes")));
    }
    let index: ShardIndex = serde_json::from_str(&text).map_err(|e| malformed(e.to_string()))?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    if names.is_empty() || names.len() > MAX_SHARDS {
        return Err(malformed(format!("names {} shards, 1 to {MAX_SHARDS} are allowed", names.len())));
    }
    let mut files = Vec::with_capacity(names.len());
    for name in names {
        // A shard is a plain file name: an index must not reach outside of its directory.
        let mut parts = Path::new(&name).components();
        let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        if !plain || name.contains(['/', '\\', ':']) {
            return Err(malformed("a shard's name is not a plain file name".into()));
        }
        files.push(dir.join(name));
    }
    Ok(files)
}

fn read_file(path: &Path, config: &ModelConfig, found: &mut Vec<WeightTensor>) -> Result<(), WeightsError> {
    let read = |source| WeightsError::Read { path: path.to_owned(), source };
    let malformed = |reason: String| WeightsError::Malformed { path: path.to_owned(), reason };
    let file = File::open(path).map_err(read)?;
    // SAFETY: the map is only read, and the directory is not written to after it was moved
    // into place (see `load_dir`).
    let map = Arc::new(unsafe { Mmap::map(&file) }.map_err(read)?);
    let base = map.as_ptr() as usize;
    let tensors = SafeTensors::deserialize(&map).map_err(|e| malformed(e.to_string()))?;
    for (name, view) in tensors.iter() {
        let leftover_head = config.tie_word_embeddings && name == "lm_head.weight";
        if leftover_head || name.ends_with(".rotary_emb.inv_freq") {
            continue;
        }
        let dtype = DType::try_from(view.dtype()).map_err(|other| WeightsError::Dtype {
            name: name.chars().take(80).collect(),
            dtype: format!("{other:?}"),
        })?;
        let start = view.data().as_ptr() as usize - base;
        let bytes = Bytes::Mapped(Arc::clone(&map), start..start + view.data().len());
        let spec = TensorSpec { name: name.to_owned(), shape: view.shape().to_vec() };
        found.push(WeightTensor { spec, dtype, bytes });
    }
    Ok(())
}
