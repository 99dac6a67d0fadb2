//! Control groups: where they are mounted, and one group for the runs of a zygote.

mod hierarchies;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(super) use self::hierarchies::{Hierarchies, Version};
use super::message::ZygoteSetup;
use crate::isolation::RunLimits;

/// The most bytes of a counter's file that are read.
const MAX_COUNTER_BYTES: usize = 4096;

/// A group that has no more than this is not looked at closer before its next run.
const LITTLE_MEMORY: u64 = 2 << 20;

/// How long the next run waits for the memory of the last one. The kernel frees a tmpfs some time
/// after its last user is gone, within milliseconds when the machine is idle.
const SETTLE: Duration = Duration::from_secs(1);

/// Groups are told apart by the process and this count.
static GROUPS: AtomicU32 = AtomicU32::new(0);

/// The control group of a zygote's runs, one after the other.
#[derive(Debug)]
pub(super) struct ControlGroup {
    version: Version,
    /// Where memory, processes and processor time are limited and counted; of version 2
    /// all the same directory.
    memory: PathBuf,
    pids: PathBuf,
    cpu: PathBuf,
    /// What was written last, so that it is not written again.
    written: Option<(u64, u32)>,
    cpu_counter: File,
    oom_counter: File,
    peak_counter: Option<File>,
    /// The counters at the begin of the run.
    cpu_before: Duration,
    ooms_before: u64,
}

impl ControlGroup {
    /// Makes a group below this process's own, or beside it.
    pub(super) fn create(hierarchies: &Hierarchies) -> io::Result<Self> {
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let (version, dirs) = hierarchies.make(&format!("echo-sandbox-{}-{number}", std::process::id()))?;
        let group = Self::open(version, dirs.clone());
        if group.is_err() {
            dirs.iter().for_each(|dir| drop(fs::remove_dir(dir)));
        }
        group
    }

    /// Opens the counters of a group that was made.
    fn open(version: Version, [memory, pids, cpu]: [PathBuf; 3]) -> io::Result<Self> {
        let open = |dir: &Path, file: &str| File::open(dir.join(file));
        let counters = match version {
            Version::V1 => (open(&cpu, "cpuacct.usage")?, open(&memory, "memory.oom_control")?),
            Version::V2 => (open(&cpu, "cpu.stat")?, open(&memory, "memory.events")?),
        };
        let peak = match version {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        };
        // Kernels before 5.19 do not count it in version 2.
        let peak_counter = File::options().read(true).write(true).open(memory.join(peak)).ok();
        let (cpu_counter, oom_counter) = counters;
        let (cpu_before, ooms_before, written) = (Duration::ZERO, 0, None);
        let group = Self {
            version,
            memory,
            pids,
            cpu,
            written,
            cpu_counter,
            oom_counter,
            peak_counter,
            cpu_before,
            ooms_before,
        };
        if version == Version::V2 {
            // The whole run ends when it is out of memory. Kernels before 4.19 cannot; the host sees it then.
            write(&group.memory, "memory.oom.group", "1").ok();
        }
        Ok(group)
    }

    /// What a zygote has to know of the group.
    pub(super) fn describe(&self, setup: &mut ZygoteSetup) {
        let dirs = self.dirs();
        match self.version {
            // `tasks`, not `cgroup.procs`: a thread that moves itself needs not wait for all
            // processes of the system.
            Version::V1 => setup.join = dirs.iter().map(|dir| dir.join("tasks")).collect(),
            Version::V2 => setup.born_in = Some(self.memory.clone()),
        }
        setup.remove = dirs;
    }

    /// Sets the limits of the next run, and starts its counters.
    pub(super) fn begin(&mut self, limits: &RunLimits) -> io::Result<()> {
        self.settle()?;
        if self.written != Some((limits.memory, limits.processes)) {
            self.limit(limits)?;
            self.written = Some((limits.memory, limits.processes));
        }
        if let Some(peak) = &self.peak_counter {
            // Version 2 resets only since 6.12; before, the peak is that of all runs so far.
            peak.write_at(b"0", 0).ok();
        }
        self.cpu_before = self.cpu_total()?;
        self.ooms_before = self.ooms_total()?;
        Ok(())
    }

