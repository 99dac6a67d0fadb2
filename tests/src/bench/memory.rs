//! What a process holds, as the system counts it.

use anyhow::Context;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How often a watched process is looked at.
const WATCH_EVERY: Duration = Duration::from_millis(5);

/// Resident memory of this process, and the most that it ever held, in MB.
pub(super) fn resident() -> anyhow::Result<(f64, f64)> {
    let status = Status::read()?;
    Ok((status.mb("VmRSS")?, status.mb("VmHWM")?))
}

/// Memory of this process at one moment, in MB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ProcessMemory {
    /// All that is in memory.
    pub(super) resident: f64,
    /// The part of it that no file holds as well: the system cannot take it back.
    pub(super) own: f64,
    /// The part of it that files hold as well.
    pub(super) mapped: f64,
}

impl ProcessMemory {
    /// What `/proc/self/status` says at this moment.
    pub(super) fn now() -> anyhow::Result<Self> {
        let status = Status::read()?;
        let mapped = status.mb("RssFile")? + status.mb("RssShmem")?;
        Ok(Self { resident: status.mb("VmRSS")?, own: status.mb("RssAnon")?, mapped })
    }

    /// What there is more than `before`.
    pub(super) fn beyond(self, before: Self) -> Self {
        Self {
            resident: self.resident - before.resident,
            own: self.own - before.own,
            mapped: self.mapped - before.mapped,
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            resident: self.resident.max(other.resident),
            own: self.own.max(other.own),
            mapped: self.mapped.max(other.mapped),
        }
    }

    /// Does `work`, and says how much of each kind there was at the most meanwhile.
    pub(super) fn watch<T>(work: impl FnOnce() -> T) -> anyhow::Result<(T, Self)> {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let watching = scope.spawn(|| {
                let mut most = Self::now()?;
                while !done.load(Ordering::Relaxed) {
                    thread::sleep(WATCH_EVERY);
                    most = most.max(Self::now()?);
                }
                anyhow::Ok(most)
            });
            let worked = work();
            done.store(true, Ordering::Relaxed);
            let most =
                watching.join().map_err(|_| anyhow::anyhow!("the thread that watches memory panicked"))??;
            Ok((worked, most))
        })
    }
}

struct Status(String);

impl Status {
    fn read() -> anyhow::Result<Self> {
        let text = std::fs::read_to_string("/proc/self/status");
        text.map(Self).context("memory is read from /proc/self/status, which only Linux has")
    }

    fn mb(&self, name: &str) -> anyhow::Result<f64> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes =
            line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next()?.parse().ok());
        let kibibytes: f64 = kibibytes.with_context(|| format!("/proc/self/status has no {name}"))?;
        Ok(kibibytes * 1024.0 / 1e6)
    }
}
