//! The first process of a run: builds the run around itself, starts the program, reaps, and takes all down.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Gid, Uid, fchown};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Signal, WaitOptions, set_dumpable_behavior, set_parent_process_death_signal, wait,
};
use rustix::thread::CapabilitySet;

use super::super::failure_stage::{At, Stage, StageFailure};
use super::super::message::{Exit, PreparedJob, ZygoteReply, answer};
use super::mounts::{self, Detached};
use super::{Zygote, confine, program, unshare};

/// What programs see as the name of the machine.
const HOST_NAME: &[u8] = b"sandbox";

/// Lives as process 1 of a run, from its birth to its end.
pub(super) fn live(
    zygote: &Zygote,
    root: BorrowedFd<'_>,
    task: &PreparedJob,
    binds: Vec<Detached>,
    stdio: [OwnedFd; 3],
) -> ! {
    let said = match run(zygote, root, task, binds, stdio) {
        Ok(exit) => ZygoteReply::Exited(exit),
        Err(failure) => ZygoteReply::Failed(failure),
    };
    // When the host is gone, nobody needs to know.
    answer(&zygote.channel, &said).ok();
    // SAFETY: the child of a fork ends without running its parent's destructors; the kernel kills
    // what is left of the run.
    unsafe { libc::_exit(0) }
}

fn run(
    zygote: &Zygote,
    root: BorrowedFd<'_>,
    task: &PreparedJob,
    binds: Vec<Detached>,
    stdio: [OwnedFd; 3],
) -> Result<Exit, StageFailure> {
    // The kernel kills this process, and with it the run, when the zygote ends in whatever way.
    set_parent_process_death_signal(Some(Signal::KILL)).at(Stage::PidNamespace)?;
    // Unless it had ended before.
    let mut zygote_ended = [PollFd::new(&zygote.itself, PollFlags::IN)];
    if poll(&mut zygote_ended, Some(&Timespec::default())).at(Stage::PidNamespace)? > 0 {
        return Err(StageFailure { stage: Stage::PidNamespace, errno: libc::ESRCH });
    }
    for group in &zygote.join {
        rustix::io::write(group, b"0").at(Stage::JoinGroup)?;
    }
    let user = zygote.setup.user;
    if !zygote.setup.user_namespace {
        for end in &stdio {
            // So that the program's user can open `/dev/stdin` and its kin.
            fchown(end, Some(Uid::from_raw(user)), Some(Gid::from_raw(user))).at(Stage::Identity)?;
        }
    }
    let proc = zygote.proc.then(mounts::proc).transpose()?;
    mounts::enter(root)?;
    unshare(mounts::PER_RUN).at(Stage::OtherNamespaces)?;
    rustix::system::sethostname(HOST_NAME).at(Stage::OtherNamespaces)?;
    proc.iter().try_for_each(Detached::attach)?;
    let work = mounts::scratch(task.limits.scratch, user)?;
    binds.iter().try_for_each(Detached::attach)?;
    if task.collects {
        answer(&zygote.channel, &ZygoteReply::Work(work)).at(Stage::Channel)?;
    }
    let _tree = mounts::leave_table()?;
    let starting = CapabilitySet::KILL | CapabilitySet::SETUID | CapabilitySet::SETGID;
    confine::keep_capabilities(starting)?;
    rustix::thread::set_no_new_privs(true).at(Stage::NoNewPrivileges)?;
    confine::landlock()?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Stage::PidNamespace)?;

    let main = program::start(zygote, task, stdio)?;
    let started = Instant::now();
    // To end processes of another user is all that is left to do.
    confine::keep_capabilities(CapabilitySet::KILL)?;
    let status = loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => break status.as_raw(),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).at(Stage::Wait),
        }
    };
    let wall = started.elapsed();
    end_all()?;
    let (cpu, resident) = usage();
    Ok(Exit { status, wall, cpu, resident })
}

/// Kills and reaps all that the program left behind. The kernel signals every process at once, so
/// that none escapes by forking.
fn end_all() -> Result<(), StageFailure> {
    kill_all();
    loop {
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error).at(Stage::Wait),
        }
    }
}

fn kill_all() {
    // SAFETY: -1 means all processes of this namespace but process 1, which this is.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Processor time and the most resident bytes of all processes that were reaped.
fn usage() -> (Duration, u64) {
    // SAFETY: all-zero is a valid value of this structure of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call, which fills it in.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    (time(usage.ru_utime) + time(usage.ru_stime), usage.ru_maxrss as u64 * 1024)
}
