//! Founding a run: key, model, starting policy, charter.

mod error;
mod overruled;
mod start;
mod tasks;

use crate::config::RunConfig;
use crate::run_dir::RunDir;
use crate::sampling_audit::check_room;
use crate::warmup::warm_up;
use crate::workload::Workload;
use echo_policy::export::{ExportExtras, export};
use echo_policy::tokenizer::CharTokenizer;
use echo_policy::weights::{DType, Weights};
use echo_protocol::charter::{Charter, CharterError, RunId, TokenizerSpec};
use echo_protocol::clock;
use echo_protocol::identity::NodeKey;
use echo_protocol::signed::Signed;
use echo_protocol::time::UnixMillis;
use echo_sandbox::files::TaskFiles;
use error::io_error;
use start::Start;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tasks::{Tasks, kept_files, task_paths};

pub use error::PrepareError;
pub use overruled::overruled;
pub(crate) use start::character_vocabulary;

/// Files of a Hugging Face directory that make its tokenizer, and travel with snapshots.
const TOKENIZER_FILES: [&str; 3] = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];

/// A run that is ready to go on.
#[derive(Debug)]
pub struct Founded {
    /// Its directory.
    pub dir: RunDir,
    /// Its run file.
    pub config: RunConfig,
    /// Its key.
    pub key: NodeKey,
    /// Its charter.
    pub charter: Signed<Charter>,
    /// What the charter means.
    pub workload: Workload,
}

/// Founds a run: makes the starting policy, signs the charter, and writes both. `progress` hears of warm-up updates and their loss.
///
/// The charter is written last: a directory without one holds no run, and founding it again begins anew.
pub fn found(config: &RunConfig, progress: impl FnMut(u64, f64)) -> Result<Founded, PrepareError> {
    let dir = RunDir::new(&config.run.dir);
    if dir.charter().exists() {
        return Err(PrepareError::Exists(dir.path().to_owned()));
    }
    // A device that is not there is told before anything is made.
    config.train.device.open(config.train.compute)?;
    fs::create_dir_all(dir.path()).map_err(io_error(dir.path()))?;
    let key = dir.key()?;
    let Beginning { charter, workload, tasks, weights, files } =
        begin(config, &key, clock::wall(), progress)?;
    if dir.start().exists() {
        fs::remove_dir_all(dir.start()).map_err(io_error(&dir.start()))?;
    }
    export_policy(&dir.start(), &workload, &weights, files.as_deref())?;
    let text = toml::to_string(&absolute(config)?)
        .map_err(|e| PrepareError::Io { path: dir.config(), source: io::Error::other(e) })?;
    fs::write(dir.config(), text).map_err(io_error(&dir.config()))?;
    tasks.keep(&dir)?;
    write_whole(&dir.charter(), &charter.to_bytes())?;
    Ok(Founded { dir, config: config.clone(), key, charter, workload })
}

/// A run before anything of it is written.
pub(crate) struct Beginning {
    charter: Signed<Charter>,
    /// What the charter means.
    pub(crate) workload: Workload,
    tasks: Tasks,
    /// The starting policy.
    pub(crate) weights: Weights,
    /// The directory that it was read from.
    files: Option<PathBuf>,
}

impl Beginning {
    /// The files that its tasks are made of.
    pub(crate) fn task_files(&self) -> &TaskFiles {
        &self.tasks.files
    }
}

/// Begins the run of `key` that is founded at `created`: the same arguments give the same run.
pub(crate) fn begin(
    config: &RunConfig,
    key: &NodeKey,
    created: UnixMillis,
    progress: impl FnMut(u64, f64),
) -> Result<Beginning, PrepareError> {
    let tasks = Tasks::read(config)?;
    tasks.mix.tasks().try_for_each(|task| task.try_solutions())?;
    if config.warmup.is_some()
        && let Some(task) = tasks.mix.tasks().find(|task| !task.knows_solutions())
    {
        return Err(PrepareError::NoSolutions(task.name()));
    }
    let start = Start::of(config, &tasks.mix)?;
    let files = start.files.as_deref().unwrap_or(Path::new(""));
    let charter = Signed::sign(&start.charter(config, &tasks, key, created)?, key)?;
    let (run, opened) = Charter::open(&charter)?;
    let workload = Workload::open(run, opened, files, &tasks.files)?;
    check_room(&config.admission, &workload)?;
    let weights = match &config.warmup {
        Some(section) => warm_up(&workload, config, section, &start.weights, progress)?,
        None => start.weights,
    };
    Ok(Beginning { charter, workload, tasks, weights, files: start.files })
}

