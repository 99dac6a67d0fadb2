//! A lab's place on the machine: a number under which all of its namespaces are named.

use super::NetnsError;
use super::tools::ip;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Labs that may run at once.
const SLOTS: usize = 32;
/// Where the locks lie. The directory is emptied by a reboot, as are namespaces.
const LOCKS: &str = "/run/echo-lab";

/// A locked slot. Dropped, its namespaces are removed.
#[derive(Debug)]
pub(super) struct NamespaceSlot {
    number: usize,
    /// Released by the system when this process ends, however it ends.
    _lock: File,
}

impl NamespaceSlot {
    /// Takes a free slot and removes what a lab that died left there.
    pub(super) fn take() -> Result<Self, NetnsError> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |source: io::Error| NetnsError::Lock { path, source }
        };
        let dir = Path::new(LOCKS);
        fs::create_dir_all(dir).map_err(failed(dir))?;
        for number in 0..SLOTS {
            let path = dir.join(format!("{number}.lock"));
            let lock = File::options().create(true).truncate(false).write(true).open(&path);
            let lock = lock.map_err(failed(&path))?;
            match lock.try_lock() {
                Ok(()) => {
                    let slot = Self { number, _lock: lock };
                    slot.clear()?;
                    return Ok(slot);
                }
                Err(fs::TryLockError::WouldBlock) => {}
                Err(fs::TryLockError::Error(source)) => return Err(failed(&path)(source)),
            }
        }
        Err(NetnsError::NoSlot(SLOTS))
    }

    /// What the names of this slot's namespaces begin with.
    pub(super) fn prefix(&self) -> String {
        format!("echolab{}-", self.number)
    }

    /// Ends every process in this slot's namespaces and removes them.
    fn clear(&self) -> Result<(), NetnsError> {
        let prefix = self.prefix();
        let list = ip("netns list")?;
        // Lines are `NAME` or `NAME (id: 3)`.
        let names = list.lines().filter_map(|line| line.split_whitespace().next());
        for name in names.filter(|name| name.starts_with(&prefix)) {
            for pid in ip(&format!("netns pids {name}"))?.split_whitespace() {
                kill(pid);
            }
            ip(&format!("netns del {name}"))?;
        }
        Ok(())
    }
}

impl Drop for NamespaceSlot {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            tracing::warn!(%error, "namespaces are left behind; the next lab removes them");
        }
    }
}

/// Kills a process that a dead lab left in one of its namespaces.
fn kill(pid: &str) {
    #[cfg(unix)]
    if let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
        // It may have ended by itself in the meantime.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = pid;
}
