//! Settings that were changed after the charter had fixed them.

use super::start::tiny_model;
use super::tasks::spec_name;
use crate::common::workload::Workload;
use crate::config::{AdmissionSection, RunConfig, TaskEntry};
use crate::storage::hub::is_hub_name;
use echo_policy::model::config::ModelConfig;
use echo_protocol::run::charter::{Charter, TaskSpec, TokenizerSpec};
use echo_protocol::run::precision::PrecisionName;
use echo_protocol::wire::content_id::ContentId;
use echo_sandbox::task::files::MAX_TASK_FILE_BYTES;
use std::fs;
use std::path::Path;

/// What a run file says that its charter says otherwise: it was changed after the run had been
/// founded, and the charter holds.
#[must_use]
pub fn overruled(config: &RunConfig, workload: &Workload) -> Vec<String> {
    let charter = &workload.charter;
    let longest = u32::try_from(workload.mix.longest_answer()).unwrap_or(u32::MAX);
    let (sampling, fixed) = (config.sampling.charter(longest), &charter.sampling);
    let settings = [
        ("[run] name", config.run.name != charter.name),
        ("[model]", is_other_model(config, &workload.model)),
        ("[model] chat", config.model.chat.is_some_and(|chat| chat != is_chat(charter))),
        ("task", are_other_tasks(&config.tasks, &charter.tasks)),
        ("[data]", are_other_files(config, &charter.tasks)),
        ("[sampling] group_size", config.sampling.group_size != charter.group_size),
        ("[sampling] temperature", sampling.temperature != fixed.temperature),
        ("[sampling] top_p", sampling.top_p != fixed.top_p),
        ("[sampling] top_k", sampling.top_k != fixed.top_k),
        ("[sampling] max_new_tokens", sampling.max_new_tokens != fixed.max_new_tokens),
        ("[sampling] takeover", config.sampling.takeover != charter.takeover),
        ("[staleness]", config.staleness().ok() != Some(charter.staleness)),
        ("[admission] precisions", are_other_precisions(&config.admission, &charter.precisions)),
        ("[snapshot] dtype", config.snapshot.dtype != charter.snapshot_type),
        ("[snapshot] chunk_bytes", config.snapshot.chunk_bytes != charter.chunk_bytes),
    ];
    let differing = settings.into_iter().filter(|(_, differs)| *differs);
    differing
        .map(|(setting, _)| {
            format!(
                "{setting} in the run file is not what the run was founded with, which holds; to change it, found a new run"
            )
        })
        .collect()
}

/// Whether the run file describes a model of another form. A directory that is no longer there says nothing.
fn is_other_model(config: &RunConfig, model: &ModelConfig) -> bool {
    let section = &config.model;
    if section.path.as_deref().is_some_and(|path| is_other_name(config, path)) {
        return true;
    }
    let described = match (&section.tiny, &section.path) {
        (Some(tiny), _) => tiny_model(tiny, model.vocab_size).ok(),
        (None, Some(path)) => ModelConfig::from_file(&path.join("config.json")).ok(),
        (None, None) => None,
    };
    described.is_some_and(|described| described != *model)
}

/// Whether a path is a name of the Hub that the run was not founded with.
fn is_other_name(config: &RunConfig, path: &Path) -> bool {
    is_hub_name(path) && !config.pins.iter().any(|pin| pin.is_meant_by(path))
}

fn is_chat(charter: &Charter) -> bool {
    charter.tokenizer == TokenizerSpec::Chat
}

fn are_other_tasks(entries: &[TaskEntry], specs: &[TaskSpec]) -> bool {
    let is_same = |(entry, spec): (&TaskEntry, &TaskSpec)| {
        spec_name(entry) == spec.name && entry.weight == spec.weight && entry.params == spec.params
    };
    entries.len() != specs.len() || !entries.iter().zip(specs).all(is_same)
}

/// Whether a task is to be made of another file. One that is no longer there says nothing: the run
/// has its own copy.
fn are_other_files(config: &RunConfig, specs: &[TaskSpec]) -> bool {
    config.tasks.iter().zip(specs).any(|(entry, spec)| match (config.task_file(entry), spec.data) {
        (Some(path), Some(_)) if is_other_name(config, path) => true,
        (Some(path), Some(kept)) => content(path).is_some_and(|found| found != kept),
        (given, kept) => given.is_some() != kept.is_some(),
    })
}

fn content(path: &Path) -> Option<ContentId> {
    let is_short = fs::metadata(path).is_ok_and(|file| file.len() <= MAX_TASK_FILE_BYTES);
    fs::read(path).ok().filter(|_| is_short).map(|bytes| ContentId::of(&bytes))
}

/// Whether precisions were added or put in another order; those that were left out are refused from now on,
/// as they should be.
fn are_other_precisions(section: &AdmissionSection, fixed: &[PrecisionName]) -> bool {
    let taken = fixed.iter().filter(|name| section.precisions.contains(name));
    !taken.eq(section.precisions.iter())
}
