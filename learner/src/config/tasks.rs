//! `task` and `[data]`: what a run trains on.
//!
//! One line is enough: `task = "math"`. A mix is a line too, `task = { math = 3, chain_sum = 1
//! }`; with parameters it is a list of `[[task]]` tables. Where a task is made of a file,
//! `[data]` says of which.

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// `[[task]]`: one task of the run's mix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskEntry {
    /// The task's name in the registry; `wasm:` and a module's address means that module alone.
    pub name: String,
    /// Its share of the orders, relative to the other tasks'.
    #[serde(default = "one")]
    pub weight: u32,
    /// Its parameters by name; those left out have the task's defaults.
    #[serde(default)]
    pub params: BTreeMap<String, i64>,
    /// The file that it is made of; left out, what `[data]` says under its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
}

fn one() -> u32 {
    1
}

impl TaskEntry {
    /// The task of this name with everything else left out.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), weight: 1, params: BTreeMap::new(), data: None }
    }
}

/// Reads any of the forms of `task`.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TaskEntry>, D::Error> {
    deserializer.deserialize_any(Forms)
}

/// What a refused run file has to be told besides, where its task is missed or found in a table.
pub(super) fn hint(cause: &str) -> &'static str {
    let stray = cause.contains("unknown field `task`") || cause.contains("missing field `task`");
    if stray {
        "\nwrite `task = \"NAME\"` above the first [table] of the file, or a table [[task]]"
    } else {
        ""
    }
}

struct Forms;

impl<'de> Visitor<'de> for Forms {
    type Value = Vec<TaskEntry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task's name, a table of names and weights, or [[task]] tables")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(vec![TaskEntry::new(name)])
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let weights = BTreeMap::<String, u32>::deserialize(MapAccessDeserializer::new(map))?;
        Ok(weights.into_iter().map(|(name, weight)| TaskEntry { weight, ..TaskEntry::new(&name) }).collect())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct File {
        #[serde(deserialize_with = "read")]
        task: Vec<TaskEntry>,
    }

    fn tasks(text: &str) -> Result<Vec<TaskEntry>, String> {
        toml::from_str::<File>(text).map(|file| file.task).map_err(|error| error.to_string())
    }

    #[test]
    fn a_task_is_named_in_one_line_or_in_tables() {
        assert_eq!(tasks("task = \"math\"").unwrap(), [TaskEntry::new("math")]);
        let mixed = tasks("task = { math = 3, chain_sum = 1 }").unwrap();
        assert_eq!(mixed, [TaskEntry::new("chain_sum"), TaskEntry { weight: 3, ..TaskEntry::new("math") }]);
        let full = tasks("[[task]]\nname = \"chain_sum\"\nweight = 2\nparams = { digits = 1 }").unwrap();
        let params = BTreeMap::from([("digits".to_owned(), 1)]);
        assert_eq!(full, [TaskEntry { weight: 2, params, ..TaskEntry::new("chain_sum") }]);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(tasks("task = 3").unwrap_err().contains("a task's name"));
        assert!(tasks("task = { math = \"x\" }").unwrap_err().contains("u32"));
        assert!(tasks("[[task]]\nnme = \"math\"").unwrap_err().contains("nme"));
    }
}
