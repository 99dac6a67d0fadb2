//! Founding a run: key, model, starting policy, charter.
//!
//! This folder imports `config`, `training`, `verification` (how many policies an audit
//! keeps), `intake`, `storage` and `common`.
//!
//! ```text
//! run file ─> examination: all that is wrong, and what is odd (sanity, room); nothing is written
//! run file ─> claim: the directory's lock
//!     └─ found
//!          ├─ tasks, start     files, model, tokenizer, weights
//!          ├─ audit_memory     is there memory for every precision?
//!          ├─ warmup           supervised updates, if the run file asks for them
//!          └─ start/, run.toml, tasks/, and last charter.cbor: from here on there is a run
//! resume ─> find: the same, read back; overruled: settings that the charter has fixed
//! ```

pub mod audit_memory;
mod error;
pub mod examination;
mod limits;
mod overruled;
pub mod room;
pub mod sanity;
mod start;
mod tasks;
pub mod warmup;

use crate::common::workload::Workload;
use crate::config::{RunConfig, Setting};
use crate::founding::audit_memory::check_room;
use crate::founding::warmup::warm_up;
use crate::storage::atomic_file::write_whole;
use crate::storage::hub::{Pin, is_hub_name};
use crate::storage::run_dir::{RunDir, RunLock};
use echo_policy::model::export::{ExportExtras, export};
use echo_policy::model::weights::Weights;
use echo_policy::text::tokenizer::CharTokenizer;
use echo_protocol::program::clock;
use echo_protocol::program::lock::LockError;
use echo_protocol::run::charter::{Charter, RunId, TokenizerSpec};
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_sandbox::task::JudgedPart;
use echo_sandbox::task::files::TaskFiles;
use error::io_error;
use start::StartingPoint;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tasks::{Tasks, address_modules, kept_files, task_paths};

pub use error::PrepareError;
pub use overruled::overruled;
pub(crate) use start::{character_vocabulary, prompting};
pub(crate) use tasks::read_task_file;

/// Files of a Hugging Face directory that make its tokenizer, and travel with snapshots.
const TOKENIZER_FILES: [&str; 3] = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];

/// A run that is ready to go on.
#[derive(Debug)]
pub struct Founded {
    /// The run directory, in which everything of the run lies.
    pub dir: RunDir,
    /// The run file, as it is kept in the directory or was just read.
    pub config: RunConfig,
    /// The run's key, which signs charter, leases, receipts and manifests.
    pub key: NodeKey,
    /// The charter, signed by this key.
    pub charter: Signed<Charter>,
    /// What the charter means.
    pub workload: Workload,
    /// Keeps other learners out of the directory.
    pub lock: RunLock,
}

/// A directory in which a run may be founded, and nobody else can work meanwhile.
#[derive(Debug)]
pub struct ClaimedRunDir {
    dir: RunDir,
    lock: RunLock,
}

/// Takes the directory of a run file, before anything in it is read or written.
///
/// # Errors
/// When another learner works there, or there is a run already.
pub fn claim(config: &RunConfig) -> Result<ClaimedRunDir, PrepareError> {
    let dir = RunDir::new(&config.run.dir);
    let lock = lock(&dir)?;
    if dir.charter().exists() {
        return Err(PrepareError::Exists(dir.path().to_owned()));
    }
    check_remains(&dir)?;
    Ok(ClaimedRunDir { dir, lock })
}

/// Looks whether [`claim`] would work, and makes nothing.
///
/// # Errors
/// As [`claim`].
pub(crate) fn claimable(config: &RunConfig) -> Result<(), PrepareError> {
    let dir = RunDir::new(&config.run.dir);
    if dir.charter().exists() {
        return Err(PrepareError::Exists(dir.path().to_owned()));
    }
    check_remains(&dir)?;
    // Whoever works there has made it.
    if dir.is_locked_by_somebody() { Err(PrepareError::Busy(dir.path().to_owned())) } else { Ok(()) }
}

