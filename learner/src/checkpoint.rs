//! Checkpoints: everything that the next update depends on, atomically.
//!
//! A checkpoint is a directory named by its version: weights and optimizer state as safetensors, and `state.json` with the BLAKE3
//! of both. It is written beside its place, synced, and renamed into it. Nothing else is random or hidden: prompts, samples and
//! batches follow from the run and the journal, so the same checkpoint leads to the same updates.

use crate::optimizer::{AdamW, OptimizerError};
use candle_core::{Device, Tensor, safetensors};
use echo_policy::decoder::Decoder;
use echo_protocol::content::ContentId;
use echo_protocol::version::PolicyVersion;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Checkpoints kept; older ones are deleted once a newer one is durable.
pub const KEPT_CHECKPOINTS: usize = 3;

const WEIGHTS: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.json";

/// Why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The disk.
    #[error("checkpoint {path}: {source} (is the disk full?)")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The content is not what was written.
    #[error("checkpoint {path} is damaged: {what}")]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Tensors.
    #[error("checkpoint {path}: {source}")]
    Tensor {
        /// The directory.
        path: PathBuf,
        /// What candle said.
        source: candle_core::Error,
    },
    /// The optimizer refuses its state.
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
}

#[derive(Serialize, Deserialize)]
struct State {
    version: PolicyVersion,
    /// File name → BLAKE3 in hexadecimal.
    files: BTreeMap<String, String>,
}

/// Writes the checkpoint of `version`, durably, and deletes all but the newest [`KEPT_CHECKPOINTS`].
pub fn write(
    dir: &Path,
    version: PolicyVersion,
    decoder: &Decoder,
    optimizer: &AdamW,
) -> Result<(), CheckpointError> {
    let place = place(dir, version);
    if place.exists() {
        if read(dir, version, &Device::Cpu).is_ok() {
            return Ok(());
        }
        // Damaged since: the run has come back to this version.
        fs::remove_dir_all(&place).map_err(io_error(&place))?;
    }
    let draft = dir.join(format!(".{:012}.draft", version.0));
    if draft.exists() {
        fs::remove_dir_all(&draft).map_err(io_error(&draft))?;
    }
    fs::create_dir_all(&draft).map_err(io_error(&draft))?;
    let tensor = |source| CheckpointError::Tensor { path: place.clone(), source };
    let weights: HashMap<String, Tensor> =
        decoder.vars().iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect();
    safetensors::save(&weights, draft.join(WEIGHTS)).map_err(tensor)?;
    let moments: HashMap<String, Tensor> = optimizer.state()?.into_iter().collect();
    safetensors::save(&moments, draft.join(OPTIMIZER)).map_err(tensor)?;
    let mut state = State { version, files: BTreeMap::new() };
    for name in [WEIGHTS, OPTIMIZER] {
        state.files.insert(name.to_owned(), sync_and_hash(&draft.join(name))?);
    }
    let text = serde_json::to_string_pretty(&state).expect("a map of strings serialises");
    fs::write(draft.join(STATE), text).map_err(io_error(&draft))?;
    sync_and_hash(&draft.join(STATE))?;
    sync_dir(&draft)?;
    fs::rename(&draft, &place).map_err(io_error(&place))?;
    sync_dir(dir)?;
    let old: Vec<PolicyVersion> = list(dir)?.into_iter().rev().skip(KEPT_CHECKPOINTS).collect();
    old.into_iter().try_for_each(|v| fs::remove_dir_all(self::place(dir, v)).map_err(io_error(dir)))
}

/// A checkpoint in memory.
#[derive(Debug)]
pub struct Checkpoint {
    /// Its version.
    pub version: PolicyVersion,
    /// Parameters by Hugging Face name, f32.
    pub weights: BTreeMap<String, Tensor>,
    /// The optimizer's state.
    pub optimizer: BTreeMap<String, Tensor>,
}

/// Reads the newest checkpoint that is whole, and says which ones are not.
pub fn newest(
    dir: &Path,
    device: &Device,
) -> Result<(Option<Checkpoint>, Vec<CheckpointError>), CheckpointError> {
    let mut damaged = Vec::new();
    for version in list(dir)?.into_iter().rev() {
        match read(dir, version, device) {
            Ok(checkpoint) => return Ok((Some(checkpoint), damaged)),
            Err(error) => damaged.push(error),
        }
    }
    Ok((None, damaged))
}

fn read(dir: &Path, version: PolicyVersion, device: &Device) -> Result<Checkpoint, CheckpointError> {
    let path = place(dir, version);
    let damaged = |what: String| CheckpointError::Damaged { path: path.clone(), what };
    let text = fs::read_to_string(path.join(STATE)).map_err(io_error(&path))?;
    let state: State = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
    if state.version != version {
        return Err(damaged(format!("it says that it is {}", state.version)));
    }
    let load = |name: &str| {
        let bytes = fs::read(path.join(name)).map_err(io_error(&path.join(name)))?;
        if state.files.get(name) != Some(&ContentId::of(&bytes).to_string()) {
            return Err(damaged(format!("{name} does not match its recorded hash")));
        }
        let tensors = safetensors::load_buffer(&bytes, device);
        let tensors = tensors.map_err(|source| CheckpointError::Tensor { path: path.clone(), source })?;
        Ok(tensors.into_iter().collect())
    };
    Ok(Checkpoint { version, weights: load(WEIGHTS)?, optimizer: load(OPTIMIZER)? })
}

/// The oldest checkpoint that is kept: nothing before it will ever be resumed from.
pub fn oldest(dir: &Path) -> Result<Option<PolicyVersion>, CheckpointError> {
    Ok(list(dir)?.first().copied())
}

/// Versions with a checkpoint, oldest first.
fn list(dir: &Path) -> Result<Vec<PolicyVersion>, CheckpointError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io_error(dir)(e)),
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut versions: Vec<_> = names.filter_map(|name| name.parse().ok()).map(PolicyVersion).collect();
    versions.sort_unstable();
    Ok(versions)
}

fn place(dir: &Path, version: PolicyVersion) -> PathBuf {
    dir.join(format!("{:012}", version.0))
}

fn sync_and_hash(path: &Path) -> Result<String, CheckpointError> {
    // Writable, because Windows syncs no other files.
    let mut file = File::options().read(true).write(true).open(path).map_err(io_error(path))?;
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut file, &mut hasher).map_err(io_error(path))?;
    file.sync_all().map_err(io_error(path))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Makes a rename durable. Directories can only be synced on Unix; elsewhere the file system's journal does it.
fn sync_dir(dir: &Path) -> Result<(), CheckpointError> {
    if cfg!(unix) {
        File::open(dir).and_then(|d| d.sync_all()).map_err(io_error(dir))?;
    }
    Ok(())
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> CheckpointError + use<> {
    let path = path.to_owned();
    move |source| CheckpointError::Io { path, source }
}
