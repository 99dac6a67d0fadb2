//! `[evaluation]` and `[[evaluation]]`

use crate::common::option_error::{OptionError, above_zero};
use echo_policy::generation::DeviceChoice;
use echo_policy::model::precision::Precision;
use echo_policy::sampling::{DrawRule, SamplingParams};
use echo_sandbox::tasks::registry::{from_files, procedural};
use echo_sandbox::tasks::wasm;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeSeq as _, Serializer};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// Most responses to one row: the engine's own limit.
pub const MAX_SAMPLES: u32 = 1024;

/// How the policy is measured. A table `[evaluation]` has the first two keys; a list of tables
/// `[[evaluation]]` has sets, and may have one table without a name, for the first two.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationSection {
    /// Held-out orders, one response each at the run's sampling settings.
    pub orders: u64,
    /// Updates between evaluations; 0: at the start and at the end.
    pub every: u64,
    /// Sets of rows that are answered besides.
    pub sets: Vec<EvaluationSet>,
}

impl Default for EvaluationSection {
    fn default() -> Self {
        let HeldOut { orders, every } = HeldOut::default();
        Self { orders, every, sets: Vec::new() }
    }
}

/// The table without a name.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HeldOut {
    orders: u64,
    every: u64,
}

impl Default for HeldOut {
    fn default() -> Self {
        Self { orders: 512, every: 0 }
    }
}

/// `[[evaluation]]`: a set of rows that the policy answers several times, measured as papers do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationSet {
    /// Its name in metrics and files.
    pub name: String,
    /// The task that asks and judges.
    #[serde(default = "math")]
    pub task: String,
    /// Responses to each row, 1 to [`MAX_SAMPLES`].
    #[serde(default = "four")]
    pub samples: u32,
    /// Divides the logits; 0: the likeliest token always.
    #[serde(default = "default_temperature")]
    pub temperature: f32,
    /// Nucleus mass; 1 is off.
    #[serde(default = "default_top_p")]
    pub top_p: f32,
    /// Most likely tokens kept; 0 is off.
    #[serde(default)]
    pub top_k: u32,
    /// Updates between two evaluations; 0: at the start and at the end.
    #[serde(default)]
    pub every: u64,
    /// Decides every draw.
    #[serde(default)]
    pub seed: u64,
    /// Whether the file of rows holds what was written.
    #[serde(default)]
    pub keep_texts: bool,
    /// Who generates.
    #[serde(default, rename = "where")]
    pub place: Place,
    /// What the learner generates on.
    #[serde(default = "cpu")]
    pub device: DeviceChoice,
    /// What is computed in.
    #[serde(default = "f32_precision")]
    pub precision: Precision,
    /// Longest response in tokens; left out, the run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_new_tokens: Option<u32>,
    /// Only the first rows; of a task that makes its prompts up, how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The file that the task is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// The task's parameters. All rows are asked, whatever `held_out_percent` is.
    #[serde(default)]
    pub params: BTreeMap<String, i64>,
}

/// Who generates the responses of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Place {
    /// The learner's machine, beside training.
    #[default]
    Learner,
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "learner" => Ok(Self::Learner),
            "volunteers" => Err("volunteers do not evaluate: a charter has one set of sampling settings, and they could not be audited \
                                 at others. Write where = \"learner\", or `echo-learner evaluate` the policy elsewhere"
                .to_owned()),
            other => Err(format!("{other:?} is nobody who generates: write \"learner\"")),
        }
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        match place {
            Place::Learner => "learner".to_owned(),
        }
    }
}

fn math() -> String {
    "math".to_owned()
}

fn four() -> u32 {
    4
}

/// What the makers of Qwen3 and DeepSeek-R1 evaluate at.
fn default_temperature() -> f32 {
    0.6
}

fn default_top_p() -> f32 {
    0.95
}

fn cpu() -> DeviceChoice {
    DeviceChoice::Cpu
}

fn f32_precision() -> Precision {
    Precision::F32
}