    /// Waits until files of the last run are gone.
    fn settle(&self) -> io::Result<()> {
        let used = match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        let started = Instant::now();
        loop {
            let used: u64 =
                fs::read_to_string(self.memory.join(used))?.trim().parse().map_err(|_| invalid())?;
            if used <= LITTLE_MEMORY || started.elapsed() > SETTLE {
                return Ok(());
            }
            // What is left else is a cache of the host's files, which the kernel drops when
            // it needs the room.
            let files = field(&fs::read_to_string(self.memory.join("memory.stat"))?, "shmem")?;
            if files == 0 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn limit(&self, limits: &RunLimits) -> io::Result<()> {
        let memory = limits.memory.to_string();
        // The first process of a run is ours.
        write(&self.pids, "pids.max", &(u64::from(limits.processes) + 1).to_string())?;
        match self.version {
            Version::V1 => {
                let both = "memory.memsw.limit_in_bytes";
                // Neither may be above the other on the way: what grows is tried first, and again last.
                let swap_counted = self.memory.join(both).exists();
                if swap_counted {
                    write(&self.memory, both, &memory).ok();
                }
                write(&self.memory, "memory.limit_in_bytes", &memory)?;
                if swap_counted { write(&self.memory, both, &memory) } else { Ok(()) }
            }
            Version::V2 => {
                write(&self.memory, "memory.max", &memory)?;
                // Absent where the kernel knows no swap.
                match write(&self.memory, "memory.swap.max", "0") {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    written => written,
                }
            }
        }
    }

    /// Processor time of the run so far.
    pub(super) fn cpu(&self) -> io::Result<Duration> {
        Ok(self.cpu_total()?.saturating_sub(self.cpu_before))
    }

    /// Whether a process of the run was killed for memory.
    pub(super) fn out_of_memory(&self) -> io::Result<bool> {
        Ok(self.ooms_total()? > self.ooms_before)
    }

    /// The most bytes of memory that the run had at one time; `None` where it is not counted.
    pub(super) fn peak(&self) -> Option<u64> {
        read(self.peak_counter.as_ref()?).ok()?.trim().parse().ok()
    }

    fn cpu_total(&self) -> io::Result<Duration> {
        let text = read(&self.cpu_counter)?;
        match self.version {
            Version::V1 => text.trim().parse().map(Duration::from_nanos).map_err(|_| invalid()),
            Version::V2 => field(&text, "usage_usec").map(Duration::from_micros),
        }
    }

    fn ooms_total(&self) -> io::Result<u64> {
        field(&read(&self.oom_counter)?, "oom_kill")
    }

    /// Whether swap is counted with memory, or cannot be used.
    pub(super) fn swap_counted(&self) -> bool {
        let swap = match self.version {
            Version::V1 => "memory.memsw.limit_in_bytes",
            Version::V2 => "memory.swap.max",
        };
        self.memory.join(swap).exists() || !has_swap()
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Removes the group, which no zygote looks after.
    pub(super) fn remove(&self) {
        remove(&self.dirs());
    }

    /// Its directories, each once.
    fn dirs(&self) -> Vec<PathBuf> {
        let mut dirs = vec![self.memory.clone(), self.pids.clone(), self.cpu.clone()];
        dirs.sort();
        dirs.dedup();
        dirs
    }
}

/// Removes control groups, whose last processes may take a moment to be gone.
pub(super) fn remove(groups: &[PathBuf]) {
    const TRIES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    for group in groups {
        // In version 1, what its runs were the first to read would keep a removed group
        // in the kernel's memory.
        if let Ok(force_empty) = File::options().write(true).open(group.join("memory.force_empty")) {
            rustix::io::write(force_empty, b"0").ok();
        }
        for _ in 0..TRIES {
            match fs::remove_dir(group) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(PAUSE),
                _ => break,
            }
        }
    }
}

/// Whether the machine swaps.
pub(super) fn has_swap() -> bool {
    // The first line is a heading.
    fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1)
}

fn write(dir: &Path, file: &str, value: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(dir.join(file))?.write_at(value.as_bytes(), 0).map(drop)
}

/// A counter's file as it is now.
fn read(file: &File) -> io::Result<String> {
    let mut bytes = vec![0; MAX_COUNTER_BYTES];
    let length = file.read_at(&mut bytes, 0)?;
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| invalid())
}

/// The number after this key, in a file of one key and number a line.
fn field(text: &str, key: &str) -> io::Result<u64> {
    let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok());
    found.ok_or_else(invalid)
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests;
