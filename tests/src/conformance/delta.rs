//! Deltas between real checkpoints: made, applied, compared byte by byte.
//!
//! Every directory that holds `old.safetensors` and `new.safetensors` is a case. Files are cut as a
//! publisher cuts a snapshot: the header as a companion file, the data as tensors, both in chunks
//! of [`CHUNK_BYTES`]; chunk i of the new file is expressed against chunk i of the old one. So
//! shapes, types and lengths may differ, and the whole new file has to come out again.

mod checkpoint;
mod entropy;
mod measure;

pub use measure::{Measure, PASSES};

use crate::output::console::{CommandReport, Console};
use anyhow::{Context, ensure};
use checkpoint::Checkpoint;
use echo_protocol::snapshot::delta::Width;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = 1 << 20;
/// How many directories deep cases are looked for.
const DEPTH: usize = 4;

/// Round-trips every case in and below `dir`. Tells of each, and reports them all.
///
/// # Errors
/// When `dir` cannot be read or holds no case.
pub fn check(dir: &Path, console: &Console) -> anyhow::Result<CommandReport> {
    let mut cases = Vec::new();
    find(dir, DEPTH, &mut cases)?;
    ensure!(!cases.is_empty(), "no directory in {} holds old.safetensors and new.safetensors", dir.display());
    cases.sort();
    let mut directories = Vec::new();
    for case in &cases {
        let name = case.strip_prefix(dir).unwrap_or(case).display().to_string();
        let name = if name.is_empty() { ".".to_owned() } else { name };
        let mut row = match round_trip(case) {
            Ok(measure) => {
                console.say(format!("{name}\n{measure}"));
                measure.to_json()
            }
            Err(error) => {
                console.say(format!("{name}\n  failed: {error:#}"));
                json!({ "identical": false, "error": format!("{error:#}") })
            }
        };
        row["directory"] = json!(name);
        directories.push(row);
    }
    let passed = directories.iter().filter(|row| row["identical"] == Value::Bool(true)).count();
    let (cases, failed) = (cases.len(), cases.len() - passed);
    console.say(format!("cases    {cases}\npassed   {passed}\nfailed   {failed}"));
    let json = json!({ "cases": cases, "passed": passed, "failed": failed, "directories": directories });
    Ok(CommandReport { passed: failed == 0, json })
}

fn find(dir: &Path, depth: usize, cases: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if ["old.safetensors", "new.safetensors"].iter().all(|name| dir.join(name).is_file()) {
        cases.push(dir.to_owned());
    }
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", dir.display()))?.path();
        if depth > 0 && path.is_dir() {
            find(&path, depth - 1, cases)?;
        }
    }
    Ok(())
}

fn round_trip(case: &Path) -> anyhow::Result<Measure> {
    let mut old = Checkpoint::open(&case.join("old.safetensors"))?;
    let mut new = Checkpoint::open(&case.join("new.safetensors"))?;
    let mut measure = Measure::default();
    let mut at = 0;
    while at < new.header.len() {
        measure.chunk(part(&old.header, at), part(&new.header, at), Width::One)?;
        at += CHUNK_BYTES;
    }
    let mut at = 0;
    while at < new.data_bytes() {
        let width = new.width(at, CHUNK_BYTES as u64);
        measure.chunk(&old.data(at, CHUNK_BYTES)?, &new.data(at, CHUNK_BYTES)?, width)?;
        at += CHUNK_BYTES as u64;
    }
    Ok(measure)
}

/// The chunk of `bytes` at `start`, empty after the end.
fn part(bytes: &[u8], start: usize) -> &[u8] {
    let start = start.min(bytes.len());
    &bytes[start..(start + CHUNK_BYTES).min(bytes.len())]
}

#[cfg(test)]
mod tests;
