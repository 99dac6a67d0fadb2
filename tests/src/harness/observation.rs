//! What can be seen of a network from outside: its files and logs.

use crate::harness::network::NetworkLayout;
use anyhow::Context as _;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};

/// The last row of the metrics is within so many bytes of their end.
const TAIL_BYTES: u64 = 64 << 10;

/// Updates made so far, by the metrics.
pub(crate) fn updates(layout: &NetworkLayout) -> u64 {
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
pub(crate) fn log(layout: &NetworkLayout, who: &str) -> String {
    fs::read(layout.log(who)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The log of a process from a byte on.
pub(crate) fn log_since(layout: &NetworkLayout, who: &str, since: u64) -> String {
    let whole = fs::read(layout.log(who)).unwrap_or_default();
    let since = usize::try_from(since).unwrap_or(usize::MAX).min(whole.len());
    String::from_utf8_lossy(&whole[since..]).into_owned()
}

/// Bytes in the log of a process.
pub(crate) fn log_bytes(layout: &NetworkLayout, who: &str) -> u64 {
    fs::metadata(layout.log(who)).map_or(0, |found| found.len())
}

/// Whom the learner holds something against, by the list that it wrote when it ended.
/// Fails when there is no such list.
pub(crate) fn accused(layout: &NetworkLayout) -> anyhow::Result<Vec<String>> {
    let path = layout.run_dir().join("peers.json");
    let listing = fs::read(&path).with_context(|| path.display().to_string())?;
    let listing: Value = serde_json::from_slice(&listing).with_context(|| path.display().to_string())?;
    let peers = listing["peers"].as_array().context("peers.json has no peers")?;
    let accusation = |peer: &Value| {
        let key = peer["key"].as_str().unwrap_or_default().get(..8)?;
        let lies = peer["record"]["lies"].as_u64().unwrap_or(u64::MAX);
        match peer["silence"].as_str() {
            Some(silence) => Some(format!("{key}: {silence}")),
            None => (lies > 0).then(|| format!("{key}: {lies} lies")),
        }
    };
    Ok(peers.iter().filter_map(accusation).collect())
}