impl EvaluationSet {
    /// How tokens are drawn, with `longest` tokens where the length is left out.
    #[must_use]
    pub fn sampling(&self, longest: u32) -> SamplingParams {
        SamplingParams {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            max_new_tokens: self.max_new_tokens.unwrap_or(longest),
            // Nobody audits an evaluation, and its draws are what they were.
            rule: DrawRule::Intervals,
        }
    }

    fn validate(&self) -> Result<(), OptionError> {
        let refuse = |field, found: &str, rule| {
            Err(OptionError::Setting {
                field,
                found: format!("{found:?} of evaluation {:?}", self.name),
                rule,
            })
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !(1..=64).contains(&self.name.len()) || !self.name.chars().all(plain) {
            let rule = "it has to be 1 to 64 letters of ASCII, digits, - and _: it becomes part of a path";
            return refuse("evaluation.name", &self.name, rule);
        }
        let made_of_file = from_files().any(|task| task == self.task) || wasm::asks_for_module(&self.task);
        if !made_of_file && !procedural().any(|task| task == self.task) {
            return refuse(
                "evaluation.task",
                &self.task,
                "there is no such task: docs/reference/tasks.md lists them",
            );
        }
        if made_of_file != self.data.is_some() {
            let rule = "a task that is made of a file needs data = \"FILE\", and no other takes one";
            return refuse("evaluation.task", &self.task, rule);
        }
        if !made_of_file && self.limit.is_none() {
            return refuse("evaluation.task", &self.task, "it makes its prompts up: limit says how many");
        }
        if !(1..=MAX_SAMPLES).contains(&self.samples) {
            return refuse("evaluation.samples", &self.samples.to_string(), "it has to be 1 to 1024");
        }
        above_zero("evaluation.limit", self.limit.unwrap_or(1) as u64)?;
        match self.sampling(1).validate() {
            Ok(()) => Ok(()),
            Err(error) => refuse(
                "evaluation",
                &error.to_string(),
                "set temperature, top_p and max_new_tokens within that",
            ),
        }
    }
}

impl EvaluationSection {
    /// The files that sets are made of.
    pub(crate) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.sets.iter_mut().filter_map(|set| set.data.as_mut())
    }

    pub(crate) fn validate(&self) -> Result<(), OptionError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// What is outside its domain, of each set the first.
    pub(crate) fn problems(&self) -> Vec<OptionError> {
        let (mut names, mut found) = (BTreeSet::new(), Vec::new());
        found.extend(above_zero("evaluation.orders", self.orders).err());
        for set in &self.sets {
            found.extend(set.validate().err());
            if !names.insert(&set.name) {
                let (field, found_name) = ("evaluation.name", set.name.clone());
                let rule = "another evaluation has the same";
                found.push(OptionError::Setting { field, found: found_name, rule });
            }
        }
        found
    }

    /// From the tables of a list.
    fn of(tables: Vec<toml::Table>) -> Result<Self, String> {
        let (mut section, mut unnamed) = (Self::default(), 0);
        for table in tables {
            if table.contains_key("name") {
                section.sets.push(EvaluationSet::deserialize(table).map_err(|error| error.to_string())?);
            } else {
                let HeldOut { orders, every } = HeldOut::deserialize(table).map_err(|error| {
                    format!("an [[evaluation]] without a name: {}", error.to_string().trim_end())
                })?;
                (section.orders, section.every) = (orders, every);
                unnamed += 1;
            }
        }
        if unnamed > 1 {
            return Err("only one [[evaluation]] may have no name: the one with orders and every".to_owned());
        }
        Ok(section)
    }
}

impl Serialize for EvaluationSection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let held_out = HeldOut { orders: self.orders, every: self.every };
        if self.sets.is_empty() {
            return held_out.serialize(serializer);
        }
        let mut list = serializer.serialize_seq(Some(self.sets.len() + 1))?;
        list.serialize_element(&held_out)?;
        self.sets.iter().try_for_each(|set| list.serialize_element(set))?;
        list.end()
    }
}

impl<'de> Deserialize<'de> for EvaluationSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Forms)
    }
}

struct Forms;

