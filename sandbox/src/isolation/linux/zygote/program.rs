//! The last steps before a program is one: its user, files, descriptors, limits and filter.

use std::ffi::{CString, c_char, c_void};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::ptr;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, setrlimit};
use rustix::thread::CapabilitySet;

use super::super::failure_stage::{At, Stage, StageFailure};
use super::super::message::{PreparedJob, answer_failure};
use super::{Zygote, confine, filter};
use crate::isolation::WORK;

/// The stack on which the steps are done.
const STACK_BYTES: usize = 256 << 10;

/// The stack of a program's first thread, and by default of each other.
const PROGRAM_STACK_BYTES: u64 = 64 << 20;

/// Where address space is all that is limited, a stack has this part of it.
const STACKS: u64 = 16;

/// Starts the program and returns its process. It is a program by then, or has said what failed.
pub(super) fn start(zygote: &Zygote, task: &PreparedJob, stdio: [OwnedFd; 3]) -> Result<Pid, StageFailure> {
    let pointers = |texts: &[CString]| {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect::<Vec<*const c_char>>()
    };
    let (args, env) = (pointers(&task.args), pointers(&task.env));
    let mut birth = Birth { zygote, task, stdio, args, env };
    let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
    // SAFETY: one past the end of the vector, which is the top of a stack that grows down,
    // aligned to 16 bytes.
    let top = unsafe { stack.as_mut_ptr().add(stack.len()) };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: this process sleeps until the child has become the program or is gone, so that nobody
    // else touches the shared memory meanwhile; stack and argument outlive that. The child has the
    // process's only thread's place, so it may allocate.
    let pid = unsafe { libc::clone(be_born, top.cast(), flags, (&raw mut birth).cast()) };
    Pid::from_raw(pid).filter(|_| pid > 0).ok_or(Errno::AGAIN).at(Stage::PidNamespace)
}

/// What the child needs.
struct Birth<'a> {
    zygote: &'a Zygote,
    task: &'a PreparedJob,
    stdio: [OwnedFd; 3],
    args: Vec<*const c_char>,
    env: Vec<*const c_char>,
}

extern "C" fn be_born(birth: *mut c_void) -> libc::c_int {
    // SAFETY: `start` passes a pointer to a `Birth` that it keeps until this process is a program or gone.
    let birth = unsafe { &*birth.cast::<Birth<'_>>() };
    let failure = birth.steps();
    answer_failure(birth.zygote.channel.as_fd(), failure).ok();
    // SAFETY: ends this process alone; the memory is its parent's.
    unsafe { libc::_exit(127) }
}

impl Birth<'_> {
    /// Returns only when something fails.
    fn steps(&self) -> StageFailure {
        if let Err(failure) = self.prepare() {
            return failure;
        }
        // SAFETY: the program's path is a C string, and both lists hold C strings of the task and
        // end with a null pointer.
        unsafe { libc::execve(self.task.program.as_ptr(), self.args.as_ptr(), self.env.as_ptr()) };
        StageFailure {
            stage: Stage::Exec,
            errno: std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        }
    }

    fn prepare(&self) -> Result<(), StageFailure> {
        rustix::process::setsid().at(Stage::Identity)?;
        self.become_user()?;
        std::env::set_current_dir(WORK).at(Stage::Place)?;
        self.place()?;
        for (number, end) in self.stdio.iter().enumerate() {
            // SAFETY: the three are the standard descriptors, which nothing in this process owns.
            if unsafe { libc::dup2(end.as_raw_fd(), number as libc::c_int) } < 0 {
                return Err(std::io::Error::last_os_error()).at(Stage::Descriptors);
            }
        }
        // SAFETY: marks what this process has open beyond the standard descriptors; `exec` closes it.
        unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) };
        reset_signals();
        self.limit()?;
        filter::apply(&self.zygote.filter)
    }

    /// Becomes the program's user, without any capability.
    fn become_user(&self) -> Result<(), StageFailure> {
        let setup = &self.zygote.setup;
        if !setup.user_namespace {
            // SAFETY: raw numbers, as the kernel takes them; this process has one thread.
            let changed = unsafe {
                libc::syscall(libc::SYS_setgroups, 0, ptr::null::<libc::gid_t>()) == 0
                    && libc::syscall(libc::SYS_setresgid, setup.user, setup.user, setup.user) == 0
                    && libc::syscall(libc::SYS_setresuid, setup.user, setup.user, setup.user) == 0
            };
            if !changed {
                return Err(std::io::Error::last_os_error()).at(Stage::Identity);
            }
        }
        confine::keep_capabilities(CapabilitySet::empty())
    }

    fn place(&self) -> Result<(), StageFailure> {
        for file in &self.task.files {
            if let Some(parent) = file.name.parent().filter(|parent| *parent != Path::new("")) {
                fs::create_dir_all(parent).at(Stage::Place)?;
            }
            let mode = if file.executable { 0o700 } else { 0o600 };
            let mut placed = fs::File::options();
            placed.write(true).create_new(true).mode(mode);
            let mut placed = placed.open(&file.name).at(Stage::Place)?;
            std::io::Write::write_all(&mut placed, &file.bytes).at(Stage::Place)?;
            placed.set_permissions(fs::Permissions::from_mode(mode)).at(Stage::Place)?;
        }
        Ok(())
    }

    fn limit(&self) -> Result<(), StageFailure> {
        let limits = &self.task.limits;
        // The sum over the tree is watched from outside; these stop a single process should nobody watch.
        let cpu = limits.cpu.as_secs() + 2;
        // 1, not 0: where cores are piped to a program, only 1 stops that.
        let core = 1;
        // Every thread's stack is address space.
        let stack = if self.zygote.setup.rlimits_only { limits.memory / STACKS } else { PROGRAM_STACK_BYTES };
        let mut wanted = vec![
            (Resource::Cpu, cpu),
            (Resource::Fsize, limits.scratch),
            (Resource::Stack, stack),
            (Resource::Core, core),
            (Resource::Nofile, limits.open_files.into()),
            (Resource::Memlock, 0),
            (Resource::Msgqueue, 0),
            (Resource::Nice, 0),
            (Resource::Rtprio, 0),
        ];
        if self.zygote.setup.rlimits_only {
            wanted.push((Resource::As, limits.memory));
            // This counts what all runs of a user have, so it stands back where a control group
            // counts one run. It counts the first process too, and in a user namespace the zygote
            // and what it forks.
            wanted.push((Resource::Nproc, u64::from(limits.processes) + 4));
        }
        for (resource, most) in wanted {
            let most = rustix::process::getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            setrlimit(resource, limit).at(Stage::ResourceLimits)?;
        }
        Ok(())
    }
}

/// Gives every signal its default action, and lets all through.
fn reset_signals() {
    // SAFETY: all-zero is the default action with an empty mask, and every number is tried; the
    // kernel refuses those that cannot be set.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        for signal in 1..=libc::SIGRTMAX() {
            libc::sigaction(signal, &raw const default, ptr::null_mut());
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}
