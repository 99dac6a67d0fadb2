//! Founding a run: key, model, starting policy, charter.

use crate::config::{ConfigError, RunConfig};
use crate::device::DeviceError;
use crate::run_dir::RunDir;
use crate::warmup::{WarmupError, warm_up};
use crate::workload::{Workload, WorkloadError};
use echo_policy::config::ModelConfig;
use echo_policy::error::{ConfigError as ModelError, ExportError, WeightsError};
use echo_policy::export::{ExportExtras, export};
use echo_policy::tokenizer::{CharTokenizer, DEFAULT_ALPHABET, Tokenizer, TokenizerError};
use echo_policy::weights::{DType, Weights};
use echo_protocol::charter::{Charter, CharterError, RunId, TaskSpec, TokenizerSpec, task_file_name};
use echo_protocol::clock;
use echo_protocol::content::ContentId;
use echo_protocol::identity::NodeKey;
use echo_protocol::keyfile::KeyfileError;
use echo_protocol::signed::Signed;
use echo_sandbox::files::{MAX_TASK_FILE_BYTES, TaskFiles};
use echo_sandbox::mix::TaskMix;
use echo_sandbox::spec::SpecError;
use echo_sandbox::tasks::wasm;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files of a Hugging Face directory that make its tokenizer, and travel with snapshots.
const TOKENIZER_FILES: [&str; 3] = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];

/// Most files of tasks, and their bytes together: a snapshot has at most 16 companion files, and nodes take 256 MiB of them, the
/// tokenizer's included.
const MAX_TASK_FILES: usize = 12;
const MAX_TASK_FILES_BYTES: u64 = 128 << 20;

