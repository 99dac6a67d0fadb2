//! A system that allows no more threads.
//!
//! Libraries panic where a thread is refused to them, in the midst of anything and with words that name neither threads nor a limit.

use super::leave;
use super::output::note;
use std::fs;
use std::io;
use std::panic;

/// What panics over a refused thread say: tokio's, the standard library's, rayon's.
const REFUSALS: [&str; 3] =
    ["OS can't spawn worker thread", "failed to spawn thread", "ThreadPoolBuildError"];

/// From now on a panic over a refused thread ends the process, with exit code 1 and a sentence that says what to do.
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

/// An error of a thread that could not be started, in words that say what to do where the system allows no more.
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
    let limits: Vec<String> = [of_group(), of_user()].into_iter().flatten().collect();
    let limits = if limits.is_empty() { String::new() } else { format!(" ({})", limits.join(", ")) };
    format!("the system allows no more threads{limits}: raise that limit, or end other programs")
}

/// Of the control group, where Linux says it.
fn of_group() -> Option<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let most = fs::read_to_string(format!("/sys/fs/cgroup{group}/pids.max")).ok()?;
    let most: u64 = most.trim().parse().ok()?;
    Some(format!("this control group may have {most}, by pids.max"))
}

/// Of the user, where Linux says it.
fn of_user() -> Option<String> {
    let most = soft_limit(&fs::read_to_string("/proc/self/limits").ok()?)?;
    Some(format!("this user may have {most}, by ulimit -u"))
}

fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max processes"))?;
    line.split_whitespace().next()?.parse().ok()
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
        assert_eq!(soft_limit(limits), Some(256));
        assert_eq!(
            soft_limit("Max processes             unlimited            unlimited            processes"),
            None
        );
    }

    #[test]
    fn only_panics_over_threads_are_refusals() {
        assert!(is_refusal("OS can't spawn worker thread: Resource temporarily unavailable (os error 11)"));
        assert!(is_refusal("failed to spawn thread: Os { code: 11, kind: WouldBlock, message: \"…\" }"));
        assert!(!is_refusal("index out of bounds: the len is 3 but the index is 4"));
    }
}
