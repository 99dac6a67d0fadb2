//! What `echo-node config` prints.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use figment::Metadata;
use serde::Serialize;

use super::{Config, ENV_PREFIX};

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingSource {
    /// A flag of the command line.
    Flag(String),
    /// An environment variable, by its whole name.
    Env(String),
    /// The settings file, by its path.
    File(PathBuf),
    /// Nobody set it, so the default holds.
    Default,
}

/// One setting as it is reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reported {
    /// The setting's name, as in the settings file.
    pub key: String,
    /// Its value; null for none.
    pub value: serde_json::Value,
    /// Where it came from.
    pub source: SettingSource,
}

impl SettingSource {
    pub(super) fn of(metadata: &Metadata, key: &str) -> Self {
        let file = metadata.source.as_ref().and_then(|source| source.file_path());
        match (file, metadata.name.as_ref()) {
            (Some(path), _) => Self::File(path.to_owned()),
            (None, "flag") => Self::Flag(flag(key)),
            (None, "environment") => Self::Env(format!("{ENV_PREFIX}{}", key.to_ascii_uppercase())),
            (None, _) => Self::Default,
        }
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

impl Config {
    /// Every setting with its value and source, in the order of [`super::Settings`].
    pub fn report(&self) -> Vec<Reported> {
        let values = serde_json::to_value(&self.settings).unwrap_or_default();
        let fields = values.as_object().into_iter().flatten();
        fields
            .map(|(key, value)| Reported {
                key: key.clone(),
                value: value.clone(),
                source: self.sources.get(key).cloned().unwrap_or(SettingSource::Default),
            })
            .collect()
    }

    /// [`Config::report`] as an aligned table.
    pub fn table(&self) -> String {
        let rows: Vec<[String; 3]> = self
            .report()
            .into_iter()
            .map(|row| [row.key, plain(&row.value), row.source.to_string()])
            .collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let (keys, values) = (width(0), width(1));
        rows.iter().fold(String::new(), |mut text, [key, value, source]| {
            let _infallible = writeln!(text, "{key:keys$}  {value:values$}  {source}");
            text
        })
    }
}

/// The flag of a setting: one that may be repeated is named in the singular.
fn flag(key: &str) -> String {
    match key {
        "roles" => "--role".to_owned(),
        _ => format!("--{}", key.replace('_', "-")),
    }
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "-".to_owned(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