/// A directory that has come to something and has no charter has lost it: a run that is founded there would
/// write over the rest.
fn check_remains(dir: &RunDir) -> Result<(), PrepareError> {
    // The directory of checkpoints is made when their store is looked at, before a run is founded.
    let holds_something =
        |path: PathBuf| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    match [dir.checkpoints(), dir.database()].into_iter().any(holds_something) {
        true => Err(PrepareError::CharterGone(dir.charter())),
        false => Ok(()),
    }
}

fn lock(dir: &RunDir) -> Result<RunLock, PrepareError> {
    dir.lock().map_err(|error| match error {
        LockError::Held => PrepareError::Busy(dir.path().to_owned()),
        LockError::Io(source) => PrepareError::Io { path: dir.path().to_owned(), source },
    })
}

/// Claims the directory of `config` and founds a run there: [`ClaimedRunDir::found`].
pub fn found(config: &RunConfig, progress: impl FnMut(u64, f64)) -> Result<Founded, PrepareError> {
    claim(config)?.found(config, progress)
}

impl ClaimedRunDir {
    /// Founds a run: makes the starting policy, signs the charter, and writes both. `progress` hears of
    /// warm-up updates and their loss.
    ///
    /// The charter is written last: a directory without one holds no run, and founding it again begins anew.
    ///
    /// # Errors
    /// When the run file asks for something that cannot be had, or the directory cannot be written.
    pub fn found(self, config: &RunConfig, progress: impl FnMut(u64, f64)) -> Result<Founded, PrepareError> {
        let tasks = Tasks::read(config)?;
        tasks.check(config)?;
        self.found_on(tasks, config, progress)
    }

    /// The same for a run that has been examined: the tasks' solutions are not tried again.
    ///
    /// # Errors
    /// As [`ClaimedRunDir::found`].
    pub fn found_examined(
        self,
        config: &RunConfig,
        progress: impl FnMut(u64, f64),
    ) -> Result<Founded, PrepareError> {
        self.found_on(Tasks::read(config)?, config, progress)
    }

    fn found_on(
        self,
        tasks: Tasks,
        config: &RunConfig,
        progress: impl FnMut(u64, f64),
    ) -> Result<Founded, PrepareError> {
        let Self { dir, lock } = self;
        let text = run_file(config)?;
        // A device that is not there is reported before anything is made.
        config.train.device.open(config.train.compute)?;
        let key = dir.key()?;
        let Beginning { charter, workload, tasks, weights, files } =
            begin_on(tasks, config, &key, clock::wall(), progress)?;
        if dir.start().exists() {
            fs::remove_dir_all(dir.start()).map_err(io_error(&dir.start()))?;
        }
        sweep_exports(&dir.start()).map_err(io_error(dir.path()))?;
        export_policy(&dir.start(), &workload, &weights, files.as_deref())?;
        fs::write(dir.config(), text).map_err(io_error(&dir.config()))?;
        tasks.keep(&dir)?;
        keep_pins(&dir, &config.pins)?;
        write_whole(&dir.charter(), &charter.to_bytes())?;
        Ok(Founded { dir, config: config.clone(), key, charter, workload, lock })
    }

    /// Founds a run that only rehearses broadcasts of `policy`, a Hugging Face directory, which
    /// says what the model is. Nothing of it is kept but the key: each rehearsal is a new run, and
    /// nodes leave the one before for it.
    ///
    /// A directory where a training run lives cannot be claimed for it: the run's nodes would take the
    /// rehearsal's policies for its own.
    ///
    /// # Errors
    /// When the policy cannot be read, or the directory cannot be written.
    pub fn rehearse(self, config: &RunConfig, policy: &Path) -> Result<Founded, PrepareError> {
        let Self { dir, lock } = self;
        if dir.chunks().exists() {
            fs::remove_dir_all(dir.chunks()).map_err(io_error(&dir.chunks()))?;
        }
        let key = dir.key()?;
        let tasks = Tasks::read(config)?;
        tasks.keep(&dir)?;
        let start = StartingPoint::at(policy)?;
        let charter = Signed::sign(&start.charter(config, &tasks, &key, clock::wall())?, &key)?;
        let (run, opened) = Charter::open(&charter)?;
        let workload = Workload::open(run, opened, policy, &tasks.files)?;
        Ok(Founded { dir, config: config.clone(), key, charter, workload, lock })
    }
}

