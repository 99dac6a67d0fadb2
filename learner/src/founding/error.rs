//! The errors of founding and finding a run.

use super::limits::{MAX_TASK_FILES, MAX_TASK_FILES_BYTES};
use crate::common::option_error::OptionError;
use crate::common::workload::WorkloadError;
use crate::config::RunFileError;
use crate::founding::audit_memory::NoRoom;
use crate::founding::warmup::WarmupError;
use crate::storage::atomic_file::FileError;
use crate::storage::run_dir::RunKeyError;
use crate::training::device::TrainDeviceError;
use echo_policy::model::config::ModelConfigError as ModelError;
use echo_policy::model::export::ExportError;
use echo_policy::model::weights::WeightsError;
use echo_policy::text::tokenizer::TokenizerError;
use echo_protocol::run::charter::CharterError;
use echo_protocol::wire::codec::CodecError;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::PublicKey;
use echo_sandbox::task::files::MAX_TASK_FILE_BYTES;
use echo_sandbox::task::spec::SpecError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a run cannot be founded or found.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// There is a run already.
    #[error(
        "{0} already holds a run: `echo-learner resume {0}` goes on with it; for a new one choose another [run] dir"
    )]
    Exists(PathBuf),
    /// The directory has no charter, and nothing else of a run.
    #[error("{0} holds no run: `echo-learner run --config FILE` founds one")]
    NotARun(PathBuf),
    /// There is one, which lacks its charter.
    #[error(
        "{0} is gone, and only with it the run that is there can go on: restore it from a backup, or choose another [run] dir"
    )]
    CharterGone(PathBuf),
    /// Another learner works there.
    #[error("another echo-learner is working in {0}: stop it first")]
    Busy(PathBuf),
    /// A file or directory cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The run file asks for something that is not allowed.
    #[error(transparent)]
    Config(#[from] RunFileError),
    /// The run file cannot be kept in the run directory.
    #[error("the run file cannot be written: {0}")]
    RunFile(toml::ser::Error),
    /// A path that no run file can name.
    #[error("{setting}: {path:?} is not valid UTF-8, so run.toml could not name it; choose another path")]
    NotUnicode {
        /// The option's name, such as `[run] dir`.
        setting: &'static str,
        /// The path, which is not valid UTF-8.
        path: PathBuf,
    },
    /// The memory that the run file allows.
    #[error(transparent)]
    AuditRoom(#[from] NoRoom),
    /// The device that the run file asks for.
    #[error(transparent)]
    Device(#[from] TrainDeviceError),
    /// The run's key is gone, cannot be read, or others can read it.
    #[error(transparent)]
    Key(#[from] RunKeyError),
    /// The key in the run directory belongs to something else.
    #[error("{path} is the key {found}, and the run was founded with {named}: put the run's own file back")]
    OtherKey {
        /// The file `identity` of the run directory.
        path: PathBuf,
        /// The public key that belongs to it.
        found: PublicKey,
        /// The one in the charter.
        named: PublicKey,
    },
    /// A file of the run directory is not what was written.
    #[error("{path} is damaged ({why}): restore it from a backup")]
    Damaged {
        /// The file that is damaged.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The model's `config.json` cannot be used.
    #[error("[model]: {0}")]
    Model(#[from] ModelError),
    /// The weights are missing, or are not this model's.
    #[error("[model]: {0}")]
    Weights(#[from] WeightsError),
    /// The tokenizer's files cannot be used.
    #[error("[model]: {0}")]
    Tokenizer(#[from] TokenizerError),
    /// The task mix cannot be made from its entries.
    #[error("[[task]]: {0}")]
    Tasks(#[from] SpecError),
    /// A task's file in the run directory is not what the charter says.
    #[error(
        "{0} is damaged or gone, and the run's prompts come from it: put the file back that the run was founded with"
    )]
    TaskFile(PathBuf),
    /// A module that is not the one that the run file names.
    #[error(
        "task {name}: the file given for it has the address wasm:{found}: write `task = \"wasm\"` and leave the address to the learner, \
         or name the file that was meant"
    )]
    OtherModule {
        /// What the run file says.
        name: String,
        /// The address of the file that was given: BLAKE3 of its bytes.
        found: ContentId,
    },
    /// A module without a file.
    #[error(
        "task {0} has no file of its module: write wasm = \"FILE.wasm\" under [data], or data = \"FILE.wasm\" in its [[task]] table"
    )]
    NoModule(String),
    /// A task's file cannot be read.
    #[error("the file of task {task}, {path}, which `data` names: {source}")]
    Data {
        /// The task's name in the run file.
        task: String,
        /// The path that the run file gives for it.
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
        /// Files that the tasks are made of, each counted once.
        files: usize,
        /// Bytes of these files together.
        bytes: u64,
    },
    /// A task's file is too long.
    #[error("{path} has {bytes} bytes: a task's file may have {MAX_TASK_FILE_BYTES}; give a part of it")]
    LargeTaskFile {
        /// The file's absolute path.
        path: PathBuf,
        /// Its length in bytes.
        bytes: u64,
    },
    /// The charter breaks a rule of its form.
    #[error(transparent)]
    Charter(#[from] CharterError),
    /// The charter is too long.
    #[error("the charter: {0}")]
    Codec(#[from] CodecError),
    /// What the charter asks for does not work.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The supervised start failed.
    #[error("warm-up: {0}")]
    Warmup(#[from] WarmupError),
    /// Writing the starting policy.
    #[error(transparent)]
    Export(#[from] ExportError),
}

impl From<OptionError> for PrepareError {
    fn from(error: OptionError) -> Self {
        Self::Config(error.into())
    }
}

impl From<FileError> for PrepareError {
    fn from(FileError { path, source }: FileError) -> Self {
        Self::Io { path, source }
    }
}

/// What went wrong at this path.
pub(super) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> PrepareError + use<> {
    let path = path.to_owned();
    move |source| PrepareError::Io { path, source }
}
