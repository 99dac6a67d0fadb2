//! Settings that were changed after the charter had fixed them.
//!
//! The run file as it is now is made into a charter, as if a run were founded on it. Where that
//! differs from the charter of the run, a setting has no effect.

use super::start::{CharterParts, charter_of, tiny_model};
use super::tasks::spec_name;
use crate::common::workload::Workload;
use crate::config::{AdmissionSection, ModelSection, PromptSection, RunConfig, TaskEntry};
use crate::storage::hub::is_hub_name;
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::DType;
use echo_protocol::run::charter::{Charter, TaskSpec, TokenizerSpec};
use echo_protocol::run::precision::PrecisionName;
use echo_protocol::run::prompt::{PromptSpec, QUESTION};
use echo_protocol::wire::content_id::ContentId;
use echo_sandbox::task::files::MAX_TASK_FILE_BYTES;
use echo_sandbox::tasks::registry;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Longest value that a message shows, in characters.
const MAX_SHOWN: usize = 40;

/// What a run file says that its charter says otherwise: it was changed after the run had been
/// founded, and the charter holds. One line for each setting.
#[must_use]
pub fn overruled(config: &RunConfig, workload: &Workload) -> Vec<String> {
    let founded = &workload.charter;
    let Some(asked) = asked(config, workload) else { return Vec::new() };
    let (Ok(now), Ok(then)) = (serde_json::to_value(&asked), serde_json::to_value(founded)) else {
        return Vec::new();
    };
    let mut found = BTreeMap::new();
    compare(&now, &then, &mut Vec::new(), &mut found);
    for setting in other_names(config) {
        found.entry(setting.to_owned()).or_insert(None);
    }
    found.into_iter().map(|(setting, values)| line(&setting, values.as_ref())).collect()
}

fn line(setting: &str, values: Option<&(String, String)>) -> String {
    let (now, then) =
        values.map_or_else(Default::default, |(now, then)| (format!(" ({now})"), format!(" ({then})")));
    format!(
        "{setting} in the run file{now} is not what the run was founded with{then}, which holds; to change it, found a new run: \
         `echo-learner run --config FILE` with another [run] dir, and to begin with this policy, [model] path as `echo-learner export DIR --output` wrote it"
    )
}

/// The charter that the run file asks for now. What it does not say, or what is no longer there to look
/// at, is as the run was founded. `None` where no run could be founded on it.
fn asked(config: &RunConfig, workload: &Workload) -> Option<Charter> {
    let founded = &workload.charter;
    let other_model = described(&config.model, &workload.model).filter(|model| *model != workload.model);
    let tokenizer = match config.chat() {
        Some(true) => TokenizerSpec::Chat,
        Some(false) if founded.tokenizer == TokenizerSpec::Chat => TokenizerSpec::Snapshot,
        _ => founded.tokenizer.clone(),
    };
    let entries = config.tasks.iter().enumerate();
    let parts = CharterParts {
        model: other_model.map_or_else(|| founded.model.clone(), |model| model.to_json(DType::F32)),
        tokenizer,
        tasks: entries.map(|(at, entry)| spec_of(config, entry, founded.tasks.get(at))).collect(),
        prompt: prompt_of(&config.prompt, founded),
        longest: workload.mix.longest_answer(),
    };
    let mut charter = charter_of(config, parts, founded.learner, founded.created).ok()?;
    // No setting says how numbers choose tokens, and a run keeps its rule.
    charter.sampling.draw = founded.sampling.draw;
    if are_fewer_precisions(&config.admission, &founded.precisions) {
        charter.precisions.clone_from(&founded.precisions);
    }
    Some(charter)
}

/// The model that the run file describes. A directory that is no longer there says nothing.
fn described(section: &ModelSection, model: &ModelConfig) -> Option<ModelConfig> {
    match (&section.tiny, &section.path) {
        (Some(tiny), _) => tiny_model(tiny, model.vocab_size).ok(),
        (None, Some(path)) => ModelConfig::from_file(&path.join("config.json")).ok(),
        (None, None) => None,
    }
}

