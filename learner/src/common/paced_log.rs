//! Lines of the log that a fast run or a large fleet has by the dozen a second.

use echo_protocol::program::log_throttle::Paced;
use std::time::Duration;

/// One line of a kind in this time: of the longest, some 200 bytes, 1.7 MB a day.
const EVERY: Duration = Duration::from_secs(10);

static LINES: Paced = Paced::new(EVERY);

/// Logs a line, at the level `info` when one of its kind is due, and else at `debug`.
pub(crate) fn line(kind: &'static str, text: &str) {
    match due(kind, text) {
        Some(text) => tracing::info!("{text}"),
        None => tracing::debug!("{text}"),
    }
}

/// As [`line`], at the level `warn`.
pub(crate) fn warning(kind: &'static str, text: &str) {
    match due(kind, text) {
        Some(text) => tracing::warn!("{text}"),
        None => tracing::debug!("{text}"),
    }
}

/// The line, with how many it stands for.
fn due(kind: &'static str, text: &str) -> Option<String> {
    Some(match LINES.due(kind)? {
        1 => text.to_owned(),
        lines => format!("{text} · {} more since the last such line", lines - 1),
    })
}
