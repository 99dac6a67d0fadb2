//! Commands that print what is known: `objectives`, `identity`, `metrics`; and what `warmup`, `prefilter` and
//! `export` came to. With `--json` each prints one JSON object.

use crate::commands::prefilter::PrefilterOutcome;
use crate::storage::run_dir::RunDir;
use crate::telemetry::exporters::catalog::{self, METRICS, Reading, readings};
use crate::training::objective::{ObjectiveChoice, Preset};
use anyhow::Context as _;
use echo_protocol::net::peer_id_of;
use echo_protocol::program::output::print;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

/// The kinds of rows, by the key that each alone has, and what they are called here.
const KINDS: [(&str, &str); 3] =
    [("update", "update"), ("evaluated", "evaluation"), ("published", "publication")];

/// Prints the objectives that a run file may name, or the parts of one.
///
/// # Errors
/// When none has this name, or the answer cannot be written.
pub fn objectives(name: Option<&str>, json: bool) -> anyhow::Result<()> {
    let Some(name) = name else {
        let names: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name()).collect();
        return answer(json, &json!({ "objectives": names }), || names.join("\n") + "\n");
    };
    let preset = Preset::named(name)
        .with_context(|| format!("no objective is called {name:?}: `echo-learner objectives` lists them"))?;
    let choice = ObjectiveChoice::from(preset);
    answer(json, &serde_json::to_value(choice)?, || choice.expansion())
}

/// Prints the public key and the peer id of the run in `dir`, making the key where there is none.
///
/// # Errors
/// When the key cannot be read or made, or the answer cannot be written.
pub fn identity(dir: &Path, json: bool) -> anyhow::Result<()> {
    let key = RunDir::new(dir).key()?;
    let (public, peer) = (key.public().to_string(), peer_id_of(key.secret()).to_string());
    let text = || format!("public key  {public}\npeer id     {peer}\n");
    answer(json, &json!({ "public_key": public, "peer_id": peer }), text)
}

/// Prints what metrics there are, or the newest values of the run in `dir`.
///
/// # Errors
/// When the run has no metrics yet, or they cannot be read.
pub fn metrics(dir: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let Some(dir) = dir else {
        let all = METRICS.iter().map(|metric| {
            let key = metric.key.trim_start_matches('/').replace('/', ".");
            json!({ "key": key, "tag": format!("{}/{}", metric.group, metric.name), "unit": metric.unit, "help": metric.help })
        });
        return answer(json, &json!({ "metrics": all.collect::<Vec<_>>() }), catalog::table);
    };
    let newest = newest(dir)?;
    let found: serde_json::Map<String, Value> =
        newest.iter().map(|(kind, row)| ((*kind).to_owned(), row.clone())).collect();
    answer(json, &Value::Object(found), || newest.iter().map(|(kind, row)| of_row(kind, row)).collect())
}

/// The newest row of each kind that the run has written.
fn newest(dir: &Path) -> anyhow::Result<Vec<(&'static str, Value)>> {
    let path = RunDir::new(dir).metrics();
    let named = || path.display().to_string();
    let file = File::open(&path).with_context(|| {
        format!(
            "{}: there are no metrics: is {} the directory of a run that has begun?",
            named(),
            dir.display()
        )
    })?;
    let mut found: [Option<Value>; 3] = [None, None, None];
    for line in BufReader::new(file).lines() {
        // The learner may be writing the last line just now.
        let Ok(row) = serde_json::from_str::<Value>(&line.with_context(named)?) else { continue };
        if let Some(kind) = KINDS.iter().position(|(key, _)| row.get(key).is_some()) {
            found[kind] = Some(row);
        }
    }
    let named = KINDS.iter().zip(found).filter_map(|((_, name), row)| Some((*name, row?)));
    Ok(named.collect())
}

/// A row metric by metric, below the name of its kind.
fn of_row(kind: &str, row: &Value) -> String {
    let mut text = format!("newest {kind}\n");
    for reading in readings(row).filter(|reading| reading.metric().name != "time_seconds") {
        let shown = shown(&reading);
        if !shown.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {:<28} {shown}", reading.metric().name);
        }
    }
    text
}

fn shown(reading: &Reading) -> String {
    let unit = reading.metric().unit;
    let of = |(label, value): &(String, f64)| match label.as_str() {
        "" => number(*value),
        label => format!("{label} {}", number(*value)),
    };
    let values: Vec<String> = reading.values.iter().map(of).collect();
    match (values.is_empty(), unit) {
        (true, _) => String::new(),
        (false, "") => values.join(", "),
        (false, unit) => format!("{} {unit}", values.join(", ")),
    }
}

fn number(value: f64) -> String {
    match value {
        // Whole numbers of a row are exact.
        _ if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value:.0}"),
        _ if value.abs() >= 1e-3 => format!("{value:.4}"),
        _ => format!("{value:.3e}"),
    }
}

/// Says where the starting policy is, and how far the warm-up came.
///
/// # Errors
/// When the answer cannot be written.
pub fn warmed_up(output: &Path, last: Option<(u64, f64)>, json: bool) -> anyhow::Result<()> {
    let (updates, loss) = last.unzip();
    let found = json!({ "output": output, "updates": updates, "loss": loss });
    answer(json, &found, || format!("wrote the starting policy to {}\n", output.display()))
}

/// Says how many rows remain, and where they are.
///
/// # Errors
/// When the answer cannot be written.
pub fn filtered(output: &Path, outcome: &PrefilterOutcome, json: bool) -> anyhow::Result<()> {
    let mut found = serde_json::to_value(outcome)?;
    found["output"] = json!(output);
    answer(json, &found, || format!("wrote {} rows to {}\n", outcome.kept, output.display()))
}

/// Says which policy was written, and where to.
///
/// # Errors
/// When the answer cannot be written.
pub fn exported(output: &Path, version: &str, json: bool) -> anyhow::Result<()> {
    let found = json!({ "output": output, "version": version });
    answer(json, &found, || format!("wrote the policy of {version} to {}\n", output.display()))
}

/// Prints `found` as one line of JSON, or the words for people.
fn answer(json: bool, found: &Value, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    Ok(print(&if json { format!("{found}\n") } else { text() })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_row_of_each_kind_is_shown_and_a_torn_line_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let missing = newest(dir.path()).unwrap_err().to_string();
        assert!(missing.contains("there are no metrics") && missing.contains("metrics.jsonl"), "{missing}");
        let rows = "{\"update\":1,\"reward\":0.25,\"accuracy\":0.5}\n{\"evaluated\":0,\"held_out_accuracy\":null}\n\
                    {\"update\":2,\"reward\":0.75,\"refused\":{\"stale\":3},\"waited_s\":1e-5,\"tokens\":12}\n{\"upd";
        std::fs::write(RunDir::new(dir.path()).metrics(), rows).unwrap();
        let found = newest(dir.path()).unwrap();
        assert_eq!(found.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), ["update", "evaluation"]);
        let text = of_row("update", &found[0].1);
        for part in ["newest update\n", " 0.7500\n", "stale 3 groups\n", "1.000e-5 s\n", " 12 tokens\n"] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
        assert!(!text.contains("0.25"), "{text}");
        assert!(!of_row("evaluation", &found[1].1).contains("held_out_accuracy"), "null is no value");
    }

    #[test]
    fn a_preset_is_shown_as_json_with_all_its_parts() {
        let choice = ObjectiveChoice::from(Preset::ALL[0]);
        let shown = serde_json::to_value(choice).unwrap();
        assert_eq!(shown["name"], Preset::ALL[0].name());
        assert!(shown.as_object().unwrap().len() > 3, "{shown}");
    }
}
