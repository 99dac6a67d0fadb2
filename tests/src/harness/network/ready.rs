//! Waiting for what a process writes.

use crate::harness::processes::Process;
use anyhow::bail;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The pause between two looks at a file.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The lines of a file that `writer` puts in place at once when it is ready.
pub(super) async fn lines_of(
    path: &Path,
    writer: &mut Process,
    limit: Duration,
) -> anyhow::Result<Vec<String>> {
    let begun = Instant::now();
    loop {
        if let Ok(text) = fs::read_to_string(path) {
            return Ok(text.lines().map(str::to_owned).collect());
        }
        writer.must_run()?;
        if begun.elapsed() > limit {
            let (name, path) = (writer.name(), path.display());
            bail!(
                "{name} has not written {path} after {limit:?}; the end of its log:\n{}",
                writer.log_tail()
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