/// Why a run cannot be founded or found.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// There is a run already.
    #[error(
        "{0} already holds a run: `echo-learner resume {0}` goes on with it; for a new one choose another [run] dir"
    )]
    Exists(PathBuf),
    /// There is none.
    #[error("{0} holds no run: `echo-learner run --config FILE` founds one")]
    NotARun(PathBuf),
    /// Another learner works there.
    #[error("another echo-learner is working in {0}: stop it first")]
    Busy(PathBuf),
    /// The disk.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The run file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The device that the run file asks for.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The key.
    #[error(transparent)]
    Key(#[from] KeyfileError),
    /// The model.
    #[error("[model]: {0}")]
    Model(#[from] ModelError),
    /// The weights.
    #[error("[model]: {0}")]
    Weights(#[from] WeightsError),
    /// The tokenizer.
    #[error("[model]: {0}")]
    Tokenizer(#[from] TokenizerError),
    /// The tasks.
    #[error("[[task]]: {0}")]
    Tasks(#[from] SpecError),
    /// A task's file in the run directory is not what the charter says.
    #[error(
        "{0} is damaged or gone, and the run's prompts come from it: put the file back that the run was founded with"
    )]
    TaskFile(PathBuf),
    /// A module that is not the one that the run file names.
    #[error(
        "task {name}: the file given for it has the address {found}: write wasm:{found}, or name the file that was meant"
    )]
    OtherModule {
        /// What the run file says.
        name: String,
        /// The file's address.
        found: ContentId,
    },
    /// A module without an address.
    #[error(
        "task {0} names no module: write wasm: and the 64 hexadecimal digits of its address; where data gives it the module's file, the address is told"
    )]
    NoModule(String),
    /// A task's file cannot be read.
    #[error("the file of task {task}, {path}, which `data` names: {source}")]
    Data {
        /// The task's name.
        task: String,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A supervised start on a task that shows no solutions.
    #[error("[warmup]: task {0} knows no right answers: leave the warm-up out")]
    NoSolutions(&'static str),
    /// The tasks' files are too many.
    #[error(
        "the tasks have {files} files of {bytes} bytes together: nodes take {MAX_TASK_FILES} of {MAX_TASK_FILES_BYTES} bytes beside a tokenizer"
    )]
    TaskFiles {
        /// How many.
        files: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// A task's file is too long.
    #[error("{path} has {bytes} bytes: a task's file may have {MAX_TASK_FILE_BYTES}; give a part of it")]
    LargeTaskFile {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// The charter.
    #[error(transparent)]
    Charter(#[from] CharterError),
    /// The charter is too long, or the one on disk is damaged.
    #[error("the charter: {0}")]
    Codec(#[from] echo_protocol::codec::CodecError),
    /// What the charter asks for does not work.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The warm-up.
    #[error("warm-up: {0}")]
    Warmup(#[from] WarmupError),
    /// Writing the starting policy.
    #[error(transparent)]
    Export(#[from] ExportError),
}

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
    let tasks = Tasks::read(config)?;
    tasks.mix.tasks().try_for_each(|task| task.try_solutions())?;
    if config.warmup.is_some()
        && let Some(task) = tasks.mix.tasks().find(|task| !task.knows_solutions())
    {
        return Err(PrepareError::NoSolutions(task.name()));
    }
    let start = Start::of(config, &tasks.mix)?;
    let charter = Signed::sign(&start.charter(config, &tasks, &key)?, &key)?;
    let (run, opened) = Charter::open(&charter)?;
    let workload =
        Workload::open(run, opened, start.files.as_deref().unwrap_or(Path::new("")), &tasks.files)?;
    let weights = match &config.warmup {
        Some(section) => warm_up(&workload, config, section, &start.weights, progress)?,
        None => start.weights,
    };
    if dir.start().exists() {
        fs::remove_dir_all(dir.start()).map_err(io_error(&dir.start()))?;
    }
    export_policy(&dir.start(), &workload, &weights, start.files.as_deref())?;
    let text = toml::to_string(&absolute(config)?)
        .map_err(|e| PrepareError::Io { path: dir.config(), source: io::Error::other(e) })?;
    fs::write(dir.config(), text).map_err(io_error(&dir.config()))?;
    tasks.keep(&dir)?;
    write_whole(&dir.charter(), &charter.to_bytes())?;
    Ok(Founded { dir, config: config.clone(), key, charter, workload })
}

/// Tokens of the character tokenizer that the tasks of a run file give a model of `[model.tiny]`.
pub(crate) fn character_vocabulary(config: &RunConfig) -> Result<usize, PrepareError> {
    Ok(CharTokenizer::of_charter(&alphabet(&Tasks::read(config)?.mix))?.vocabulary())
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
    let charter = Signed::sign(&start.charter(config, &tasks, &key)?, &key)?;
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

/// Where the files of tasks lie in a run directory, each once.
fn task_paths(dir: &RunDir, tasks: &[TaskSpec]) -> impl Iterator<Item = (ContentId, PathBuf)> + use<> {
    let ids: BTreeSet<ContentId> = tasks.iter().filter_map(|task| task.data).collect();
    let dir = dir.tasks();
    ids.into_iter().map(move |id| (id, dir.join(task_file_name(&id))))
}

/// Reads the files of a run's tasks back.
fn kept_files(dir: &RunDir, tasks: &[TaskSpec]) -> Result<TaskFiles, PrepareError> {
    let mut files = TaskFiles::none();
    for (id, path) in task_paths(dir, tasks) {
        let found = fs::read(&path).is_ok_and(|bytes| files.add(bytes) == id);
        if !found {
            return Err(PrepareError::TaskFile(path));
        }
    }
    Ok(files)
}

/// The tasks of a run file, with their files.
struct Tasks {
    specs: Vec<TaskSpec>,
    files: TaskFiles,
    mix: TaskMix,
}

impl Tasks {
    fn read(config: &RunConfig) -> Result<Self, PrepareError> {
        let (mut specs, mut files) = (Vec::new(), TaskFiles::none());
        for task in &config.tasks {
            let data = match config.task_file(task) {
                Some(path) => Some(files.add(read_task_file(&task.name, path)?)),
                None => None,
            };
            let module = wasm::module_of(&task.name);
            let asks = wasm::asks_for_module(&task.name);
            match data {
                Some(found) if asks && module != data => {
                    return Err(PrepareError::OtherModule { name: task.name.clone(), found });
                }
                None if asks && module.is_none() => return Err(PrepareError::NoModule(task.name.clone())),
                _ => {}
            }
            let name = if asks { wasm::NAME.to_owned() } else { task.name.clone() };
            specs.push(TaskSpec { name, weight: task.weight, params: task.params.clone(), data });
        }
        let data: BTreeSet<ContentId> = specs.iter().filter_map(|spec| spec.data).collect();
        let bytes: usize = data.iter().filter_map(|id| files.get(id)).map(|file| file.len()).sum();
        if data.len() > MAX_TASK_FILES || bytes as u64 > MAX_TASK_FILES_BYTES {
            return Err(PrepareError::TaskFiles { files: data.len(), bytes: bytes as u64 });
        }
        let mix = TaskMix::new(&specs, &files)?;
        Ok(Self { specs, files, mix })
    }

    /// Writes the files into the run directory.
    fn keep(&self, dir: &RunDir) -> Result<(), PrepareError> {
        fs::create_dir_all(dir.tasks()).map_err(io_error(&dir.tasks()))?;
        for (id, path) in task_paths(dir, &self.specs) {
            let bytes = self.files.get(&id).ok_or_else(|| PrepareError::TaskFile(path.clone()))?;
            write_whole(&path, bytes)?;
        }
        Ok(())
    }
}

fn read_task_file(task: &str, path: &Path) -> Result<Vec<u8>, PrepareError> {
    let path = &std::path::absolute(path).map_err(io_error(path))?;
    let failed = |source| PrepareError::Data { task: task.to_owned(), path: path.clone(), source };
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes > MAX_TASK_FILE_BYTES {
        return Err(PrepareError::LargeTaskFile { path: path.to_owned(), bytes });
    }
    fs::read(path).map_err(failed)
}

/// The files of a Hugging Face directory that make its tokenizer.
fn tokenizer_files(dir: &Path) -> Vec<PathBuf> {
    TOKENIZER_FILES.iter().map(|name| dir.join(name)).filter(|path| path.exists()).collect()
}

/// What training begins with.
struct Start {
    model: ModelConfig,
    weights: Weights,
    tokenizer: TokenizerSpec,
    files: Option<PathBuf>,
}

impl Start {
    fn of(config: &RunConfig, mix: &TaskMix) -> Result<Self, PrepareError> {
        if let Some(tiny) = &config.model.tiny {
            let alphabet = alphabet(mix);
            let vocabulary = CharTokenizer::of_charter(&alphabet)?.vocabulary();
            let mut model = ModelConfig::tiny_qwen3(tiny.sizes(vocabulary))?;
            model.eos_token_ids = vec![CharTokenizer::EOS];
            model.pad_token_id = Some(CharTokenizer::PAD);
            let weights = Weights::random(&model, config.run.seed);
            let tokenizer = TokenizerSpec::Characters { alphabet };
            return Ok(Self { model, weights, tokenizer, files: None });
        }
        let path = config.model.path.as_ref().ok_or(ConfigError::Model)?;
        let chat = chats(path, config.model.chat)?;
        let tokenizer = if chat { TokenizerSpec::Chat } else { TokenizerSpec::Snapshot };
        Ok(Self { tokenizer, ..Self::at(path)? })
    }

    /// The policy in a Hugging Face directory; one without a tokenizer gets the character tokenizer.
    fn at(path: &Path) -> Result<Self, PrepareError> {
        let model = ModelConfig::from_file(&path.join("config.json"))?;
        let weights = Weights::load_dir(path, &model)?;
        let tokenizer = match path.join("tokenizer.json").exists() {
            true => TokenizerSpec::Snapshot,
            false => TokenizerSpec::Characters { alphabet: String::new() },
        };
        Ok(Self { model, weights, tokenizer, files: Some(path.to_owned()) })
    }

    fn charter(&self, config: &RunConfig, tasks: &Tasks, key: &NodeKey) -> Result<Charter, PrepareError> {
        let longest = u32::try_from(tasks.mix.longest_answer()).unwrap_or(u32::MAX);
        Ok(Charter {
            name: config.run.name.clone(),
            learner: key.public(),
            created: clock::now(),
            model: self.model.to_json(DType::F32),
            tokenizer: self.tokenizer.clone(),
            tasks: tasks.specs.clone(),
            group_size: config.sampling.group_size,
            sampling: config.sampling.charter(longest),
            staleness: config.staleness()?,
            snapshot_type: config.snapshot.dtype,
            chunk_bytes: config.snapshot.chunk_bytes,
        })
    }
}

/// Whether prompts for the policy in `path` are messages of its chat template: as the run file says, or where there is one that can be used.
fn chats(path: &Path, wanted: Option<bool>) -> Result<bool, PrepareError> {
    if wanted == Some(false) {
        return Ok(false);
    }
    let tokenizer = Tokenizer::from_dir(path)?;
    let has_template = tokenizer.chat_template().is_some();
    match tokenizer.in_chat() {
        Ok(_) => Ok(true),
        Err(error) if wanted == Some(true) => Err(error.into()),
        Err(error) => {
            if has_template {
                tracing::warn!(%error, "the policy's chat template is not used");
            }
            Ok(false)
        }
    }
}

/// The characters of a character tokenizer for these tasks, empty for the default ones.
fn alphabet(mix: &TaskMix) -> String {
    let more: String = mix.alphabet().into_iter().filter(|c| !DEFAULT_ALPHABET.contains(*c)).collect();
    if more.is_empty() { more } else { format!("{DEFAULT_ALPHABET}{more}") }
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

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> PrepareError + use<> {
    let path = path.to_owned();
    move |source| PrepareError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ModelSection, NetworkSection, RunSection, TaskEntry, TinySection};

    fn config(dir: PathBuf) -> RunConfig {
        let tiny = TinySection {
            hidden: 16,
            layers: 1,
            heads: 2,
            kv_heads: 1,
            head_dim: 8,
            intermediate: 24,
            positions: 32,
        };
        RunConfig {
            run: RunSection { name: "test".into(), dir, updates: 3, seed: 0 },
            model: ModelSection { path: None, tiny: Some(tiny), chat: None },
            tasks: vec![TaskEntry::new("chain_sum")],
            data: Default::default(),
            sampling: Default::default(),
            staleness: Default::default(),
            admission: Default::default(),
            buffer: Default::default(),
            train: Default::default(),
            warmup: None,
            evaluation: Default::default(),
            snapshot: Default::default(),
            checkpoints: Default::default(),
            fleet: Default::default(),
            record: Default::default(),
            verify: Default::default(),
            network: NetworkSection { peers: Some("lists/echo.peers".into()), ..Default::default() },
            watch: Default::default(),
        }
    }

    #[test]
    fn a_founded_run_is_found_again_and_not_founded_twice() {
        let scratch = tempfile::tempdir().unwrap();
        let config = config(scratch.path().join("run"));
        let founded = found(&config, |_, _| ()).unwrap();
        let again = find(&config.run.dir).unwrap();
        assert_eq!(again.workload.run, founded.workload.run);
        assert_eq!(again.key.public(), founded.key.public());
        assert!(matches!(found(&config, |_, _| ()), Err(PrepareError::Exists(_))));
        assert!(matches!(find(scratch.path()), Err(PrepareError::NotARun(_))));
    }

    #[test]
    fn a_task_made_of_a_file_keeps_it_and_gets_its_alphabet() {
        let scratch = tempfile::tempdir().unwrap();
        let rows = scratch.path().join("rows.jsonl");
        fs::write(&rows, r#"{"question": "Has Zoë 2?", "answer": "2"}"#).unwrap();
        let mut config = config(scratch.path().join("run"));
        config.tasks = vec![TaskEntry::new("math")];
        let refused = found(&config, |_, _| ()).unwrap_err().to_string();
        assert!(refused.contains("[data]"), "{refused}");
        config.data.insert("math".into(), rows.clone());
        let founded = found(&config, |_, _| ()).unwrap();
        let order = founded.workload.order(echo_protocol::order::Purpose::Train, 0);
        let prompt = founded.workload.prompt(&order).unwrap();
        let text = founded.workload.tokenizer.decode(&prompt, false).unwrap();
        assert_eq!(text, "Has Zoë 2?\n");

        // What the operator does to the file later is no matter to the run; what is done to the run's own copy is.
        fs::remove_file(&rows).unwrap();
        let again = find(&config.run.dir).unwrap();
        assert_eq!(again.workload.prompt(&order).unwrap(), prompt);
        let kept = companion_files(&again, &again.dir.start());
        assert_eq!(kept.len(), 1);
        fs::write(&kept[0], "other").unwrap();
        assert!(matches!(find(&config.run.dir), Err(PrepareError::TaskFile(path)) if path == kept[0]));
    }

    #[test]
    fn a_policy_with_a_chat_template_chats_and_its_nodes_get_the_template() {
        let scratch = tempfile::tempdir().unwrap();
        let tiny = config(scratch.path().join("tiny"));
        let policy = found(&tiny, |_, _| ()).unwrap().dir.start();
        let of_policy = |name: &str, chat: Option<bool>| {
            let model = ModelSection { path: Some(policy.clone()), tiny: None, chat };
            found(&RunConfig { model, ..config(scratch.path().join(name)) }, |_, _| ())
        };
        let tokenizer = |name, chat| of_policy(name, chat).unwrap().workload.charter.tokenizer;
        assert_eq!(tokenizer("plain", None), TokenizerSpec::Snapshot);
        assert!(matches!(
            of_policy("none", Some(true)),
            Err(PrepareError::Tokenizer(TokenizerError::NoChat(_)))
        ));

        fs::write(policy.join("chat_template.jinja"), crate::testing::CHAT_TEMPLATE).unwrap();
        assert_eq!(tokenizer("refused", Some(false)), TokenizerSpec::Snapshot);
        let founded = of_policy("chat", None).unwrap();
        assert_eq!(founded.workload.charter.tokenizer, TokenizerSpec::Chat);
        let order = founded.workload.order(echo_protocol::order::Purpose::Train, 0);
        let asked = founded.workload.prompt(&order).unwrap();
        let text = founded.workload.assignment(&order).prompt().text;
        assert_eq!(founded.workload.tokenizer.decode(&asked, false).unwrap(), format!("<bos>{text}>"));
        let kept = companion_files(&founded, &founded.dir.start());
        assert!(kept.iter().any(|path| path.ends_with("chat_template.jinja")), "{kept:?}");
        // What the operator does to the policy's directory later is no matter to the run.
        fs::remove_file(policy.join("chat_template.jinja")).unwrap();
        let again = find(&founded.config.run.dir).unwrap();
        assert_eq!(again.workload.prompt(&order).unwrap(), asked);
    }

    #[test]
    fn mistakes_in_naming_files_modules_and_positions_say_what_to_write() {
        let scratch = tempfile::tempdir().unwrap();
        let rows = scratch.path().join("rows.jsonl");
        let refused = |task: &str, file: Option<&Path>| {
            let mut config = config(scratch.path().join("run"));
            config.tasks = vec![TaskEntry::new(task)];
            config.data.extend(file.map(|file| (task.to_owned(), file.to_owned())));
            found(&config, |_, _| ()).unwrap_err().to_string()
        };
        let missing = refused("math", Some(rows.as_path()));
        assert!(missing.contains("task math") && missing.contains(rows.to_str().unwrap()), "{missing}");

        fs::write(&rows, format!(r#"{{"question": "{}?", "answer": "2"}}"#, "1".repeat(98))).unwrap();
        let long = refused("math", Some(rows.as_path()));
        assert!(long.contains("task math") && long.contains("positions to at least 102"), "{long}");

        for name in ["wasm", "wasm:abcd"] {
            let unnamed = refused(name, None);
            assert!(unnamed.contains(name) && unnamed.contains("64 hexadecimal digits"), "{unnamed}");
            let address = ContentId::of(&fs::read(&rows).unwrap());
            let other = refused(name, Some(rows.as_path()));
            assert!(other.contains(&format!("write wasm:{address},")), "{other}");
        }
    }

    #[test]
    fn problems_may_hold_any_character() {
        let scratch = tempfile::tempdir().unwrap();
        let rows = scratch.path().join("rows.jsonl");
        let question = "<x> < <pad>?";
        fs::write(&rows, format!(r#"{{"question": "{question}", "answer": "2"}}"#)).unwrap();
        let mut config = config(scratch.path().join("run"));
        config.tasks = vec![TaskEntry::new("math")];
        config.data.insert("math".into(), rows);
        let workload = found(&config, |_, _| ()).unwrap().workload;
        let order = workload.order(echo_protocol::order::Purpose::Train, 0);
        let prompt = workload.prompt(&order).unwrap();
        assert_eq!(prompt.len(), question.len() + 1);
        assert_eq!(workload.tokenizer.decode(&prompt, true).unwrap(), format!("{question}\n"));
        assert_eq!(character_vocabulary(&config).unwrap(), workload.model.vocab_size);
    }

    #[test]
    fn relative_paths_mean_the_same_after_a_resume() {
        let scratch = tempfile::tempdir().unwrap();
        let config = config(scratch.path().join("run"));
        found(&config, |_, _| ()).unwrap();
        let expected = std::path::absolute("lists/echo.peers").unwrap();
        assert_eq!(find(&config.run.dir).unwrap().config.network.peers, Some(expected));
    }
}
