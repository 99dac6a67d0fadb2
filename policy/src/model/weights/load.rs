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
    /// are skipped: a copy of a tied output projection, and tables of rotary frequencies. An output
    /// projection that is no copy is an error: whether the model is tied or not, one of the files is wrong.
    ///
    /// The files must not be written to while the weights are in use; Echo installs a model by
    /// renaming a whole directory.
    ///
    /// # Errors
    /// When a file is absent or malformed, or the tensors do not fit the configuration.
    pub fn load_dir(dir: &Path, config: &ModelConfig) -> Result<Self, WeightsError> {
        let single = dir.join(SINGLE);
        let files = match (single.is_file(), dir.join(INDEX).exists()) {
            (true, _) => vec![single],
            (false, true) => shard_files(dir)?,
            (false, false) => {
                return Err(WeightsError::NoWeights { dir: dir.to_owned(), found: instead(dir) });
            }
        };
        let mut found = Vec::new();
        for path in files {
            read_file(&path, &mut found)?;
        }
        name_as_decoder(&mut found);
        if config.tie_word_embeddings {
            drop_copy(&mut found)?;
        }
        Self::assemble(config, found)
    }

    /// Whether every number is one.
    ///
    /// # Errors
    /// [`WeightsError::NotFinite`] names the first tensor that has another.
    pub fn check_finite(&self) -> Result<(), WeightsError> {
        match self.iter().find(|tensor| !tensor.is_finite()) {
            Some(tensor) => Err(WeightsError::NotFinite { name: tensor.name().to_owned() }),
            None => Ok(()),
        }
    }
}

/// Gives tensors the names that they have in a language model, where they were saved as a decoder without its
/// output projection: transformers does the same.
fn name_as_decoder(found: &mut [WeightTensor]) {
    if found.iter().any(|tensor| tensor.name() == "embed_tokens.weight") {
        for tensor in found.iter_mut().filter(|tensor| tensor.name() != "lm_head.weight") {
            tensor.spec.name.insert_str(0, "model.");
        }
    }
}

/// Takes out the output projection of a tied model, which must be the embedding once more.
fn drop_copy(found: &mut Vec<WeightTensor>) -> Result<(), WeightsError> {
    let Some(at) = found.iter().position(|tensor| tensor.name() == "lm_head.weight") else { return Ok(()) };
    let head = found.remove(at);
    match found.iter().find(|tensor| tensor.name() == "model.embed_tokens.weight") {
        Some(embedding) if !same(embedding, &head) => Err(WeightsError::OtherHead),
        // Without an embedding the complaint is another.
        _ => Ok(()),
    }
}

fn same(one: &WeightTensor, other: &WeightTensor) -> bool {
    let alike = (one.dtype(), one.shape()) == (other.dtype(), other.shape());
    alike && one.bytes() == other.bytes()
}

/// What a directory holds in place of safetensors files, and what to do about it.
fn instead(dir: &Path) -> String {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return "there is no such directory; check the path".to_owned();
    };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let first = |is_wanted: &dyn Fn(&str) -> bool| names.iter().find(|name| is_wanted(name));
    if let Some(name) = first(&|name| name.starts_with("adapter_model.")) {
        return format!("{name} is a LoRA adapter; merge it into its model first (peft: merge_and_unload)");
    }
    if let Some(name) = first(&|name| name.ends_with(".safetensors")) {
        return format!(
            "{name} is not {SINGLE}, and there is no {INDEX}; fetch the index as well, or rename the file"
        );
    }
    if let Some(name) = first(&|name| [".bin", ".pt", ".pth"].iter().any(|end| name.ends_with(end))) {
        return format!(
            "{name} is not read, {SINGLE} is; convert it with transformers: \
             AutoModelForCausalLM.from_pretrained(\"{0}\").save_pretrained(\"{0}-safetensors\")",
            dir.display()
        );
    }
    if let Some(name) = first(&|name| name.ends_with(".gguf")) {
        return format!("{name} is of llama.cpp; take the model's directory with {SINGLE} from its maker");
    }
    format!("neither {SINGLE} nor {INDEX} is there; fetch the whole model again")
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

fn read_file(path: &Path, found: &mut Vec<WeightTensor>) -> Result<(), WeightsError> {
    let read = |source| WeightsError::Read { path: path.to_owned(), source };
    let malformed = |reason: String| WeightsError::Malformed { path: path.to_owned(), reason };
    let file = File::open(path).map_err(read)?;
    // SAFETY: the map is only read, and the directory is not written to after it was moved
    // into place (see `load_dir`).
    let map = Arc::new(unsafe { Mmap::map(&file) }.map_err(read)?);
    let base = map.as_ptr() as usize;
    let tensors = SafeTensors::deserialize(&map).map_err(|e| malformed(e.to_string()))?;
    for (name, view) in tensors.iter() {
        if name.contains(".rotary_emb.") {
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
