//! Processor time of a tree of processes, where no control group sums it.

use std::fs;
use std::time::Duration;

/// The most processes looked at; a run may have fewer.
const MAX_PROCESSES: usize = 4096;

/// Processor time of a process and all below it, as far as they live or were waited for. Processes
/// that ended without anybody waiting are not counted, which only the wall clock bounds.
pub(super) fn cpu(root: u32) -> Duration {
    let mut ticks = 0;
    let mut open = vec![root];
    let mut seen = 0;
    while let Some(pid) = open.pop() {
        seen += 1;
        if seen > MAX_PROCESSES {
            break;
        }
        ticks += fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .and_then(|stat| ticks_of(&stat))
            .unwrap_or(0);
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            open.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second().max(1) as u32
}

/// The sum of user and system time, own and of children that were waited for. The name may hold
/// anything, so that fields are counted from its last parenthesis.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let times = fields.split(' ').skip(11).take(4);
    times.map(|time| time.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5";
        assert_eq!(ticks_of(stat), Some(100));
        assert_eq!(ticks_of("7 (cut) S 1"), Some(0));
        assert_eq!(ticks_of("nothing"), None);
    }
}