/// A run before anything of it is written.
pub(crate) struct Beginning {
    charter: Signed<Charter>,
    /// What the charter means.
    pub(crate) workload: Workload,
    tasks: Tasks,
    /// The starting policy's weights, after the warm-up if there is one.
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
    tasks.check(config)?;
    begin_on(tasks, config, key, created, progress)
}

/// The same with tasks that were read before, and whose solutions were tried.
fn begin_on(
    mut tasks: Tasks,
    config: &RunConfig,
    key: &NodeKey,
    created: UnixMillis,
    progress: impl FnMut(u64, f64),
) -> Result<Beginning, PrepareError> {
    let start = StartingPoint::of(config, &tasks.mix, created)?;
    tasks.mix = tasks.mix.judging(JudgedPart::from(&start.prompt));
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

/// A run as it is kept in its directory.
#[derive(Debug)]
pub struct FoundedRun {
    /// The run directory, as it was named.
    pub dir: RunDir,
    /// The run file as it is kept there, with absolute paths.
    pub config: RunConfig,
    /// The charter; its signature has been checked.
    pub charter: Signed<Charter>,
    /// What the charter means.
    pub workload: Workload,
}

/// Reads the run in `path`. Nothing is written, and a learner may be working there.
///
/// # Errors
/// When there is no run, or a file of it is damaged or gone.
pub fn read(path: &Path) -> Result<FoundedRun, PrepareError> {
    let dir = RunDir::new(path);
    if !dir.charter().exists() {
        return Err(PrepareError::NotARun(path.to_owned()));
    }
    let mut config = RunConfig::load(&dir.config())?;
    // The directory may have been moved since.
    config.run.dir = path.to_owned();
    config.pins = kept_pins(&dir)?;
    let charter = read_charter(&dir.charter())?;
    let (run, opened): (RunId, Charter) = Charter::open(&charter)?;
    let files = kept_files(&dir, &opened.tasks)?;
    let workload = Workload::open(run, opened, &dir.start(), &files)?;
    Ok(FoundedRun { dir, config, charter, workload })
}

/// Writes what names of the Hub came to. The run needs none of it again: model and files are copied
/// into its directory.
fn keep_pins(dir: &RunDir, pins: &[Pin]) -> Result<(), PrepareError> {
    let path = dir.sources();
    if pins.is_empty() {
        // Of a founding that ended early.
        return if path.exists() { fs::remove_file(&path).map_err(io_error(&path)) } else { Ok(()) };
    }
    let text = serde_json::to_vec_pretty(pins)
        .map_err(|error| PrepareError::Damaged { path: path.clone(), why: error.to_string() })?;
    Ok(write_whole(&path, &text)?)
}

fn kept_pins(dir: &RunDir) -> Result<Vec<Pin>, PrepareError> {
    let path = dir.sources();
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read(&path).map_err(io_error(&path))?;
    serde_json::from_slice(&text).map_err(|error| PrepareError::Damaged { path, why: error.to_string() })
}

/// Reads a charter whose signature holds.
fn read_charter(path: &Path) -> Result<Signed<Charter>, PrepareError> {
    let damaged = |why: String| PrepareError::Damaged { path: path.to_owned(), why };
    let bytes = fs::read(path).map_err(io_error(path))?;
    let charter = Signed::<Charter>::from_bytes(&bytes).map_err(|error| damaged(error.to_string()))?;
    charter.open().map_err(|error| damaged(error.to_string()))?;
    Ok(charter)
}

/// Opens the run in `path` to go on with it.
///
/// # Errors
/// When another learner works there, or the run cannot be read or is not this directory's.
pub fn find(path: &Path) -> Result<Founded, PrepareError> {
    find_with(path, &[])
}

/// The same with settings from the command line, which replace those of the run file until the process ends.
///
/// # Errors
/// As [`find`], and when there is no such setting.
pub fn find_with(path: &Path, settings: &[Setting]) -> Result<Founded, PrepareError> {
    let dir = RunDir::new(path);
    if !dir.charter().exists() {
        check_remains(&dir)?;
        return Err(PrepareError::NotARun(path.to_owned()));
    }
    let lock = lock(&dir)?;
    let FoundedRun { dir, mut config, charter, workload } = read(path)?;
    if !settings.is_empty() {
        let pins = std::mem::take(&mut config.pins);
        config = RunConfig::load_with(&dir.config(), settings)?;
        (config.run.dir, config.pins) = (path.to_owned(), pins);
    }
    let key = dir.key()?;
    let (found, named) = (key.public(), workload.charter.learner);
    if found != named {
        return Err(PrepareError::OtherKey { path: dir.identity(), found, named });
    }
    check_room(&config.admission, &workload)?;
    Ok(Founded { dir, config, key, charter, workload, lock })
}

/// Writes a Hugging Face directory with weights, configuration and tokenizer.
pub fn export_policy(
    target: &Path,
    workload: &Workload,
    weights: &Weights,
    tokenizer: Option<&Path>,
) -> Result<(), PrepareError> {
    // Where the policy goes there is room, and `TMPDIR` may be gone at the end of a long run.
    let made = scratch_beside(target)?;
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
        end_tokens: workload.tokenizer.end_ids(),
    };
    Ok(export(target, &workload.model, weights, weights.main_dtype(), &extras)?)
}

