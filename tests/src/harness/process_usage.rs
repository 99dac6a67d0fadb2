//! Memory, processor time, threads and descriptors of a process, from `/proc`.

use anyhow::Context;
use std::fs;

/// What a process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessUsage {
    /// Resident memory now, in bytes.
    pub(crate) rss: u64,
    /// The most that it ever was.
    pub(crate) rss_peak: u64,
    /// Processor time of all threads since the start, in seconds.
    pub(crate) cpu_s: f64,
    /// Threads that it has now.
    pub(crate) threads: u64,
    /// Descriptors that are open now.
    pub(crate) descriptors: u64,
}

/// What the process uses now; `None` where the system does not say, or when it has ended.
pub(crate) fn of(pid: u32) -> Option<ProcessUsage> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    // The second field is the program's name in parentheses and may hold anything; `utime` and
    // `stime` are fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(ProcessUsage {
        rss: number("VmRSS:")? << 10,
        rss_peak: number("VmHWM:")? << 10,
        cpu_s: ticks as f64 / per_second(),
        threads: number("Threads:")?,
        descriptors: fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64,
    })
}

/// Processor time of a process that runs, in seconds.
pub(crate) fn processor_s(pid: u32) -> anyhow::Result<f64> {
    of(pid).map(|used| used.cpu_s).context("processor time is read from /proc, which only Linux has")
}

#[cfg(unix)]
fn per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

#[cfg(not(unix))]
fn per_second() -> f64 {
    100.0
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn we_use_something_and_the_dead_use_nothing() {
        let begun = std::time::Instant::now();
        while of(std::process::id()).unwrap().cpu_s == 0.0 && begun.elapsed().as_secs() < 10 {}
        let usage = of(std::process::id()).unwrap();
        assert!(usage.rss > 1 << 20 && usage.rss <= usage.rss_peak && usage.cpu_s > 0.0, "{usage:?}");
        assert!(usage.threads > 0 && usage.descriptors > 2, "{usage:?}");
        assert_eq!(of(u32::MAX), None);
    }
}
