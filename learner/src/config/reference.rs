//! `docs/reference/run-file.md` has the keys of a run file and their defaults, and no others.

use super::{RunConfig, StalenessSection};
use echo_protocol::run::staleness::Staleness;
use serde::Deserialize as _;
use serde_json::Value as Json;
use toml::{Table, Value};

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/run-file.md"));

/// How a table of settings begins.
const HEADER: &str = "| key | default | meaning |";

/// The keys that have no default, and no others.
const REQUIRED: &str = r#"
    [run]
    name = "addition"
    dir = "out"
    updates = 500
    [model.tiny]
    hidden = 128
    layers = 3
    heads = 4
    kv_heads = 2
    head_dim = 32
    intermediate = 384
    positions = 64
    [[task]]
    name = "chain_sum"
    [warmup]
    updates = 300
    batch = 64
    learning_rate = 1e-3
"#;

/// A row of the page.
struct Row {
    /// As it is written, such as `[train.guard] max_norm`.
    key: &'static str,
    /// The same in parts, such as `train`, `guard`, `max_norm`.
    path: Vec<&'static str>,
    /// The cell of the default.
    default: &'static str,
}

impl Row {
    fn read(line: &'static str) -> Self {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let key = cells[1].trim_matches('`');
        let parts = key.split(['[', ']', ' ', '.']).filter(|part| !part.is_empty());
        Self { key, path: parts.collect(), default: cells[2] }
    }

    /// The default, where the whole cell is code.
    fn literal(&self) -> Option<Value> {
        let code = self.default.strip_prefix('`')?.strip_suffix('`')?;
        if code.contains('`') {
            return None;
        }
        let line: Table =
            toml::from_str(&format!("x = {code}")).unwrap_or_else(|e| panic!("{}: {e}", self.key));
        line.get("x").cloned()
    }

    /// Whether the row stands for everything below its key.
    fn is_table(&self) -> bool {
        self.default.starts_with("`{")
    }
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut lines = PAGE.lines();
    while lines.any(|line| line == HEADER) {
        rows.extend(lines.by_ref().skip(1).take_while(|line| line.starts_with('|')).map(Row::read));
    }
    rows
}

fn required() -> Table {
    toml::from_str(REQUIRED).unwrap()
}

fn config(table: Table) -> Result<RunConfig, String> {
    RunConfig::deserialize(table).map_err(|error| error.to_string())
}

/// The table that holds the last part of `path`; of an array of tables, the first.
fn parent<'a>(root: &'a mut Table, path: &[&str]) -> &'a mut Table {
    path[..path.len() - 1].iter().fold(root, |table, part| {
        match table.entry(*part).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(table) => table,
            Value::Array(tables) => tables[0].as_table_mut().unwrap(),
            other => panic!("{part} is {other}"),
        }
    })
}

/// What a run file comes to. Staleness is compared by its numbers: a mode and the numbers that it
/// stands for are the same.
fn meaning(config: RunConfig) -> (RunConfig, Staleness) {
    let staleness = config.staleness().unwrap();
    (RunConfig { staleness: StalenessSection::default(), ..config }, staleness)
}

/// Every key of `value`, with its tables before it.
fn keys(value: &Json, path: &str, into: &mut Vec<String>) {
    match value {
        Json::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                keys(value, &path, into);
            }
        }
        Json::Array(items) if items.first().is_some_and(Json::is_object) => {
            items.iter().for_each(|item| keys(item, path, into));
        }
        _ => into.push(path.to_owned()),
    }
}

#[test]
fn the_reference_names_every_key_and_no_other() {
    let mut table = required();
    // Left out of what is written where it is not set.
    parent(&mut table, &["task", "data"]).insert("data".to_owned(), "rows.jsonl".into());
    let set = "[[evaluation]]\nname = 'x'\ndata = 'x'\nlimit = 1\nmax_new_tokens = 1";
    table.extend(toml::from_str::<Table>(set).unwrap());
    let (mut of_code, rows) = (Vec::new(), rows());
    keys(&serde_json::to_value(config(table).unwrap()).unwrap(), "", &mut of_code);
    let is_within = |key: &str, row: &Row| {
        let path = row.path.join(".");
        key == path || (row.is_table() && key.starts_with(&format!("{path}.")))
    };
    for key in &of_code {
        assert_eq!(rows.iter().filter(|row| is_within(key, row)).count(), 1, "{key} is in that many rows");
    }
    for row in &rows {
        let path = row.path.join(".");
        let known = |key: &String| *key == path || key.starts_with(&format!("{path}."));
        assert!(of_code.iter().any(known), "a run file has no {}", row.key);
    }
}

#[test]
fn the_reference_has_the_defaults() {
    let plain = config(required()).unwrap();
    let values = serde_json::to_value(&plain).unwrap();
    for row in rows() {
        let mut table = required();
        let last = row.path.last().copied().unwrap();
        if row.default == "required" {
            assert!(parent(&mut table, &row.path).remove(last).is_some(), "{} is not required", row.key);
            assert!(config(table).is_err(), "{} is not required", row.key);
        } else if let Some(default) = row.literal() {
            parent(&mut table, &row.path).insert(last.to_owned(), default);
            let set = config(table).unwrap_or_else(|error| panic!("{}: {error}", row.key));
            assert_eq!(meaning(set), meaning(plain.clone()), "{} has another default", row.key);
        } else {
            let value = row.path.iter().try_fold(&values, |value, part| match value {
                Json::Array(items) => items.first()?.get(part),
                _ => value.get(part),
            });
            assert!(value.is_none_or(Json::is_null), "{} has a default: {value:?}", row.key);
        }
    }
}