/// What a charter would say of prompts. What founding adds, as it follows from the model, is as it was.
fn prompt_of(section: &PromptSection, founded: &Charter) -> PromptSpec {
    let fixed = &founded.prompt;
    if !section.differs(founded.tokenizer == TokenizerSpec::Chat, fixed) {
        return fixed.clone();
    }
    let said = section.charter();
    let is_added = said.template.is_none() && fixed.template.as_deref() == Some(QUESTION);
    PromptSpec {
        system: said.system,
        template: if is_added { fixed.template.clone() } else { said.template },
        arguments: said.arguments,
        answer_tags: said.answer_tags,
        bos: section.bos.unwrap_or(fixed.bos),
        ..fixed.clone()
    }
}

/// The settings that name something else of the Hub than the run was founded with.
fn other_names(config: &RunConfig) -> Vec<&'static str> {
    let model = config.model.path.as_deref().is_some_and(|path| is_other_name(config, path));
    let mut files = config.tasks.iter().filter_map(|task| config.task_file(task));
    let data = files.any(|path| is_other_name(config, path));
    let settings = [("[model]", model), ("[data]", data)];
    settings.into_iter().filter_map(|(setting, other)| other.then_some(setting)).collect()
}

/// Whether a path is a name of the Hub that the run was not founded with.
fn is_other_name(config: &RunConfig, path: &Path) -> bool {
    is_hub_name(path) && !config.pins.iter().any(|pin| pin.is_meant_by(path))
}

/// What a charter would say of a task. A file that is no longer there says nothing: the run has its own copy.
fn spec_of(config: &RunConfig, entry: &TaskEntry, founded: Option<&TaskSpec>) -> TaskSpec {
    let kept = founded.and_then(|spec| spec.data);
    let data = config.task_file(entry).and_then(|path| content(&entry.name, path).or(kept));
    TaskSpec { name: spec_name(entry).to_owned(), weight: entry.weight, params: entry.params.clone(), data }
}

/// The content of a file as nodes get it. One that could not be given to them is another one.
fn content(task: &str, path: &Path) -> Option<ContentId> {
    let is_short = fs::metadata(path).is_ok_and(|file| file.len() <= MAX_TASK_FILE_BYTES);
    let bytes = fs::read(path).ok().filter(|_| is_short)?;
    let given = ContentId::of(&bytes);
    Some(registry::as_lines(task, bytes).map_or(given, |lines| ContentId::of(&lines)))
}

/// Whether all precisions are the charter's, in its order; those that were left out are refused from now
/// on, as they should be.
fn are_fewer_precisions(section: &AdmissionSection, fixed: &[PrecisionName]) -> bool {
    let taken = fixed.iter().filter(|name| section.precisions.contains(name));
    taken.eq(section.precisions.iter())
}

/// Notes each setting in which two charters differ, with both of its values where they are short.
fn compare(
    now: &Value,
    then: &Value,
    path: &mut Vec<String>,
    found: &mut BTreeMap<String, Option<(String, String)>>,
) {
    if now == then {
        return;
    }
    let mut below = |name: &str, now: &Value, then: &Value| {
        path.push(name.to_owned());
        compare(now, then, path, found);
        path.pop();
    };
    match (now, then) {
        // A table that goes without saying is left out.
        (Value::Object(fields), Value::Null) => {
            fields.iter().for_each(|(name, value)| below(name, value, &Value::Null));
        }
        (Value::Null, Value::Object(fields)) => {
            fields.iter().for_each(|(name, value)| below(name, &Value::Null, value));
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            let of = |fields: &Map<String, Value>, name: &str| fields.get(name).cloned().unwrap_or_default();
            names.into_iter().for_each(|name| below(name, &of(ours, name), &of(theirs, name)));
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            ours.iter().zip(theirs).for_each(|(now, then)| below("", now, then));
        }
        _ => {
            found.entry(setting(path)).or_insert_with(|| shown(path, now, then));
        }
    }
}

