//! A system that allows no more threads.
//!
//! Libraries panic where a thread is refused to them, in the midst of anything and with words that name
//! neither threads nor a limit.

use super::leave;
use super::output::note;
use parking_lot::RwLock;
use std::fs;
use std::io;
use std::panic;
use std::path::{Path, PathBuf};
use std::thread;

/// The stack of a thread that does nothing, in bytes.
const IDLE_STACK_BYTES: usize = 64 << 10;
/// Where Linux shows control groups.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";
/// What panics over a refused thread say: tokio's, the standard library's, rayon's.
const REFUSALS: [&str; 3] =
    ["OS can't spawn worker thread", "failed to spawn thread", "ThreadPoolBuildError"];

/// From now on a panic over a refused thread ends the process, with exit code 1 and a sentence that
/// says what to do.
pub fn end_when_refused(program: &'static str) {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if info.payload_as_str().is_some_and(is_refusal) {
            note(&format!("{program}: {}", sentence()));
            leave(1);
        }
        before(info);
    }));
}

/// An error of a thread that could not be started, in words that say what to do where the
/// system allows no more.
#[must_use]
pub fn explained(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(error.kind(), sentence()),
        _ => error,
    }
}

fn is_refusal(panic: &str) -> bool {
    REFUSALS.iter().any(|refusal| panic.contains(refusal))
}

fn sentence() -> String {
    format!("the system allows no more threads ({}): raise that limit, or end other programs", limit())
}

/// How many of `needed` threads can run at once beside those that run now.
#[must_use]
pub fn startable(needed: usize) -> usize {
    let lock = RwLock::new(());
    let held = lock.write();
    thread::scope(|scope| {
        let start = |_| {
            let thread = thread::Builder::new().stack_size(IDLE_STACK_BYTES);
            thread.spawn_scoped(scope, || drop(lock.read()))
        };
        let started = (0..needed).map(start).take_while(Result::is_ok).count();
        drop(held);
        started
    })
}

/// What bounds the number of threads, in words.
#[must_use]
pub fn limit() -> String {
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
    fn a_refused_thread_is_named_with_the_limit() {
        let refused = explained(io::ErrorKind::WouldBlock.into()).to_string();
        assert!(refused.starts_with("the system allows no more threads"), "{refused}");
        let other = explained(io::ErrorKind::NotFound.into());
        assert_eq!(other.kind(), io::ErrorKind::NotFound);
        assert!(!other.to_string().contains("threads"), "{other}");
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max processes             256                  512                  processes\n";
        assert_eq!((of_user(limits), of_group("12:pids:/old\n")), (Some(256), None));
        assert_eq!(
            of_user("Max processes             unlimited            unlimited            processes"),
            None
        );
    }

    #[test]
    fn a_few_threads_can_be_started() {
        assert_eq!((startable(0), startable(2)), (0, 2));
    }

    #[test]
    fn only_panics_over_threads_are_refusals() {
        assert!(is_refusal("OS can't spawn worker thread: Resource temporarily unavailable (os error 11)"));
        assert!(is_refusal("failed to spawn thread: Os { code: 11, kind: WouldBlock, message: \"…\" }"));
        assert!(!is_refusal("index out of bounds: the len is 3 but the index is 4"));
    }
}
