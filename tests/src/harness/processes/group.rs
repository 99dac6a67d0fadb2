//! Signals to a process group that we made; on systems without them, nothing.

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process_group};

/// Asks the group of the unreaped child `pid` to end. False if it could not be asked.
pub(super) fn terminate(pid: u32) -> bool {
    #[cfg(unix)]
    return signal(pid, Signal::TERM);
    #[cfg(not(unix))]
    return {
        _ = pid;
        false
    };
}

/// Has the group of the unreaped child `pid` stand still, or go on. False if it could not be asked.
pub(super) fn freeze(pid: u32, frozen: bool) -> bool {
    #[cfg(unix)]
    return signal(pid, if frozen { Signal::STOP } else { Signal::CONT });
    #[cfg(not(unix))]
    return {
        _ = (pid, frozen);
        false
    };
}

/// Kills the group of the unreaped child `pid`, its grandchildren included.
pub(super) fn kill(pid: u32) {
    #[cfg(unix)]
    if !signal(pid, Signal::KILL) {
        tracing::debug!(pid, "no such process group");
    }
    #[cfg(not(unix))]
    {
        _ = pid;
    }
}

#[cfg(unix)]
fn signal(pid: u32, signal: Signal) -> bool {
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
    group.is_some_and(|group| kill_process_group(group, signal).is_ok())
}
