//! Native isolation: runs one untrusted program with limits on all it can use and reach.
//!
//! ```no_run
//! use echo_sandbox::isolation::{End, Job, RunLimits, Requirements, Sandbox};
//!
//! let sandbox = Sandbox::open(&Requirements::default())?;
//! let job = Job {
//!     program: "/usr/bin/python3".as_ref(),
//!     args: &["-I".into(), "-c".into(), "print(int(input()) + 1)".into()],
//!     env: &[],
//!     mounts: &[],
//!     files: &[],
//!     collect: &[],
//!     stdin: b"41",
//!     limits: RunLimits::run(),
//! };
//! let outcome = sandbox.run(&job)?;
//! assert_eq!((outcome.end, outcome.stdout.as_slice()), (End::Exited(0), &b"42\n"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Imports nothing of this crate. `linux` has all that is done; elsewhere no sandbox opens.
//!
//! ```text
//! Requirements -> Sandbox::open -> probe -> IsolationReport, or Unfit with all that is missing
//! Job -> validate -> zygote_client -> (socket) -> zygote: fork, namespaces, mounts, seccomp, exec
//!     -> supervisor: feeds input, drains output, reads cgroups, kills at a limit
//!     -> collect: files that the program left -> RunOutcome { end, stdout, stderr, usage }
//! ```
//!
//! What a program gets:
//!
//! - namespaces of its own for mounts, processes, ipc, host name and control groups, and for
//!   users where the host is not root; a network namespace with nothing in it, which no other run
//!   has at the same time;
//! - a read-only root with the system's directories ([`Requirements::system`]), five devices, a
//!   `/proc` with its own processes alone, and a small tmpfs at [`WORK`], the only place to write;
//! - a user that owns nothing, no capability, no new privileges, no descriptor but the standard
//!   three, no variable and no argument but those of the job;
//! - Landlock rules that say the same about files once more, and an allow-list of system calls;
//! - limits on processor time, memory, processes and output of its whole tree, by control
//!   groups; where these are missing, by resource limits if [`Requirements::rlimits_suffice`],
//!   and [`IsolationReport`] says so.
//!
//! When the program ends, or reaches a limit, all its processes are killed before anything
//! is read or answered.
//!
//! The host starts its own executable a second time, as a small process out of which runs are
//! forked; a constructor that runs before `main` sees to that. The host must ignore `SIGPIPE`,
//! as Rust programs do.

#[cfg(all(test, target_os = "linux"))]
pub(crate) mod bombs;
mod error;
mod job;
mod limits;
mod outcome;
mod report;

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub mod soak;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(all(feature = "fuzzing", target_os = "linux"))]
pub(crate) use linux::zygote_message;

pub use error::IsolateError;
pub use job::{Collect, Job, MAX_FILES, MAX_MOUNTS, MAX_TEXT_BYTES, Mount, MountSource, Placed, WORK};
pub use limits::RunLimits;
pub use outcome::{Collected, End, RunOutcome, Usage};
pub use report::{IsolationReport, Lack, LimitEnforcer, Requirements, Unfit};

/// What runs programs. Runs from several threads go on side by side.
#[derive(Debug)]
pub struct Sandbox {
    host: system::IsolationHost,
}

impl Sandbox {
    /// Finds out what the system gives, and prepares what runs share.
    ///
    /// # Errors
    /// When the system gives less than is asked for; the error lists all that is missing.
    pub fn open(requirements: &Requirements) -> Result<Self, Unfit> {
        Ok(Self { host: system::IsolationHost::open(requirements)? })
    }

    /// What enforces the limits here.
    pub fn report(&self) -> &IsolationReport {
        &self.host.report
    }

    /// Runs a program to its end. Blocks the thread, for [`RunLimits::wall`] and the time to clean
    /// up at most, after a place is free: 64 programs run at one time.
    ///
    /// # Errors
    /// When the job is malformed or the system fails. Neither says anything about the program.
    pub fn run(&self, job: &Job<'_>) -> Result<RunOutcome, IsolateError> {
        self.host.run(job)
    }
}
