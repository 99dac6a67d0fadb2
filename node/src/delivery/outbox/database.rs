//! Opening the database, also when something else has damaged its files.

use std::path::Path;
use std::time::Duration;

use echo_protocol::program::database;

/// Bytes of memory for the database's cache.
const CACHE_BYTES: u64 = 8 << 20;
/// Attempts to open a database that is still locked.
const UNLOCK_ATTEMPTS: u32 = 50;
/// The pause between two of them.
const UNLOCK_PAUSE: Duration = Duration::from_millis(20);
/// The database's file of everything else.
const DATA: &str = "db";

/// Opens the database in `dir`, or makes one. It is made anew where its files are damaged beyond reading, and
/// the log says so.
pub(super) fn open(dir: &Path) -> sled::Result<sled::Db> {
    // Every change is flushed where it happens; a flush by the clock would only cost.
    let config = sled::Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
    let was_there = [database::SETTINGS, DATA].iter().any(|name| dir.join(name).exists());
    let db = database::open(dir, || open_unlocked(&config))?;
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
