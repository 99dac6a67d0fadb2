//! Native isolation: runs one untrusted program with limits on all it can use and reach.
//!
//! [`Sandbox::open`] once a process, then [`Sandbox::run`] from any number of threads.

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

pub use error::IsolateError;
pub use job::{Collect, Job, MAX_FILES, MAX_MOUNTS, MAX_TEXT_BYTES, Mount, Placed, Source, WORK};
pub use limits::Limits;
pub use outcome::{Collected, End, Outcome, Usage};
pub use report::{Bound, Lack, Report, Requirements, Unfit};

/// What runs programs. Runs from several threads go on side by side.
#[derive(Debug)]
pub struct Sandbox {
    host: system::Host,
}

impl Sandbox {
    /// Finds out what the system gives, and prepares what runs share.
    ///
    /// # Errors
    /// When the system gives less than is asked for; the error lists all that is missing.
    pub fn open(requirements: &Requirements) -> Result<Self, Unfit> {
        Ok(Self { host: system::Host::open(requirements)? })
    }

    /// What enforces the limits here.
    pub fn report(&self) -> &Report {
        &self.host.report
    }

    /// Runs a program to its end. Blocks the thread, at most for [`Limits::wall`] and the time to clean up.
    ///
    /// # Errors
    /// When the job is malformed or the system fails. Neither says anything about the program.
    pub fn run(&self, job: &Job<'_>) -> Result<Outcome, IsolateError> {
        self.host.run(job)
    }
}
