//! `--set KEY=VALUE`: settings of the command line, which replace those of the run file.
//!
//! They are put into the file's table before it is read as a run file. So both are refused by the
//! same rules and in the same words.

use super::{RunConfig, RunFileError, tasks};
use crate::training::options::TrainSection;
use serde::Deserialize as _;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use toml::{Table, Value};

/// How like a key has to be to one that exists for it to be offered, from 0 to 1: `lerning_rate` is at 0.96.
const LIKE: f64 = 0.8;

/// A setting of the command line: a key of the run file with dots, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// As it was given, for messages.
    text: String,
    /// The parts of its key, such as `train`, `schedule`, `peak`.
    key: Vec<String>,
    value: Value,
}

impl Setting {
    /// The setting of a key that is known, such as `run.updates`.
    #[must_use]
    pub fn new(key: &[&str], value: impl Into<Value>) -> Self {
        let value = value.into();
        let key: Vec<String> = key.iter().map(|part| (*part).to_owned()).collect();
        Self { text: format!("{}={value}", key.join(".")), key, value }
    }

    /// Puts it into the table of a run file.
    fn put(&self, file: &mut Table) -> Result<(), RunFileError> {
        let Some((last, tables)) = self.key.split_last() else { return Ok(()) };
        let mut at = Place::Table(file);
        for (depth, part) in tables.iter().enumerate() {
            at =
                at.below(part, default_of(&tables[..=depth])).ok_or_else(|| self.refused(&no_table(part)))?;
        }
        at.insert(last, absolute(&self.key, self.value.clone())).ok_or_else(|| self.refused(&no_table(last)))
    }

    fn refused(&self, cause: &str) -> RunFileError {
        RunFileError::Set { setting: self.text.clone(), cause: cause.trim_end().to_owned() }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A value that is TOML is read as such, and any other is a text: `train.objective=grpo` needs no quotes.
impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| "write KEY=VALUE, as in train.schedule.peak=1e-5".to_owned())?;
        let named: Table = toml::from_str(&format!("{} = 0", key.trim()))
            .ok()
            .filter(|_| !key.contains(['\n', '#', '=']))
            .ok_or_else(|| {
                format!("{key:?} is no key: write its tables before it, as in train.schedule.peak")
            })?;
        let value = value.trim();
        let read = toml::from_str::<Table>(&format!("value = {value}")).ok().filter(|table| table.len() == 1);
        let value = read.and_then(|mut table| table.remove("value")).unwrap_or_else(|| value.into());
        Ok(Self { text: text.to_owned(), key: parts(named), value })
    }
}

/// The parts of the one key in a table of tables.
fn parts(mut table: Table) -> Vec<String> {
    let mut parts = Vec::new();
    while let Some(name) = table.keys().next().cloned() {
        let below = table.remove(&name);
        parts.push(name);
        table = match below {
            Some(Value::Table(below)) => below,
            _ => break,
        };
    }
    parts
}

/// Where a setting is put.
enum Place<'a> {
    Table(&'a mut Table),
    List(&'a mut Vec<Value>),
}

impl Place<'_> {
    /// The table or list called `part`; a table that is not there yet begins as `default`.
    fn below(self, part: &str, default: Table) -> Option<Self> {
        let value = match self {
            Self::Table(table) => table.entry(part).or_insert(Value::Table(default)),
            Self::List(list) => list.get_mut(part.parse::<usize>().ok()?)?,
        };
        match value {
            Value::Table(table) => Some(Self::Table(table)),
            Value::Array(list) => Some(Self::List(list)),
            _ => None,
        }
    }

    fn insert(self, part: &str, value: Value) -> Option<()> {
        match self {
            Self::Table(table) => drop(table.insert(part.to_owned(), value)),
            Self::List(list) => *list.get_mut(part.parse::<usize>().ok()?)? = value,
        }
        Some(())
    }
}

/// What a table begins with that the file leaves out. A schedule has keys that a file must write, and its
/// default has all of them.
fn default_of(key: &[String]) -> Table {
    if key == ["train", "schedule"] {
        Table::try_from(TrainSection::default().schedule).unwrap_or_default()
    } else {
        Table::new()
    }
}

fn no_table(part: &str) -> String {
    format!(
        "there is no table or entry {part} to put it into: entries of lists have numbers, as in task.0.weight"
    )
}

