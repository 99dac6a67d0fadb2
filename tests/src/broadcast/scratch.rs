//! Where races write: in memory, if there is room. Hosts that would each have a disk share the one of this machine, and when it falls
//! behind, all of them stand still at once.

use super::options::{Broadcast, Snapshots};
use anyhow::Context as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The file system in memory that Linux has for everyone.
const MEMORY: &str = "/dev/shm";
/// What the names of passing directories begin with.
const PREFIX: &str = "echo-broadcast-";
/// A file in a passing directory, locked while its lab lives.
const LOCK: &str = "lock";

/// A directory that was asked for and is kept, or one that goes when we go.
pub(super) enum Scratch {
    Kept(PathBuf),
    Passing {
        dir: TempDir,
        /// Released by the system when this process ends, however it ends.
        _lock: File,
    },
}

impl Scratch {
    /// The directory of `--dir`. Without it, one in `TMPDIR` if that is set, else in memory if the races leave half of what is available,
    /// else where temporary files go.
    pub(super) fn new(broadcast: &Broadcast) -> anyhow::Result<Self> {
        if let Some(dir) = &broadcast.dir {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            return Ok(Self::Kept(std::path::absolute(dir)?));
        }
        let in_memory = std::env::var_os("TMPDIR").is_none() && most_written(broadcast)? <= room_in_memory();
        let parent = if in_memory { PathBuf::from(MEMORY) } else { std::env::temp_dir() };
        Self::passing(&parent).with_context(|| format!("cannot make a directory in {}", parent.display()))
    }

    fn passing(parent: &Path) -> anyhow::Result<Self> {
        remove_orphans(parent)?;
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        // It has its name when it is locked: nobody takes it for an orphan's.
        let unnamed = dir.path().join("unlocked");
        let lock = File::create(&unnamed)?;
        lock.try_lock()?;
        fs::rename(&unnamed, dir.path().join(LOCK))?;
        Ok(Self::Passing { dir, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Passing { dir, .. } => dir.path(),
        }
    }
}

/// Removes the directories of labs that were killed.
fn remove_orphans(parent: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let lock = File::open(entry.path().join(LOCK));
        if named && lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            // Another lab may be at it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Bytes that lie in files at the end of one race: each version once as a policy, and once for each host.
fn most_written(broadcast: &Broadcast) -> anyhow::Result<u64> {
    let (versions, policies) = match &broadcast.snapshots {
        Snapshots::Random { bytes, delta_from } => {
            let all = bytes.saturating_mul(delta_from.map_or(1, |version| version.saturating_add(2)));
            (all, all)
        }
        Snapshots::Given { old, new } => (bytes_in(old)?.saturating_add(bytes_in(new)?), 0),
    };
    let hosts = (broadcast.nodes + 1) as u64;
    Ok(versions.saturating_mul(hosts).saturating_add(policies))
}

/// Bytes of the files in a directory.
fn bytes_in(dir: &Path) -> anyhow::Result<u64> {
    let read =
        || fs::read_dir(dir)?.map(|entry| Ok(entry?.path().metadata()?.len())).sum::<std::io::Result<u64>>();
    read().with_context(|| format!("cannot read {}", dir.display()))
}

/// Half of the memory that is available, as far as files may take it; 0 where the system has no file system in memory, or does not say.
fn room_in_memory() -> u64 {
    let free = free_if_memory(Path::new(MEMORY));
    free.map_or(0, |free| free.min(available_memory().unwrap_or(0) / 2))
}

fn available_memory() -> Option<u64> {
    let all = fs::read_to_string("/proc/meminfo").ok()?;
    let line = all.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// `memory` or `disk`: what a directory lies on.
pub(super) fn medium(dir: &Path) -> &'static str {
    if free_if_memory(dir).is_some() { "memory" } else { "disk" }
}

/// Free bytes of the file system on which something lies, if that is one in memory.
#[cfg(target_os = "linux")]
fn free_if_memory(path: &Path) -> Option<u64> {
    /// `TMPFS_MAGIC` of linux/magic.h.
    const TMPFS: u64 = 0x0102_1994;
    let about = rustix::fs::statfs(path).ok()?;
    let (kind, block) = (u64::try_from(about.f_type).ok()?, u64::try_from(about.f_bsize).ok()?);
    (kind == TMPFS).then(|| about.f_bavail.saturating_mul(block))
}

#[cfg(not(target_os = "linux"))]
fn free_if_memory(_path: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_lab_left_is_removed_and_what_a_living_one_has_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let dir = parent.path().join(name);
            fs::create_dir(&dir).unwrap();
            File::create(dir.join(LOCK)).unwrap();
            dir
        };
        let (orphan, other) = (make(&format!("{PREFIX}1")), make("another"));
        let living = Scratch::passing(parent.path()).unwrap();
        let second = Scratch::passing(parent.path()).unwrap();
        assert!(!orphan.exists() && other.exists());
        assert!(living.path().exists() && second.path().exists());
        let gone = living.path().to_owned();
        drop(living);
        assert!(!gone.exists());
    }
}
