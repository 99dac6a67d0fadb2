//! Opening a sled database, also when something has damaged its file of settings.

use std::fs;
use std::path::Path;

/// The database's file of its own settings, which are always the same here.
pub const SETTINGS: &str = "conf";
/// The checksum at the end of [`SETTINGS`], in bytes.
const CHECKSUM_BYTES: usize = 4;

/// Has `open` open the database in `dir`. Where its settings alone are damaged, new ones take their place,
/// the old ones are kept beside them, and the log says so.
///
/// # Errors
/// The error of `open`, where fresh settings do not help.
pub fn open(dir: &Path, open: impl Fn() -> sled::Result<sled::Db>) -> sled::Result<sled::Db> {
    let error = match open() {
        Err(error) if is_of_settings(dir, &error) => error,
        opened => return opened,
    };
    let (path, damaged) = (dir.join(SETTINGS), dir.join(format!("{SETTINGS}.damaged")));
    fs::rename(&path, &damaged)?;
    match open() {
        Ok(db) => {
            tracing::warn!("{} was damaged, and has been written again", path.display());
            Ok(db)
        }
        Err(_) => {
            // It was not that file alone.
            fs::rename(&damaged, &path)?;
            Err(error)
        }
    }
}

/// Whether the database cannot be opened because its settings make no sense. Settings of another version do.
fn is_of_settings(dir: &Path, error: &sled::Error) -> bool {
    let Ok(settings) = fs::read(dir.join(SETTINGS)) else { return false };
    let text = &settings[..settings.len().saturating_sub(CHECKSUM_BYTES)];
    match error {
        sled::Error::Corruption { .. } => true,
        sled::Error::Unsupported(_) => std::str::from_utf8(text).is_err(),
        _ => false,
    }
}
