//! The zygote: a small process of its own, out of which runs are forked.
//!
//! A host may have many threads and gigabytes of weights. To fork from it would be slow, and
//! between `fork` and `exec` almost nothing is allowed there. So the host starts its own
//! executable a second time; a constructor, which runs before `main`, finds the mark in the
//! environment and becomes the zygote instead. The zygote has one thread and nothing of the
//! host's memory. It prepares once what runs share (a network namespace without any interface,
//! the read-only root, the compiled filter of system calls), then forks one run after the other.
//! Two runs at once have two zygotes.

mod confine;
mod filter;
mod init;
mod mounts;
mod program;
mod root;

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal, waitid,
};
use seccompiler::BpfProgram;

use self::root::Roots;
use super::cgroups;
use super::failure_stage::{At, Stage, StageFailure};
use super::message::{PreparedJob, ZygoteCommand, ZygoteReply, ZygoteSetup, answer};

/// The variable whose presence makes the executable a zygote.
pub(super) const MARK: &str = "ECHO_SANDBOX_KEEPER";

/// `CLONE_INTO_CGROUP`, which the C library's type is too narrow for.
const INTO_GROUP: u64 = 1 << 33;

const MARK_C: &CStr = c"ECHO_SANDBOX_KEEPER";

/// Runs before `main` in every program that links the sandbox.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// Whether the constructor is part of this executable. To ask for it makes the linker keep it.
pub(super) fn is_linked() -> bool {
    // SAFETY: START is a static that is always there; the volatile read only keeps it
    // from being optimised away.
    let start = unsafe { std::ptr::read_volatile(&raw const START) };
    start as usize != 0
}

extern "C" fn start() {
    // SAFETY: before `main` there is one thread, which nobody else's `setenv` can race with.
    if unsafe { libc::getenv(MARK_C.as_ptr()) }.is_null() {
        return;
    }
    let code = serve().map_or(1, |()| 0);
    // SAFETY: ends the process without running destructors or handlers of a `main` that never began.
    unsafe { libc::_exit(code) }
}

/// Follows the host's orders, which come over standard input, until the host is gone.
fn serve() -> io::Result<()> {
    // SAFETY: what is inherited beyond standard error belongs to nobody in this process.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    let channel = UnixStream::from(channel);
    rustix::process::setsid()?;
    // A machine that runs out of memory kills what is easiest to replace first.
    fs::write("/proc/self/oom_score_adj", "1000").ok();
    let Some(ZygoteCommand::Setup(setup)) = ZygoteCommand::receive(&channel)? else { return Ok(()) };
    let remove = setup.remove.clone();
    let served = match Zygote::new(channel.try_clone()?, setup) {
        Ok(mut zygote) => zygote.serve(),
        Err(failure) => answer(&channel, &ZygoteReply::Failed(failure)),
    };
    cgroups::remove(&remove);
    served
}

/// The zygote's state, made once and shared by all its runs.
struct Zygote {
    channel: UnixStream,
    /// This process, for its children to see whether it lives.
    itself: OwnedFd,
    setup: ZygoteSetup,
    /// The files of [`ZygoteSetup::join`].
    join: Vec<File>,
    born_in: Option<OwnedFd>,
    roots: Roots,
    filter: BpfProgram,
    /// Whether runs can have a `/proc`.
    proc: bool,
}

impl Zygote {
    fn new(channel: UnixStream, setup: ZygoteSetup) -> Result<Self, StageFailure> {
        let open = |path: &PathBuf| File::options().write(true).open(path).at(Stage::JoinGroup);
        let join = setup.join.iter().map(open).collect::<Result<_, _>>()?;
        let born_in = setup.born_in.as_ref().map(File::open).transpose().at(Stage::JoinGroup)?;
        if setup.user_namespace {
            enter_user_namespace(setup.user)?;
        }
        unshare(libc::CLONE_NEWNET).at(Stage::NetworkNamespace)?;
        confine::drop_bounding_set()?;
        let itself = pidfd_open(getpid(), PidfdFlags::empty()).at(Stage::PidNamespace)?;
        let roots = Roots::new(setup.system.clone());
        let filter = filter::compile(setup.rlimits_only)?;
        let born_in = born_in.map(OwnedFd::from);
        Ok(Self { channel, itself, setup, join, born_in, roots, filter, proc: true })
    }