/// Founds a run that only rehearses broadcasts of `policy`, a Hugging Face directory, which says what the model is. Nothing of it is
/// kept but the key: each rehearsal is a new run, and nodes leave the one before for it.
///
/// # Errors
/// [`PrepareError::Exists`] where a training run lives: its nodes would take the rehearsal's policies for its own.
pub fn rehearse(config: &RunConfig, policy: &Path) -> Result<Founded, PrepareError> {
    let dir = RunDir::new(&config.run.dir);
    if dir.charter().exists() {
        return Err(PrepareError::Exists(dir.path().to_owned()));
    }
    if dir.chunks().exists() {
        fs::remove_dir_all(dir.chunks()).map_err(io_error(&dir.chunks()))?;
    }
    fs::create_dir_all(dir.path()).map_err(io_error(dir.path()))?;
    let key = dir.key()?;
    let tasks = Tasks::read(config)?;
    tasks.keep(&dir)?;
    let start = Start::at(policy)?;
    let charter = Signed::sign(&start.charter(config, &tasks, &key, clock::wall())?, &key)?;
    let (run, opened) = Charter::open(&charter)?;
    let workload = Workload::open(run, opened, policy, &tasks.files)?;
    Ok(Founded { dir, config: config.clone(), key, charter, workload })
}

/// Opens the run in `path`.
pub fn find(path: &Path) -> Result<Founded, PrepareError> {
    let dir = RunDir::new(path);
    if !dir.charter().exists() {
        return Err(PrepareError::NotARun(path.to_owned()));
    }
    let mut config = RunConfig::load(&dir.config())?;
    // The directory may have been moved since.
    config.run.dir = path.to_owned();
    let bytes = fs::read(dir.charter()).map_err(io_error(&dir.charter()))?;
    let charter = Signed::from_bytes(&bytes)?;
    let (run, opened): (RunId, Charter) = Charter::open(&charter)?;
    let key = dir.key()?;
    if key.public() != opened.learner {
        return Err(CharterError::NotTheLearner { named: opened.learner, signer: key.public() }.into());
    }
    let files = kept_files(&dir, &opened.tasks)?;
    let workload = Workload::open(run, opened, &dir.start(), &files)?;
    check_room(&config.admission, &workload)?;
    Ok(Founded { dir, config, key, charter, workload })
}

/// Writes a Hugging Face directory with weights, configuration and tokenizer.
pub fn export_policy(
    target: &Path,
    workload: &Workload,
    weights: &Weights,
    tokenizer: Option<&Path>,
) -> Result<(), PrepareError> {
    let made = tempfile::tempdir().map_err(io_error(target))?;
    let files = match tokenizer {
        Some(dir) => dir.to_owned(),
        None => {
            let alphabet = match &workload.charter.tokenizer {
                TokenizerSpec::Characters { alphabet } => alphabet.as_str(),
                TokenizerSpec::Snapshot | TokenizerSpec::Chat => "",
            };
            CharTokenizer::of_charter(alphabet)?.save_huggingface(made.path())?;
            made.path().to_owned()
        }
    };
    let present = |name: &str| Some(files.join(name)).filter(|path| path.exists());
    let extras = ExportExtras {
        tokenizer: present("tokenizer.json"),
        tokenizer_config: present("tokenizer_config.json"),
        chat_template: present("chat_template.jinja"),
        temperature: Some(workload.charter.sampling.temperature),
    };
    Ok(export(target, &workload.model, weights, DType::F32, &extras)?)
}

/// The companion files of a run's snapshots: those of its tasks, and of its tokenizer, which lies in `tokenizer`, unless that is a
/// built-in one.
pub fn companion_files(founded: &Founded, tokenizer: &Path) -> Vec<PathBuf> {
    let charter = &founded.workload.charter;
    let mut files = if charter.tokenizer.travels() { tokenizer_files(tokenizer) } else { Vec::new() };
    files.extend(task_paths(&founded.dir, &charter.tasks).map(|(_, path)| path));
    files
}

/// The files of a Hugging Face directory that make its tokenizer.
fn tokenizer_files(dir: &Path) -> Vec<PathBuf> {
    TOKENIZER_FILES.iter().map(|name| dir.join(name)).filter(|path| path.exists()).collect()
}

/// The same run file with absolute paths, so that it means the same from inside the run directory.
fn absolute(config: &RunConfig) -> Result<RunConfig, PrepareError> {
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(io_error(path));
    let mut config = config.clone();
    config.run.dir = absolute(&config.run.dir)?;
    for path in config.task_files() {
        *path = absolute(path)?;
    }
    config.model.path = config.model.path.as_ref().map(absolute).transpose()?;
    config.network.peers = config.network.peers.as_ref().map(absolute).transpose()?;
    config.checkpoints.resolve(|path| absolute(&path.to_owned()))?;
    Ok(config)
}

/// Puts `bytes` at `path`, durably and as a whole.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), PrepareError> {
    let draft = path.with_extension("draft");
    fs::write(&draft, bytes)
        .and_then(|()| fs::File::options().write(true).open(&draft)?.sync_all())
        .and_then(|()| fs::rename(&draft, path))
        .map_err(io_error(path))
}

#[cfg(test)]
mod tests;