/// What a run file calls a part of the charter. A part that is not named here has the same name in both.
fn setting(path: &[String]) -> String {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    match names.as_slice() {
        ["name", ..] => "[run] name".to_owned(),
        ["model", ..] => "[model]".to_owned(),
        ["tokenizer", ..] => "[model] chat".to_owned(),
        ["tasks", _, "data", ..] => "[data]".to_owned(),
        ["tasks", ..] => "task".to_owned(),
        [key @ ("group_size" | "takeover"), ..] => format!("[sampling] {key}"),
        ["sampling", "race_temperature", ..] => "[sampling] temperature".to_owned(),
        ["snapshot_type", ..] => "[snapshot] dtype".to_owned(),
        ["chunk_bytes", ..] => "[snapshot] chunk_bytes".to_owned(),
        ["precisions", ..] => "[admission] precisions".to_owned(),
        ["staleness", ..] => "[staleness]".to_owned(),
        [table] => format!("[{table}]"),
        [table, key, ..] => format!("[{table}] {key}"),
        [] => "the run file".to_owned(),
    }
}

/// Both values, where they are short and mean to a reader what they say.
fn shown(path: &[String], now: &Value, then: &Value) -> Option<(String, String)> {
    let own_form = ["model", "tokenizer", "tasks", "staleness", "precisions"];
    let of_other_form = path.first().is_some_and(|part| own_form.contains(&part.as_str()));
    let texts = (text(now)?, text(then)?);
    let are_short = [&texts.0, &texts.1].iter().all(|text| text.chars().count() <= MAX_SHOWN);
    (are_short && !of_other_form).then_some(texts)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("not set".to_owned()),
        // The charter's fractions are f32.
        Value::Number(number) if number.is_f64() => number.as_f64().map(|number| (number as f32).to_string()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn differences(now: &Value, then: &Value) -> Vec<String> {
        let mut found = BTreeMap::new();
        compare(now, then, &mut Vec::new(), &mut found);
        found.iter().map(|(setting, values)| line(setting, values.as_ref())).collect()
    }

    #[test]
    fn every_part_of_a_charter_is_compared_and_named_as_in_the_run_file() {
        let then = json!({
            "name": "sums", "sampling": {"temperature": 1.0_f32, "max_new_tokens": 32}, "group_size": 4,
            "tasks": [{"name": "math", "weight": 1, "data": "a"}],
        });
        let now = json!({
            "name": "sums", "sampling": {"temperature": 0.9_f32, "max_new_tokens": 400}, "group_size": 8,
            "tasks": [{"name": "math", "weight": 2, "data": "b"}], "takeover": "keep",
            "prompt": {"system": "Think.", "template": "{question}"},
        });
        assert!(differences(&then, &then).is_empty());
        let found = differences(&now, &then);
        let begins = [
            "[data] in the run file is not",
            "[prompt] system in the run file (\"Think.\") is not what the run was founded with (not set)",
            "[prompt] template in the run file",
            "[sampling] group_size in the run file (8) is not what the run was founded with (4)",
            "[sampling] max_new_tokens in the run file (400) is not what the run was founded with (32)",
            "[sampling] takeover in the run file (\"keep\") is not what the run was founded with (not set)",
            "[sampling] temperature in the run file (0.9) is not what the run was founded with (1)",
            "task in the run file is not",
        ];
        assert_eq!(found.len(), begins.len(), "{found:#?}");
        for (line, begin) in found.iter().zip(begins) {
            assert!(line.starts_with(begin) && line.contains("found a new run"), "{line}");
        }
        // A part that this release does not know by name is named as the charter has it.
        let warned = differences(&json!({"prompt": {"system": "a"}}), &json!({"prompt": {"system": "b"}}));
        assert!(warned[0].starts_with("[prompt] system in the run file (\"a\")"), "{warned:?}");
    }
}