    fn serve(&mut self) -> io::Result<()> {
        self.proc = match self.tries_proc() {
            Ok(proc) => proc,
            Err(failure) => return answer(&self.channel, &ZygoteReply::Failed(failure)),
        };
        answer(&self.channel, &ZygoteReply::Ready { proc: self.proc })?;
        while let Some(order) = ZygoteCommand::receive(&self.channel)? {
            match order {
                ZygoteCommand::Run(task, stdio) => match self.run(&task, stdio) {
                    Ok(child) => {
                        if self.attend(&child)? {
                            return Ok(());
                        }
                        answer(&self.channel, &ZygoteReply::Over)?;
                    }
                    Err(failure) => {
                        answer(&self.channel, &ZygoteReply::Failed(failure))?;
                        answer(&self.channel, &ZygoteReply::Over)?;
                    }
                },
                // The run was over before the order came.
                ZygoteCommand::Kill => {}
                ZygoteCommand::Setup(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(())
    }

    /// Whether the system lets runs mount a `/proc` of their own.
    fn tries_proc(&self) -> Result<bool, StageFailure> {
        let (child, _) = fork_into(libc::CLONE_NEWPID, None).at(Stage::PidNamespace)?;
        let Some(child) = child else {
            let code = i32::from(mounts::proc().is_err());
            // SAFETY: the child of a fork ends without running its parent's destructors.
            unsafe { libc::_exit(code) }
        };
        let status = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED).at(Stage::Wait)?;
        Ok(status.and_then(|status| status.exit_status()) == Some(0))
    }

    /// Forks a run, and returns the handle of its first process.
    fn run(&mut self, task: &PreparedJob, stdio: [OwnedFd; 3]) -> Result<OwnedFd, StageFailure> {
        let binds = task.mounts.iter().map(mounts::open).collect::<Result<Vec<_>, _>>()?;
        let layout = binds.iter().map(|bind| (bind.target.clone(), bind.directory)).collect::<Vec<_>>();
        let root = self.roots.get(&layout)?;
        let into = self.born_in.as_ref().map(AsFd::as_fd);
        let (child, pid) = fork_into(libc::CLONE_NEWPID, into).at(Stage::PidNamespace)?;
        match child {
            None => init::live(self, root.as_fd(), task, binds, stdio),
            Some(child) => {
                // A host that is gone is noticed where the next order is awaited.
                answer(&self.channel, &ZygoteReply::Born(pid)).ok();
                Ok(child)
            }
        }
    }

    /// Waits until a run is gone; says whether the host is gone too.
    fn attend(&self, child: &OwnedFd) -> io::Result<bool> {
        let mut host_gone = false;
        loop {
            let heard = if host_gone { PollFlags::empty() } else { PollFlags::IN };
            let mut fds = [PollFd::new(child, PollFlags::IN), PollFd::new(&self.channel, heard)];
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                polled => polled?,
            };
            if !fds[0].revents().is_empty() {
                waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED)?;
                return Ok(host_gone);
            }
            if !fds[1].revents().is_empty() && !host_gone {
                match ZygoteCommand::receive(&self.channel) {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => host_gone = true,
                }
                pidfd_send_signal(child, Signal::KILL).ok();
            }
        }
    }
}

/// Forks into new namespaces. `None` in the child; the child's handle and number in the parent.
///
/// The process has one thread, so the child may do all that the parent may.
fn fork_into(
    namespaces: libc::c_int,
    group: Option<std::os::fd::BorrowedFd<'_>>,
) -> io::Result<(Option<OwnedFd>, u32)> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: all-zero is a valid value of this structure of integers.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (namespaces | libc::CLONE_PIDFD) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    args.pidfd = &raw mut pidfd as u64;
    if let Some(group) = group {
        args.flags |= INTO_GROUP;
        args.cgroup = group.as_raw_fd() as u64;
    }
    // SAFETY: without CLONE_VM this is a fork: the child goes on with a copy of this stack. The
    // structure and the place for the handle outlive the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok((None, 0)),
        // SAFETY: the kernel has just opened this descriptor for us.
        pid => Ok((Some(unsafe { OwnedFd::from_raw_fd(pidfd) }), pid as u32)),
    }
}

/// Moves this process into new namespaces.
fn unshare(namespaces: libc::c_int) -> io::Result<()> {
    // SAFETY: the process has one thread, and shares its namespaces with no memory of its own.
    if unsafe { libc::unshare(namespaces) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gains all capabilities over namespaces of our own, which an ordinary user lacks. Mounts are
/// copied: changes to the copy stay in it. The user's further groups cannot be given up here; what
/// the root shows is all that they could open.
fn enter_user_namespace(user: u32) -> Result<(), StageFailure> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(libc::CLONE_NEWUSER).at(Stage::UserNamespace)?;
    // Without this an ordinary user may not map its group.
    fs::write("/proc/self/setgroups", "deny").at(Stage::UserMap)?;
    fs::write("/proc/self/uid_map", format!("{user} {uid} 1")).at(Stage::UserMap)?;
    fs::write("/proc/self/gid_map", format!("{user} {gid} 1")).at(Stage::UserMap)?;
    unshare(libc::CLONE_NEWNS).at(Stage::MountNamespace)
}
