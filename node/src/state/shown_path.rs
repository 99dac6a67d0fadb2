//! Paths as messages show them.

use std::path::Path;

/// A path for a message. A relative one comes with the directory that it is relative to.
pub(crate) fn located(path: &Path) -> String {
    let shown = path.display();
    match std::env::current_dir() {
        Ok(here) if path.is_relative() => {
            format!("{shown} (in {}, where echo-node was started)", here.display())
        }
        _ => shown.to_string(),
    }
}