impl<'de> Visitor<'de> for Forms {
    type Value = EvaluationSection;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table [evaluation], or tables [[evaluation]]")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let HeldOut { orders, every } = HeldOut::deserialize(MapAccessDeserializer::new(map))?;
        Ok(EvaluationSection { orders, every, sets: Vec::new() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        EvaluationSection::of(Vec::deserialize(SeqAccessDeserializer::new(seq))?).map_err(A::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct File {
        #[serde(default)]
        evaluation: EvaluationSection,
    }

    fn read(text: &str) -> Result<EvaluationSection, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let again: File = toml::from_str(&toml::to_string(&file).unwrap()).unwrap();
        assert_eq!(again, file, "it is written as it is read");
        file.evaluation.validate().map_err(|error| error.to_string())?;
        Ok(file.evaluation)
    }

    #[test]
    fn a_table_and_a_list_of_tables_are_read() {
        assert_eq!(read("").unwrap(), EvaluationSection::default());
        let table = read("[evaluation]\norders = 64").unwrap();
        assert_eq!((table.orders, table.every, table.sets.len()), (64, 0, 0));
        let list = read(
            "[[evaluation]]\nname = 'gsm8k'\ndata = 'test.jsonl'\n[[evaluation]]\nevery = 9\n\
             [[evaluation]]\nname = 'sums'\ntask = 'chain_sum'\nparams = { digits = 1 }\nlimit = 50\nsamples = 64\n\
             temperature = 1.0\ntop_p = 1.0\ntop_k = 20\nmax_new_tokens = 8\nevery = 5\nwhere = 'learner'\ndevice = 'cuda:1'\nprecision = 'bf16'",
        )
        .unwrap();
        assert_eq!((list.orders, list.every), (512, 9));
        let [gsm8k, sums] = list.sets.as_slice() else { panic!("{list:?}") };
        assert_eq!(
            *gsm8k,
            EvaluationSet {
                name: "gsm8k".into(),
                task: "math".into(),
                samples: 4,
                temperature: 0.6,
                top_p: 0.95,
                top_k: 0,
                every: 0,
                seed: 0,
                keep_texts: false,
                place: Place::Learner,
                device: DeviceChoice::Cpu,
                precision: Precision::F32,
                max_new_tokens: None,
                limit: None,
                data: Some("test.jsonl".into()),
                params: BTreeMap::new(),
            }
        );
        assert_eq!((sums.samples, sums.limit, sums.params["digits"]), (64, Some(50), 1));
        assert_eq!(sums.device, DeviceChoice::Cuda(Some(1)));
    }

    #[test]
    fn mistakes_are_named() {
        let set = |more: &str| read(&format!("[[evaluation]]\nname = 'x'\n{more}")).unwrap_err();
        for (more, named) in [
            ("", "needs data"),
            ("task = 'chain_sum'", "limit"),
            ("task = 'chain_sum'\ndata = 'x'\nlimit = 1", "no other takes one"),
            ("task = 'maths'\ndata = 'x'", "no such task"),
            ("data = 'x'\nsamples = 0", "evaluation.samples"),
            ("data = 'x'\nsamples = 1025", "evaluation.samples"),
            ("data = 'x'\nlimit = 0", "evaluation.limit"),
            ("data = 'x'\ntop_p = 0.0", "top_p"),
            ("data = 'x'\ntemperature = -1.0", "temperature"),
            ("data = 'x'\norders = 5", "orders"),
            ("data = 'x'\nwhere = 'volunteers'", "volunteers do not evaluate"),
            ("data = 'x'\nwhere = 'moon'", "moon"),
            ("data = 'x'\n[[evaluation]]\nname = 'x'\ndata = 'y'", "another evaluation has the same"),
            ("data = 'x'\n[[evaluation]]\n[[evaluation]]", "only one"),
            ("data = 'x'\n[[evaluation]]\ndata = 'y'", "without a name"),
        ] {
            assert!(set(more).contains(named), "{more}: {}", set(more));
        }
        assert!(read("[[evaluation]]\nname = '../x'\ndata = 'x'").unwrap_err().contains("evaluation.name"));
        assert!(read("[evaluation]\nname = 'x'").unwrap_err().contains("name"));
        assert!(read("[evaluation]\norders = 0").unwrap_err().contains("evaluation.orders"));
    }
}