/// The value with its relative paths absolute: of the command line they start from the shell's directory.
fn absolute(key: &[String], value: Value) -> Value {
    match value {
        Value::String(text) if is_path(key, &text) => {
            let path =
                std::path::absolute(&text).ok().and_then(|path| path.into_os_string().into_string().ok());
            Value::String(path.unwrap_or(text))
        }
        Value::Table(table) => {
            let below = |(name, value): (String, Value)| {
                let mut path = key.to_vec();
                path.push(name.clone());
                (name, absolute(&path, value))
            };
            Value::Table(table.into_iter().map(below).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(|value| absolute(key, value)).collect()),
        other => other,
    }
}

/// Whether a setting is the path of a file or directory. Names of a hub and of buckets are none.
fn is_path(key: &[String], text: &str) -> bool {
    let names: Vec<&str> =
        key.iter().map(String::as_str).filter(|part| part.parse::<usize>().is_err()).collect();
    let is_one = matches!(
        names.as_slice(),
        ["run", "dir"]
            | ["model", "path"]
            | ["data", _]
            | ["task" | "evaluation", "data"]
            | ["network", "peers"]
            | ["checkpoints", "store"]
    );
    is_one && !text.contains("://") && !text.starts_with("hf:")
}

/// Reads a run file from its text, with `settings` in place of its own.
pub(super) fn parse(path: &Path, text: &str, settings: &[Setting]) -> Result<RunConfig, RunFileError> {
    let of_file = |error: toml::de::Error| RunFileError::Parse {
        path: path.to_owned(),
        cause: with_hints(&error.to_string()),
    };
    if settings.is_empty() {
        return RunConfig::parse(text).map_err(of_file);
    }
    let mut table: Table = toml::from_str(text).map_err(of_file)?;
    let mut before = message(&table);
    let (mut culprit, first) = (None, before.clone());
    for setting in settings {
        setting.put(&mut table)?;
        let after = message(&table);
        if after.is_some() && after != before {
            culprit = Some(setting);
        }
        before = after;
    }
    match (RunConfig::deserialize(table), culprit) {
        (Ok(config), _) => Ok(config),
        (Err(error), Some(setting)) if first.as_deref() != Some(error.message()) => {
            Err(setting.refused(&with_hints(&error.to_string())))
        }
        // With its place in the file.
        (Err(error), _) => Err(of_file(RunConfig::parse(text).err().unwrap_or(error))),
    }
}

/// What is wrong with a table, if it is no run file.
fn message(table: &Table) -> Option<String> {
    RunConfig::deserialize(table.clone()).err().map(|error| error.message().to_owned())
}

/// The words of a refusal, and what was probably meant.
fn with_hints(cause: &str) -> String {
    let meant = meant(cause).map(|key| format!("\ndid you mean `{key}`?")).unwrap_or_default();
    let quoted = if cause.contains("expected a string") {
        "\na text that looks like another value has to be in quotes"
    } else {
        ""
    };
    format!("{}{}{meant}{quoted}", cause.trim_end(), tasks::hint(cause))
}

/// The key that exists and is most like the unknown one in a refusal by serde.
fn meant(cause: &str) -> Option<&str> {
    let (_, rest) = cause.split_once("unknown field `")?;
    let (unknown, known) = rest.split_once('`')?;
    let (_, known) = known.split_once("expected ")?;
    let known = known.lines().next()?.split('`').skip(1).step_by(2);
    let likeness = |key: &str| strsim::jaro_winkler(unknown, key);
    known.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).filter(|key| likeness(key) >= LIKE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        task = "math"
        [run]
        name = "sums"
        dir = "out"
        updates = 5
        [model]
        path = "models/one"
        [data]
        math = "rows.jsonl"
        [train]
        objective = { name = "gepo" }
    "#;

    fn read(settings: &[&str]) -> Result<RunConfig, String> {
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
        parse(Path::new("run.toml"), FILE, &settings).map_err(|error| error.to_string())
    }

    #[test]
    fn a_setting_replaces_the_one_of_the_file_or_adds_one() {
        let plain = read(&[]).unwrap();
        let set = read(&[
            "run.updates=7",
            "run.name = other run",
            "train.schedule.peak=1e-4",
            "train.objective.name=grpo",
            "sampling.max_new_tokens=9",
            "admission.precisions=['f32', 'bf16']",
            "staleness={ budget = 1 }",
        ])
        .unwrap();
        assert_eq!((set.run.updates, set.run.name.as_str()), (7, "other run"));
        assert_eq!(
            set.train.schedule,
            crate::training::lr_schedule::Schedule { peak: 1e-4, ..plain.train.schedule }
        );
        assert_eq!(set.train.objective.preset.name(), "grpo");
        assert_eq!((set.sampling.max_new_tokens, set.staleness.budget), (Some(9), Some(1)));
        assert_eq!(set.admission.precisions.len(), 2);
        assert_eq!(set.model, plain.model);
        let tables = read(&["task=[{name=\"math\"}, {name=\"chain_sum\"}]", "task.1.weight=3"]).unwrap();
        assert_eq!((tables.tasks[0].weight, tables.tasks[1].weight), (1, 3));
        assert_eq!(read(&["run.updates=7", "run.updates=8"]).unwrap().run.updates, 8, "the last one counts");
    }

    #[test]
    fn paths_of_the_command_line_start_from_the_directory_of_the_shell() {
        let here = |name: &str| std::path::absolute(name).unwrap();
        let set =
            read(&["run.dir=here", "data.math=rows", "network.peers=echo.peers", "checkpoints.store=kept"]);
        let set = set.unwrap();
        assert_eq!((set.run.dir, &set.data["math"]), (here("here"), &here("rows")));
        assert_eq!(set.network.peers, Some(here("echo.peers")));
        assert_eq!(set.checkpoints.store.as_deref(), here("kept").to_str());
        assert_eq!(set.model.path.as_deref(), Some(Path::new("models/one")), "of the file");
        let inline = read(&["task=[{name=\"math\", data=\"rows\"}]"]).unwrap();
        assert_eq!(inline.tasks[0].data, Some(here("rows")));
        for name in ["hf:Qwen/Qwen3-0.6B", "/models/two"] {
            let set = read(&[&format!("model.path={name}")]).unwrap();
            assert_eq!(set.model.path.as_deref(), Some(Path::new(name)));
        }
        let bucket = read(&["checkpoints.store=s3://bucket/run"]).unwrap();
        assert_eq!(bucket.checkpoints.store.as_deref(), Some("s3://bucket/run"));
    }

    #[test]
    fn an_unknown_setting_is_refused_as_in_the_file_and_the_right_one_is_named() {
        let refused = read(&["run.updates=7", "sampling.max_new_token=9"]).unwrap_err();
        assert!(
            refused.starts_with("--set sampling.max_new_token=9: unknown field `max_new_token`"),
            "{refused}"
        );
        assert!(refused.contains("did you mean `max_new_tokens`?"), "{refused}");
        assert!(read(&["trian.compute=f32"]).unwrap_err().contains("did you mean `train`?"));
        assert!(!read(&["zzz=1"]).unwrap_err().contains("did you mean"));
        let kind = read(&["run.updates=many"]).unwrap_err();
        assert!(kind.starts_with("--set run.updates=many: invalid type: string \"many\""), "{kind}");
        assert!(read(&["run.name=7"]).unwrap_err().contains("in quotes"));
        assert!(read(&["run.name=\"7\""]).is_ok());
        assert!(read(&["task.0.weight=3"]).unwrap_err().contains("no table or entry"));

        // What is wrong in the file itself is shown where it stands.
        let file = FILE.replace("updates", "update");
        let settings = ["run.name=other".parse().unwrap()];
        let refused = parse(Path::new("run.toml"), &file, &settings).unwrap_err().to_string();
        assert!(
            refused.contains("run file run.toml") && refused.contains("did you mean `updates`?"),
            "{refused}"
        );
        let settings = ["model.path=other".parse().unwrap(), "model.chta=true".parse().unwrap()];
        let refused = parse(Path::new("run.toml"), FILE, &settings).unwrap_err().to_string();
        assert!(refused.contains("did you mean `chat`?"), "{refused}");
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for wrong in ["run.updates", "=3", "a b=3", "run..updates=3", "a=b\n[c]\nd=3"] {
            let parsed = wrong.parse::<Setting>();
            assert!(parsed.is_err() || parsed.unwrap().key == ["a"], "{wrong:?}");
        }
        let lines: Setting = "run.name=1\nb = 2".parse().unwrap();
        assert_eq!(lines.value, Value::from("1\nb = 2"), "one value and no other key");
        assert_eq!(Setting::new(&["run", "updates"], 7), "run.updates=7".parse().unwrap());
    }
}