/// What hidden directories beside an exported policy are called after its name, while it is being made.
const SCRATCH: &str = ".scratch-";
const PARTIAL: &str = ".partial-";

/// A directory beside `target` that goes when it is dropped.
pub(crate) fn scratch_beside(target: &Path) -> Result<tempfile::TempDir, PrepareError> {
    let (parent, name) = parent_and_name(target);
    fs::create_dir_all(parent).map_err(io_error(parent))?;
    let made = tempfile::Builder::new().prefix(&format!(".{name}{SCRATCH}")).tempdir_in(parent);
    made.map_err(io_error(parent))
}

/// Removes what killed processes left of exports to `target`, where nobody else exports.
pub(crate) fn sweep_exports(target: &Path) -> io::Result<()> {
    let (parent, name) = parent_and_name(target);
    let begins = [SCRATCH, PARTIAL].map(|kind| format!(".{name}{kind}"));
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| begins.iter().any(|begin| name.starts_with(begin))) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn parent_and_name(target: &Path) -> (&Path, String) {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (parent, target.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// The companion files of a run's snapshots: those of its tasks, and of its tokenizer, which lies
/// in `tokenizer`, unless that is a built-in one.
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

/// The run file as it is kept in the run directory: with absolute paths, names of the Hub at their
/// commits, and modules by their addresses, so that it means the same there.
pub(crate) fn run_file(config: &RunConfig) -> Result<String, PrepareError> {
    let mut config = config.clone();
    address_modules(&mut config)?;
    config.run.dir = absolute("[run] dir", &config.run.dir)?;
    let pins = config.pins.clone();
    let kept = |setting, path: &Path| match pins.iter().find(|pin| pin.local == path) {
        Some(pin) => Ok(PathBuf::from(&pin.name)),
        None if is_hub_name(path) => Ok(path.to_owned()),
        None => absolute(setting, path),
    };
    for path in config.task_files() {
        *path = kept("[data]", path)?;
    }
    let paths = [("[model] path", &mut config.model.path), ("[network] peers", &mut config.network.peers)];
    for (setting, path) in paths {
        *path = path.as_deref().map(|path| kept(setting, path)).transpose()?;
    }
    config.fleet.resolve(&absolute("[fleet] provision", Path::new("."))?);
    config.checkpoints.resolve(|path| absolute("[checkpoints] store", path))?;
    toml::to_string(&config).map_err(PrepareError::RunFile)
}

/// The absolute form of a setting's path, which a run file can only hold as text.
fn absolute(setting: &'static str, path: &Path) -> Result<PathBuf, PrepareError> {
    let path = std::path::absolute(path).map_err(io_error(path))?;
    if path.to_str().is_none() {
        return Err(PrepareError::NotUnicode { setting, path });
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
