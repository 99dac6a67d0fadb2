//! The tasks of a run, and the files that they are made of.

use super::error::{PrepareError, io_error};
use super::limits::{MAX_TASK_FILES, MAX_TASK_FILES_BYTES};
use crate::config::{RunConfig, TaskEntry};
use crate::storage::atomic_file::write_whole;
use crate::storage::run_dir::RunDir;
use echo_protocol::run::charter::{TaskSpec, task_file_name};
use echo_protocol::wire::content_id::ContentId;
use echo_sandbox::rollout::mix::TaskMix;
use echo_sandbox::task::files::{MAX_TASK_FILE_BYTES, TaskFiles};
use echo_sandbox::tasks::{registry, wasm};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the files of tasks lie in a run directory, each once.
pub(super) fn task_paths(
    dir: &RunDir,
    tasks: &[TaskSpec],
) -> impl Iterator<Item = (ContentId, PathBuf)> + use<> {
    let ids: BTreeSet<ContentId> = tasks.iter().filter_map(|task| task.data).collect();
    let dir = dir.tasks();
    ids.into_iter().map(move |id| (id, dir.join(task_file_name(&id))))
}

/// Reads the files of a run's tasks back.
pub(super) fn kept_files(dir: &RunDir, tasks: &[TaskSpec]) -> Result<TaskFiles, PrepareError> {
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
pub(super) struct Tasks {
    pub(super) specs: Vec<TaskSpec>,
    pub(super) files: TaskFiles,
    pub(super) mix: TaskMix,
}

impl Tasks {
    pub(super) fn read(config: &RunConfig) -> Result<Self, PrepareError> {
        let (mut specs, mut files) = (Vec::new(), TaskFiles::none());
        for task in &config.tasks {
            let data = match config.task_file(task) {
                Some(path) => Some(files.add(read_task_file(&task.name, path)?)),
                None => None,
            };
            if wasm::asks_for_module(&task.name) {
                let found = data.ok_or_else(|| PrepareError::NoModule(task.name.clone()))?;
                // `wasm` alone leaves the address to the learner.
                if task.name != wasm::NAME && wasm::module_of(&task.name) != data {
                    return Err(PrepareError::OtherModule { name: task.name.clone(), found });
                }
            }
            let name = spec_name(task).to_owned();
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

    /// Tries all solutions that the tasks show, and whether there are any where a warm-up needs them.
    pub(super) fn check(&self, config: &RunConfig) -> Result<(), PrepareError> {
        for remark in self.mix.tasks().flat_map(|task| task.remarks()) {
            tracing::warn!("{remark}");
        }
        self.mix.tasks().try_for_each(|task| task.try_solutions())?;
        let ignorant = self.mix.tasks().find(|task| config.warmup.is_some() && !task.knows_solutions());
        ignorant.map_or(Ok(()), |task| Err(PrepareError::NoSolutions(task.name())))
    }

    /// Writes the files into the run directory.
    pub(super) fn keep(&self, dir: &RunDir) -> Result<(), PrepareError> {
        fs::create_dir_all(dir.tasks()).map_err(io_error(&dir.tasks()))?;
        for (id, path) in task_paths(dir, &self.specs) {
            let bytes = self.files.get(&id).ok_or_else(|| PrepareError::TaskFile(path.clone()))?;
            write_whole(&path, bytes)?;
        }
        Ok(())
    }
}

/// Gives modules that a run file names `wasm` alone the names that have their addresses.
pub(super) fn address_modules(config: &mut RunConfig) -> Result<(), PrepareError> {
    let mut tasks = std::mem::take(&mut config.tasks);
    let mut files = Vec::new();
    for task in tasks.iter_mut().filter(|task| wasm::asks_for_module(&task.name)) {
        let Some(path) = config.task_file(task).map(Path::to_owned) else { continue };
        if task.name == wasm::NAME {
            let address = ContentId::of(&read_task_file(&task.name, &path)?);
            task.name = format!("{}{address}", wasm::PREFIX);
        }
        if task.data.is_none() {
            files.push((task.name.clone(), path));
        }
    }
    if !files.is_empty() {
        config.data.remove(wasm::NAME);
        config.data.extend(files);
    }
    config.tasks = tasks;
    Ok(())
}

/// What the charter calls a task.
pub(super) fn spec_name(task: &TaskEntry) -> &str {
    if wasm::asks_for_module(&task.name) { wasm::NAME } else { &task.name }
}

/// The file as nodes get it: the form in which its author has the rows stays here.
pub(crate) fn read_task_file(task: &str, path: &Path) -> Result<Vec<u8>, PrepareError> {
    let path = &std::path::absolute(path).map_err(io_error(path))?;
    let failed = |source| PrepareError::Data { task: task.to_owned(), path: path.clone(), source };
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes > MAX_TASK_FILE_BYTES {
        return Err(PrepareError::LargeTaskFile { path: path.to_owned(), bytes });
    }
    Ok(registry::as_lines(task, fs::read(path).map_err(failed)?)?)
}
