//! What can be seen of a network from outside: its files and logs.

use crate::network::Layout;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};

/// The last row of the metrics is within so many bytes of their end.
const TAIL_BYTES: u64 = 64 << 10;

/// Updates made so far, by the metrics.
pub(super) fn updates(layout: &Layout) -> u64 {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(layout.metrics())?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        Ok(tail)
    };
    let tail = read().unwrap_or_default();
    let rows = tail.split(|byte| *byte == b'\n').rev();
    rows.filter_map(|row| serde_json::from_slice::<Value>(row).ok()?.get("update")?.as_u64())
        .next()
        .unwrap_or(0)
}

/// The whole log of a process.
pub(super) fn log(layout: &Layout, who: &str) -> String {
    fs::read(layout.log(who)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Bytes in the log of a process.
pub(super) fn log_bytes(layout: &Layout, who: &str) -> u64 {
    fs::metadata(layout.log(who)).map_or(0, |found| found.len())
}

/// Who is not heard by the learner, and why.
pub(super) fn silenced(layout: &Layout) -> Vec<String> {
    let listing = fs::read(layout.run_dir().join("peers.json")).unwrap_or_default();
    let listing: Value = serde_json::from_slice(&listing).unwrap_or_default();
    let peers = listing["peers"].as_array().cloned().unwrap_or_default();
    let silence =
        |peer: &Value| Some(format!("{} {}", peer["key"].as_str()?.get(..8)?, peer["silence"].as_str()?));
    peers.iter().filter_map(silence).collect()
}
