//! How many threads this process may start.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::thread;

/// Threads that a learner starts at least, on a machine of one processor. A learner with two runs 23 of them.
pub(crate) const NEEDED: usize = 16;
/// These threads do nothing.
const STACK_BYTES: usize = 64 << 10;
/// Where Linux shows control groups.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// Too few threads can be started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a learner needs {needed} threads and more, and only {started} can be started ({limit}): raise that limit"
)]
pub struct TooFew {
    needed: usize,
    started: usize,
    limit: String,
}

/// Tries whether `needed` threads can run at once.
///
/// # Errors
/// [`TooFew`]
pub(crate) fn check(needed: usize) -> Result<(), TooFew> {
    let gate = RwLock::new(());
    let held = gate.write().unwrap_or_else(PoisonError::into_inner);
    let started = thread::scope(|scope| {
        let start = |_| {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, || drop(gate.read()))
        };
        let started = (0..needed).map(start).take_while(Result::is_ok).count();
        drop(held);
        started
    });
    if started < needed { Err(TooFew { needed, started, limit: limit() }) } else { Ok(()) }
}

/// What bounds the number of threads, in words.
pub(crate) fn limit() -> String {
    let user = fs::read_to_string("/proc/self/limits").ok().and_then(|limits| of_user(&limits));
    let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|groups| of_group(&groups));
    let group = group.map(|(most, file)| (most, format!("{} is {most}", file.display())));
    let user = user.map(|most| (most, format!("`ulimit -u` is {most}")));
    let tightest = group.into_iter().chain(user).min_by_key(|(most, _)| *most);
    tightest.map_or_else(|| "the system's limit of threads".to_owned(), |(_, text)| text)
}

/// The soft limit of processes in `/proc/self/limits`, which counts threads.
fn of_user(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max processes"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The tightest `pids.max` of the control group in `/proc/self/cgroup` and those around it.
fn of_group(groups: &str) -> Option<(u64, PathBuf)> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let around =
        Path::new(group).ancestors().map(|group| Path::new(CONTROL_GROUPS).join(group).join("pids.max"));
    let most = |file: PathBuf| Some((fs::read_to_string(&file).ok()?.trim().parse().ok()?, file));
    around.filter_map(most).min_by_key(|(most, _)| *most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_threads_can_be_started() {
        assert_eq!(check(2), Ok(()));
    }

    #[test]
    fn the_limit_of_the_user_is_read() {
        let limits = "Limit Soft Limit Hard Limit Units\nMax processes             1234                 5678                 processes\n";
        assert_eq!(of_user(limits), Some(1234));
        assert_eq!(
            of_user("Max processes             unlimited            unlimited            processes"),
            None
        );
        assert_eq!(of_group("12:pids:/old\n"), None);
    }
}
