//! Where races write: in memory, if there is room. Hosts that would each have a disk share the one
//! of this machine, and when it falls behind, all of them stand still at once.

use super::options::{Broadcast, RaceSnapshots};
use anyhow::Context as _;
use echo_protocol::dissemination::KEPT_VERSIONS;
use std::fs::{self, DirEntry, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The file system in memory that Linux has for everyone.
const MEMORY: &str = "/dev/shm";
/// What the names of passing directories begin with: nothing that somebody would name a directory
/// which is to be kept.
const PREFIX: &str = "echo-broadcast-passing-";

/// A directory that was asked for and is kept, or one that goes when we go.
pub(super) enum ScratchDir {
    Kept(PathBuf),
    Passing {
        dir: TempDir,
        /// The directory, locked until this process ends, however it ends. Where directories cannot
        /// be locked, nobody sweeps them.
        _lock: Option<File>,
    },
}

impl ScratchDir {
    /// The directory of `--dir`. Without it, one in `TMPDIR` if that is set, else in memory if a
    /// race needs at most half of what is available there, else where temporary files go.
    pub(super) fn new(broadcast: &Broadcast) -> anyhow::Result<Self> {
        // First, as what lies there takes the room.
        remove_orphans(Path::new(MEMORY));
        if let Some(dir) = &broadcast.dir {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            return Ok(Self::Kept(std::path::absolute(dir)?));
        }
        if std::env::var_os("TMPDIR").is_none()
            && most_written(&broadcast.snapshots, broadcast.nodes) <= room_in_memory()
            && let Ok(scratch) = Self::passing(Path::new(MEMORY))
        {
            return Ok(scratch);
        }
        let parent = std::env::temp_dir();
        remove_orphans(&parent);
        Self::passing(&parent).with_context(|| format!("cannot make a directory in {}", parent.display()))
    }

    fn passing(parent: &Path) -> io::Result<Self> {
        loop {
            let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let lock = File::open(dir.path()).ok();
            let taken =
                lock.as_ref().is_some_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
            // Another lab may have taken it for an orphan before it was locked.
            if !taken && dir.path().exists() {
                return Ok(Self::Passing { dir, _lock: lock });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Passing { dir, .. } => dir.path(),
        }
    }
}

/// Removes the directories of labs that were killed, as far as that can be done.
fn remove_orphans(parent: &Path) {
    let passing = |entry: &DirEntry| {
        entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for path in entries.filter(passing).map(|entry| entry.path()) {
        if let Ok(dir) = File::open(&path)
            && dir.try_lock().is_ok()
            && let Err(error) = fs::remove_dir_all(&path)
        {
            tracing::warn!(path = %path.display(), %error, "files of a lab that was killed are left behind");
        }
    }
}

/// Bytes that will lie in files at the end of a race, roughly, and an eighth more: each version
/// that was made for it, and those that each host keeps.
fn most_written(snapshots: &RaceSnapshots, nodes: usize) -> u64 {
    let (made, kept) = match snapshots {
        RaceSnapshots::Random { bytes, delta_from } => {
            let versions = delta_from.map_or(1, |version| version.saturating_add(2));
            // Those that stay, and the one that comes.
            let held = versions.min(KEPT_VERSIONS as u64 + 1);
            (bytes.saturating_mul(versions), bytes.saturating_mul(held))
        }
        RaceSnapshots::Given { old, new } => (0, bytes_in(old).saturating_add(bytes_in(new))),
    };
    let hosts = (nodes + 1) as u64;
    let all = kept.saturating_mul(hosts).saturating_add(made);
    all.saturating_add(all / 8)
}

/// Bytes of the files in a directory, as far as it can be read.
fn bytes_in(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::metadata(entry.path()).ok()).map(|about| about.len()).sum()
}

/// Half of the memory that is available, or what the file system there has free, if that is less; 0
/// where the system has none, or does not say.
fn room_in_memory() -> u64 {
    let free = free_if_memory(Path::new(MEMORY));
    free.map_or(0, |free| free.min(available_memory().unwrap_or(0) / 2))
}

/// What the machine has available, or a container's limit leaves of it.
fn available_memory() -> Option<u64> {
    let all = fs::read_to_string("/proc/meminfo").ok()?;
    let line = all.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10;
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    // Control groups of the second and the first version; a container sees its own at the root. No
    // limit is no number, or a huge one.
    let groups = [
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ];
    let left = groups.iter().filter_map(|(limit, used)| Some(number(limit)?.saturating_sub(number(used)?)));
    Some(left.fold(available, u64::min))
}

/// What a directory lies on: `memory` (tmpfs) or `disk` (anything else).
pub(super) fn medium(dir: &Path) -> &'static str {
    if free_if_memory(dir).is_some() { "memory" } else { "disk" }
}

/// Free bytes of the file system on which something lies, if that is one in memory.
#[cfg(target_os = "linux")]
fn free_if_memory(path: &Path) -> Option<u64> {
    /// What statfs(2) says of a tmpfs: `TMPFS_MAGIC` of linux/magic.h.
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    let about = rustix::fs::statfs(path).ok()?;
    let block = u64::try_from(about.f_bsize).ok()?;
    (about.f_type == TMPFS).then(|| about.f_bavail.saturating_mul(block))
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
            dir
        };
        let (orphan, other) = (make(&format!("{PREFIX}1")), make("another"));
        let living = ScratchDir::passing(parent.path()).unwrap();
        remove_orphans(parent.path());
        assert!(!orphan.exists() && other.exists() && living.path().exists());
        let gone = living.path().to_owned();
        drop(living);
        assert!(!gone.exists());
    }

    #[test]
    fn room_is_counted_for_every_host() {
        let written = |delta_from| most_written(&RaceSnapshots::Random { bytes: 8 << 20, delta_from }, 7);
        assert_eq!(written(None), ((8 + 8 * 8) << 20) * 9 / 8);
        assert_eq!(written(Some(8)), ((10 * 8 + 8 * 4 * 8) << 20) * 9 / 8);
    }
}
