//! Opening the database, also when something else has damaged its files.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// Bytes of memory for the database's cache.
const CACHE_BYTES: u64 = 8 << 20;
/// Attempts to open a database that is still locked.
const UNLOCK_ATTEMPTS: u32 = 50;
/// The pause between two of them.
const UNLOCK_PAUSE: Duration = Duration::from_millis(20);
/// The database's file of its own settings, which are always the same here.
const SETTINGS: &str = "conf";
/// The database's file of everything else.
const DATA: &str = "db";
/// The checksum at the end of [`SETTINGS`], in bytes.
const CHECKSUM_BYTES: usize = 4;

/// Opens the database in `dir`, or makes one. It is made anew where its files are damaged beyond reading, and
/// the log says so.
pub(super) fn open(dir: &Path) -> sled::Result<sled::Db> {
    // Every change is flushed where it happens; a flush by the clock would only cost.
    let config = sled::Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
    let was_there = [SETTINGS, DATA].iter().any(|name| dir.join(name).exists());
    let db = match open_unlocked(&config) {
        Err(error) if is_of_settings(dir, &error) => open_without_settings(dir, &config)?,
        opened => opened?,
    };
    if !db.was_recovered() {
        if was_there {
            tracing::warn!(
                "outbox {}: its file {DATA} is missing or damaged; groups that waited there are lost",
                dir.display()
            );
        }
        // From now on a database without contents is a damaged one.
        db.flush()?;
    }
    Ok(db)
}

/// Its last user in this process, if there was one, may let go of the lock a moment after it was dropped.
fn open_unlocked(config: &sled::Config) -> sled::Result<sled::Db> {
    for _ in 0..UNLOCK_ATTEMPTS {
        match config.open() {
            Err(sled::Error::Io(_)) => std::thread::sleep(UNLOCK_PAUSE),
            opened => return opened,
        }
    }
    config.open()
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

/// Opens the database with new settings in the place of the old ones, which are kept beside them.
fn open_without_settings(dir: &Path, config: &sled::Config) -> sled::Result<sled::Db> {
    let (path, damaged) = (dir.join(SETTINGS), dir.join(format!("{SETTINGS}.damaged")));
    fs::rename(&path, &damaged)?;
    match open_unlocked(config) {
        Ok(db) => {
            tracing::warn!("{} was damaged, and has been written again", path.display());
            Ok(db)
        }
        Err(error) => {
            // It was not that file alone.
            fs::rename(&damaged, &path)?;
            Err(error)
        }
    }
}
